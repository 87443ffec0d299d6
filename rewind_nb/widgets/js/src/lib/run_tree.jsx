// The runs as a tree that is moved in by arrow keys; only the rows in view are in the page.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Chip, plural } from "./parts.jsx";
import { useTrait } from "./wire.js";
import { useVirtual } from "./virtual_list.js";

const HEIGHT = 28; // px of a row, as in the style sheet
const INDENT = 16;
const DEEPEST = 10; // levels that are indented
const PAUSE = 120; // ms until what came into view is asked for
const AT_ONCE = 60;

export function RunTree({ drawn, model, wire, pair, selected, select }) {
  const { runs } = drawn;
  const [text, setText] = useState("");
  const [status, setStatus] = useState("");
  const [closed, setClosed] = useState(() => new Set());
  const name = useMemo(() => `rw${Math.random().toString(36).slice(2)}`, []);
  const wanted = text.trim().toLowerCase();
  const { rows, found } = useMemo(
    () => shownRows(runs, closed, wanted, status),
    [runs, closed, wanted, status],
  );
  const [active, setActive] = useState(selected);
  const current = rows.findIndex((row) => row.key === active);
  const list = useVirtual(rows, HEIGHT, current);
  const facts = useFacts(model, wire, list.shown.map(([row]) => row.run));
  const asked = useRef(null);

  const go = (i) => {
    if (!rows[i]) return;
    setActive(rows[i].key);
    list.reveal(i, 1, 0);
  };
  const pick = (id) => {
    asked.current = id;
    setActive(id);
    select(id);
  };
  const fold = (id, isClosed) => {
    const next = new Set(closed);
    if (isClosed) next.add(id);
    else next.delete(id);
    setClosed(next);
  };
  // What somebody else selected is brought into view.
  useEffect(() => {
    if (asked.current === selected) return;
    asked.current = selected;
    const i = rows.findIndex((row) => row.key === selected);
    if (i >= 0) go(i);
  }, [selected, rows]);

  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = rows[current];
    const page = Math.max(1, Math.floor(list.box.current.clientHeight / HEIGHT) - 1);
    const to = {
      ArrowDown: current + 1,
      ArrowUp: Math.max(0, current - 1),
      PageDown: Math.min(rows.length - 1, current + page),
      PageUp: Math.max(0, current - page),
      Home: 0,
      End: rows.length - 1,
    }[event.key];
    if (to !== undefined) go(to);
    else if (!row) return;
    else if (event.key === "Enter" || event.key === " ") pick(row.key);
    else if (event.key === "ArrowRight" && row.forks) {
      if (row.open) go(current + 1);
      else fold(row.key, false);
    } else if (event.key === "ArrowLeft") {
      if (row.forks && row.open) fold(row.key, true);
      else go(rows.findLastIndex((other, i) => i < current && other.run.level < row.run.level));
    } else return;
    event.preventDefault();
  };

  return (
    <>
      <div class="rw-tools">
        <input
          type="search"
          aria-label="show runs with this text in their id, label or override"
          placeholder="filter: id, label, override …"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <span class="rw-toggles" role="group" aria-label="status">
          {Object.entries(drawn.statuses).map(([words, [sign, colour, count]]) => (
            <button
              key={words}
              type="button"
              class={`rw-${colour}`}
              aria-pressed={status === words}
              onClick={() => setStatus(status === words ? "" : words)}
            >
              <i aria-hidden="true">{sign}</i> {words} <small>{count.toLocaleString("en")}</small>
            </button>
          ))}
        </span>
        <span class="rw-count rw-dim" role="status" aria-live="polite">
          {found.toLocaleString("en")} of {plural(runs.length, "run")}
        </span>
      </div>
      <div
        ref={list.box}
        role="tree"
        class="rw-grid rw-runs"
        tabIndex={0}
        aria-label="runs, each with its forks: arrow keys move, Enter selects"
        aria-activedescendant={current < 0 ? undefined : `${name}-${active}`}
        onKeyDown={onKey}
        onFocus={() => current < 0 && rows.length && setActive(rows[0].key)}
      >
        <div role="none" style={{ height: `${list.total}px`, position: "relative" }}>
          {list.shown.map(([row, , top]) => (
            <Row
              key={row.key}
              {...{ row, top, pick, fold, statuses: drawn.statuses }}
              id={`${name}-${row.key}`}
              active={row.key === active}
              selected={row.key === selected}
              side={["A", "B"].filter((_, n) => pair[n] === row.key).join(" ")}
              facts={facts(row.run)}
            />
          ))}
        </div>
      </div>
      {drawn.left_out > 0 && (
        <div class="rw-cut">
          … {plural(drawn.left_out, "older run")} not listed; store.runs_df() has all
        </div>
      )}
    </>
  );
}

