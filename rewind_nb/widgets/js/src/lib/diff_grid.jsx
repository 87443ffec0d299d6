// The rows of a diff, as a grid that is moved in by arrow keys; a row opens below itself.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { RowDetail } from "./diff_detail.jsx";
import { useVirtual } from "./virtual_list.js";
import { useTrait } from "./wire.js";

const HEIGHT = 30; // px of a row, as in the style sheet
const TAIL = 10; // characters of a path that are seen however narrow it is
const COLUMNS = ["path", "before", "after", "kind", "cause"];

export function DiffGrid({ drawn, model, wire, filter, grouped }) {
  const [selection] = useTrait(model, "selection");
  const [path] = useTrait(model, "path");
  const { rows } = filter;
  const [active, setActive] = useState(-1); // a position in drawn.rows
  const [open, setOpen] = useState(() => new Map()); // row → whether its chain is open
  const answers = useRef(new Map());
  const name = useMemo(() => `rw${Math.random().toString(36).slice(2)}`, []);
  const items = useMemo(
    () => listed(drawn, rows, grouped, open),
    [drawn, rows, grouped, open],
  );
  const position = useMemo(() => new Map(items.map((item, i) => [item.key, i])), [items]);
  const current = position.get(`r${active}`) ?? -1;
  const list = useVirtual(items, HEIGHT, current);
  const ours = useRef({ selection: "", path: "" });
  const opened = useRef(-1); // the row that is to stay in view with what opened below it

  const reveal = (row, count) => {
    const to = position.get(`r${row}`);
    if (to !== undefined) list.reveal(to, count, HEIGHT);
  };
  const go = (row) => {
    setActive(row);
    reveal(row, 1);
  };
  const choose = (address, field) => {
    ours.current = { selection: address, path: field };
    model.set("selection", address);
    model.set("path", field);
    model.save_changes(); // in one message: who observes one of them finds the other
  };
  const select = (address) => choose(address, path);
  const pick = (row) => {
    choose(drawn.steps[drawn.rows[row][0]][0], drawn.rows[row][1]);
    setActive(row);
  };
  const show = (row, isOpen, why = false) => {
    const next = new Map(open);
    if (isOpen) next.set(row, why);
    else next.delete(row);
    setOpen(next);
    opened.current = isOpen ? row : -1;
  };
  const press = (row) => {
    pick(row);
    show(row, !open.has(row), open.get(row));
  };

  useEffect(() => {
    if (open.has(opened.current)) reveal(opened.current, 2);
  }, [list.total]);

  // What somebody else selected is brought into view, and opened where it is a field.
  useEffect(() => {
    const mine = ours.current;
    if (mine.selection === selection && mine.path === path) return;
    ours.current = { selection, path };
    const of = (row) => drawn.steps[drawn.rows[row][0]][0] === selection;
    if (path && path !== mine.path) {
      const there = [...drawn.rows.keys()].filter((row) => drawn.rows[row][1] === path);
      const row = there.find(of) ?? there.at(-1); // the last that changed it, as in `Diff.why`
      if (row === undefined) return;
      show(row, true, open.get(row));
      go(row);
    } else if (selection && !(active >= 0 && of(active))) {
      const row = rows.find(of);
      if (row !== undefined) go(row);
    }
  }, [selection, path]);

  const onKey = (event) => {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = order(items);
    const now = at.indexOf(active);
    const page = Math.max(1, Math.floor((list.box.current.clientHeight - HEIGHT) / HEIGHT) - 1);
    const to = {
      ArrowDown: now + 1,
      ArrowUp: now < 0 ? 0 : now - 1,
      PageDown: now + page,
      PageUp: now - page,
      Home: 0,
      End: at.length - 1,
    }[event.key];
    if (to !== undefined && at.length) {
      opened.current = -1;
      go(at[Math.min(at.length - 1, Math.max(0, to))]);
    } else if (event.key === "Enter" && now >= 0) press(active);
    else if (event.key === " " && now >= 0) pick(active);
    else if (event.key === "ArrowRight" && now >= 0) show(active, true, open.get(active));
    else if (event.key === "ArrowLeft" && now >= 0) show(active, false);
    else return;
    event.preventDefault();
  };

  return (
    <div
      ref={list.box}
      role="grid"
      class="rw-grid"
      tabIndex={0}
      aria-label="changes: arrow keys move, Enter opens"
      aria-rowcount={items.length + 1}
      aria-colcount={COLUMNS.length}
      aria-activedescendant={current < 0 ? undefined : `${name}-${active}`}
      onKeyDown={onKey}
      onFocus={(event) => {
        if (event.target === event.currentTarget && active < 0 && rows.length) setActive(order(items)[0]);
      }}
    >
      <div role="row" aria-rowindex={1} class="rw-cells rw-grid-head">
        {COLUMNS.map((words) => <span role="columnheader">{words}</span>)}
      </div>
      <div role="rowgroup" style={{ height: `${list.total}px` }}>
        {list.shown.map(([item, i, top]) => (
          <Item
            key={item.key}
            {...{ item, top, drawn, wire, select, selection, press, show, open, pick }}
            index={i + 2}
            id={`${name}-${item.row}`}
            active={item.row === active}
            answers={answers.current}
            measured={list.measured}
          />
        ))}
      </div>
    </div>
  );
}

