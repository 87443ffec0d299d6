// Which changes are shown: those that hold a text, of the kinds that are pressed.
import { useEffect, useMemo, useState } from "preact/hooks";

const PAUSE = 120; // ms without a key after which the text is looked for

/** The filter of a table, and the rows that pass it. */
export function useFilter(drawn) {
  const [text, setText] = useState("");
  const [wanted, setWanted] = useState("");
  const [kinds, setKinds] = useState(() => new Set());
  useEffect(() => {
    const timer = setTimeout(() => setWanted(text.trim().toLowerCase()), text ? PAUSE : 0);
    return () => clearTimeout(timer);
  }, [text]);
  const hay = useMemo(() => (wanted ? haystacks(drawn) : null), [drawn, !wanted]);
  const rows = useMemo(
    () =>
      drawn.rows.flatMap((row, i) =>
        (kinds.size === 0 || kinds.has(row[5])) && (!hay || hay[i].includes(wanted)) ? [i] : [],
      ),
    [drawn, hay, wanted, kinds],
  );
  const toggle = (kind) => {
    const next = new Set(kinds);
    if (!next.delete(kind)) next.add(kind);
    setKinds(next);
  };
  const clear = () => {
    setText("");
    setKinds(new Set());
  };
  return { text, setText, kinds, toggle, clear, rows };
}

function haystacks({ rows, steps, kinds, causes }) {
  return rows.map(([step, path, more, before, after, kind, cause]) =>
    [path, more, before, after, kinds[kind][0], causes[cause], steps[step][1]]
      .join("\n")
      .toLowerCase(),
  );
}

export function DiffFilter({ drawn, filter, grouped, setGrouped }) {
  const { text, setText, kinds, toggle, clear, rows } = filter;
  const counts = useMemo(() => counted(drawn.rows), [drawn]);
  const total = drawn.rows.length;
  return (
    <div class="rw-tools">
      <input
        type="search"
        aria-label="show changes with this text in any column"
        placeholder="filter: path, value, cause …"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <span class="rw-toggles" role="group" aria-label="kinds of changes">
        {drawn.kinds.map(([words, sign, colour], kind) => (
          <button
            type="button"
            class={`rw-${colour}`}
            aria-pressed={kinds.has(kind)}
            title={`only ${words}`}
            onClick={() => toggle(kind)}
          >
            <i aria-hidden="true">{sign}</i> {words} <small>{counts[kind].toLocaleString("en")}</small>
          </button>
        ))}
      </span>
      <button type="button" aria-pressed={grouped} onClick={() => setGrouped(!grouped)}>
        Group by step
      </button>
      <span class="rw-count rw-dim" role="status" aria-live="polite">
        {rows.length.toLocaleString("en")} of {total.toLocaleString("en")} change
        {total === 1 ? "" : "s"}
      </span>
      {rows.length === 0 && <button type="button" onClick={clear}>Show all</button>}
    </div>
  );
}

function counted(rows) {
  const counts = [];
  for (const row of rows) counts[row[5]] = (counts[row[5]] ?? 0) + 1;
  return counts;
}