function Row({ row, top, id, active, selected, side, facts, pick, fold, statuses }) {
  const { run, forks, open, dim } = row;
  const [sign, colour] = statuses[run.status] ?? ["?", "inherited"];
  const deep = Math.min(run.level, DEEPEST) - 1;
  const words = run.words || run.kind;
  const at = facts?.at && `at ${facts.at}: `;
  const what = run.kind === "fork" ? `${run.from && `of ${run.from} `}${at || ""}${words}` : `${run.kind}${run.from && ` of ${run.from}`}`;
  const cost = facts && !facts.error ? told(facts) : "";
  return (
    <div
      role="treeitem"
      id={id}
      class={`rw-run${active ? " rw-active" : ""}${selected ? " rw-at" : ""}${dim ? " rw-faint" : ""}`}
      style={{ top: `${top}px` }}
      aria-level={run.level}
      aria-setsize={row.size}
      aria-posinset={row.place}
      aria-expanded={forks ? open : undefined}
      aria-selected={selected}
      aria-label={[run.id, run.label, run.status, what, cost, side && `compared as ${side}`].filter(Boolean).join(", ")}
      data-run={run.id}
      title={[`${run.id} ${run.label}`, what, `${run.made} UTC`, cost, facts?.error].filter(Boolean).join("\n")}
      onClick={() => pick(run.id)}
    >
      <span class="rw-twig" style={{ width: `${deep * INDENT + 18}px` }} aria-hidden="true">
        {run.level > DEEPEST && <small>{run.level}</small>}
        {forks > 0 && (
          <i
            onClick={(event) => {
              event.stopPropagation();
              fold(run.id, open);
            }}
          >
            {open ? "▾" : "▸"}
          </i>
        )}
      </span>
      <Chip sign={sign} colour={colour}>{run.status}</Chip>
      <span class="rw-mono">{run.id}</span>
      {side && <b class="rw-side">{side}</b>}
      <span class="rw-what">
        {run.label && <b>{run.label} </b>}
        {run.experiment && <span class="rw-dim">{run.experiment} </span>}
        <span class={run.kind === "fork" ? "" : "rw-dim"}>{what}</span>
        {!open && forks > 0 && <span class="rw-dim"> · {plural(forks, "fork")} folded</span>}
      </span>
      <span class="rw-dim rw-spent">{facts?.error ? "damaged" : cost}</span>
      <span class="rw-dim rw-made">{run.made.slice(0, 16)}</span>
    </div>
  );
}

function told({ steps, tokens, cost }) {
  const spent = tokens === null ? "tokens unknown" : plural(tokens, "token");
  return [plural(steps, "step"), spent, cost.replace(/^unpriced .*/s, "unpriced")].join(" · ");
}

/** The runs that pass, each below the run it came from; those on the way to one are faint. */
function shownRows(runs, closed, wanted, status) {
  const passes = (run) =>
    (!status || run.status === status) &&
    (!wanted || `${run.id}\n${run.label}\n${run.words}\n${run.kind}\n${run.experiment}\n${run.from}`.toLowerCase().includes(wanted));
  const picking = Boolean(wanted || status);
  const keep = new Map();
  const way = [];
  let found = 0;
  for (const run of runs) {
    way.length = run.level - 1;
    way.push(run);
    if (!passes(run)) continue;
    found++;
    for (const above of way) if (!keep.has(above.id)) keep.set(above.id, true);
    keep.set(run.id, false);
  }
  const rows = [];
  const path = []; // the row of each level above
  const children = new Map(); // by parent: its rows
  let shut = Infinity;
  for (const run of runs) {
    if (!keep.has(run.id)) continue;
    path.length = run.level - 1;
    const above = path.at(-1);
    if (above) above.forks++;
    const row = { key: run.id, run, forks: 0, open: picking || !closed.has(run.id), dim: picking && keep.get(run.id) };
    path.push(row);
    const siblings = children.get(above) ?? [];
    siblings.push(row);
    children.set(above, siblings);
    if (run.level > shut) continue;
    shut = row.open ? Infinity : run.level;
    rows.push(row);
  }
  for (const siblings of children.values())
    siblings.forEach((row, i) => Object.assign(row, { place: i + 1, size: siblings.length }));
  return { rows, found };
}

/** What the runs in view cost: some are told with the tree, the others asked for. */
function useFacts(model, wire, shown) {
  const [given] = useTrait(model, "_facts");
  const [known, setKnown] = useState(() => new Map());
  const fresh = (run) => [given[run.id], known.get(run.id)].find((facts) => facts && (facts.version === run.version || facts.error));
  const missing = wire.state() === "saved" ? [] : shown.filter((run) => !fresh(run)).map((run) => run.id);
  const key = missing.slice(0, AT_ONCE).join(" ");
  useEffect(() => {
    if (!key) return undefined;
    let here = true;
    const timer = setTimeout(() => {
      wire.ask("facts", { runs: key.split(" ") }).then(
        (told) => here && setKnown((before) => new Map([...before, ...Object.entries(told)])),
        () => {}, // the frame says that nobody answers
      );
    }, PAUSE);
    return () => {
      here = false;
      clearTimeout(timer);
    };
  }, [key]);
  return (run) => fresh(run) ?? given[run.id] ?? known.get(run.id);
}