/** The rows in the order in which they stand in the grid. */
function order(items) {
  return items.flatMap((item) => (item.key[0] === "r" ? [item.row] : []));
}

/** What stands in the grid: rows, what opened below them, and a heading for each step. */
function listed(drawn, rows, grouped, open) {
  const items = [];
  const put = (row) => {
    items.push({ key: `r${row}`, row });
    if (open.has(row)) items.push({ key: `d${row}`, row, tall: true });
  };
  if (!grouped) {
    rows.forEach(put);
    return items;
  }
  const groups = new Map();
  for (const row of rows) {
    const step = drawn.rows[row][0];
    if (!groups.has(step)) groups.set(step, []);
    groups.get(step).push(row);
  }
  for (const [step, inside] of groups) {
    items.push({ key: `g${step}`, step, count: inside.length });
    inside.forEach(put);
  }
  return items;
}

function Item(given) {
  const { item } = given;
  if (item.tall) return <Opened {...given} />;
  return item.key[0] === "g" ? <Group {...given} /> : <Row {...given} />;
}

function Group({ item, index, top, drawn, selection, select }) {
  const [address, label] = drawn.steps[item.step];
  return (
    <div role="row" aria-rowindex={index} class="rw-group-row" style={{ top: `${top}px` }}>
      <span role="gridcell" aria-colspan={COLUMNS.length}>
        <button
          type="button"
          class="rw-goto"
          aria-pressed={address === selection}
          data-address={address}
          onClick={() => select(address)}
        >
          {label}
        </button>
        <span class="rw-dim rw-small">
          {item.count.toLocaleString("en")} change{item.count === 1 ? "" : "s"}
        </span>
      </span>
    </div>
  );
}

function Row({ item, index, top, id, active, drawn, selection, press, open, pick, show }) {
  const { row } = item;
  const [step, path, more, before, after, kind, cause] = drawn.rows[row];
  const [words, sign, colour] = drawn.kinds[kind];
  const [address, label] = drawn.steps[step];
  const isOpen = open.has(row);
  const why = (event) => {
    event.stopPropagation();
    pick(row);
    show(row, true, true);
  };
  return (
    <div
      role="row"
      id={id}
      aria-rowindex={index}
      aria-expanded={isOpen}
      aria-selected={active}
      class={`rw-cells rw-change${active ? " rw-active" : ""}${address === selection ? " rw-at" : ""}`}
      style={{ top: `${top}px` }}
      data-row={row}
      title={`${label}: ${path}${more}`}
      onClick={() => press(row)}
    >
      <span role="gridcell" class="rw-mono rw-field" aria-label={path + more}>
        <i aria-hidden="true" class="rw-open">{isOpen ? "▾" : "▸"}</i>
        <span>{path.slice(0, -TAIL)}</span>
        <span>{path.slice(-TAIL)}</span>
        {more && <span class="rw-dim">{more}</span>}
      </span>
      <Value value={before} />
      <Value value={after} />
      <span role="gridcell" class={`rw-kind rw-${colour}`}>
        <i aria-hidden="true">{sign}</i> {words}
      </span>
      <span role="gridcell" class="rw-cause">
        <span>{drawn.causes[cause]}</span>
        <button type="button" tabIndex={-1} onClick={why}>why</button>
      </span>
    </div>
  );
}


function Value({ value }) {
  if (value === null) return <span role="gridcell" class="rw-dim">—</span>;
  return <span role="gridcell" class="rw-mono">{value}</span>;
}

function Opened({ item, index, top, drawn, wire, select, open, show, answers, measured }) {
  const box = useRef(null);
  useEffect(() => {
    const seen = new ResizeObserver(() => measured(item.key, box.current?.offsetHeight));
    seen.observe(box.current);
    return () => seen.disconnect();
  }, [item.key]);
  const { row } = item;
  return (
    <div
      ref={box}
      role="row"
      aria-rowindex={index}
      class="rw-opened"
      style={{ top: `${top}px` }}
      data-detail={row}
    >
      <div role="gridcell" aria-colspan={COLUMNS.length}>
        <RowDetail
          {...{ drawn, wire, row, select, answers }}
          why={open.get(row)}
          setWhy={(on) => show(row, true, on)}
        />
      </div>
    </div>
  );
}
