// The cells of a grid over two of its axes; the others are chosen beside it.
import { useMemo, useState } from "preact/hooks";

const AT_ONCE = 2000; // cells in the page
const ACROSS = 40; // columns of them
const STEPS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };

export function Matrix({ grid, selection, select }) {
  const { axes, cells, looks } = grid;
  const [rows, setRows] = useState(0);
  const [across, setAcross] = useState(axes.length > 1 ? 1 : -1);
  const [fixed, setFixed] = useState({}); // by axis: the position of its value
  const strides = useMemo(() => stridesOf(axes), [axes.length]);
  const others = axes.map((_, n) => n).filter((n) => n !== rows && n !== across);
  const base = others.reduce((sum, n) => sum + strides[n] * (fixed[n] ?? 0), 0);
  const wide = across < 0 ? [""] : axes[across].labels.slice(0, ACROSS);
  const high = axes[rows].labels.slice(0, Math.max(1, Math.floor(AT_ONCE / wide.length)));
  const at = (i, j) => cells[base + strides[rows] * i + (across < 0 ? 0 : strides[across] * j)];
  const chosen = combination(selection);
  const [focus, setFocus] = useState([0, 0]);
  const turn = (setMine, mine, setOther, other) => (n) => {
    if (n === other) setOther(mine); // they change places
    setMine(n);
    setFocus([0, 0]);
  };
  const onKey = (event) => {
    const step = STEPS[event.key];
    if (!step) return;
    const place = event.target.closest("[data-place]")?.dataset.place.split(",").map(Number);
    if (!place) return;
    event.preventDefault();
    const [i, j] = [clamp(place[0] + step[0], high.length), clamp(place[1] + step[1], wide.length)];
    setFocus([i, j]);
    event.currentTarget.querySelector(`[data-place="${i},${j}"] button`)?.focus();
  };
  const cut = high.length < axes[rows].labels.length || (across >= 0 && wide.length < axes[across].labels.length);
  return (
    <>
      <div class="rw-axes">
        {axes.length > 1 && (
          <>
            <Pick label="Rows" options={names(axes)} value={rows} onPick={turn(setRows, rows, setAcross, across)} />
            <Pick label="Columns" options={names(axes)} value={across} onPick={turn(setAcross, across, setRows, rows)} />
          </>
        )}
        {others.map((n) => (
          <Pick
            key={n}
            label={axes[n].name}
            options={axes[n].labels}
            value={fixed[n] ?? 0}
            onPick={(value) => setFixed({ ...fixed, [n]: value })}
          />
        ))}
        <Baseline grid={grid} selection={selection} select={select} />
      </div>
      <div class="rw-scroll rw-matrix" onKeyDown={onKey}>
        <table class="rw-table">
          <thead>
            <tr>
              <th class="rw-corner">
                <span>{axes[rows].name} ↓</span>
                {across >= 0 && <span>{axes[across].name} →</span>}
              </th>
              {wide.map((label) => <th scope="col">{label}</th>)}
            </tr>
          </thead>
          <tbody>
            {high.map((label, i) => (
              <tr key={i}>
                <th scope="row">{label}</th>
                {wide.map((over, j) => {
                  const cell = at(i, j);
                  return cell ? (
                    <Cell
                      key={j}
                      cell={cell}
                      look={looks[cell.state]}
                      place={`${i},${j}`}
                      name={across < 0 ? label : `${label}, ${over}`}
                      chosen={chosen !== "" && combination(cell.key) === chosen}
                      reached={focus[0] === i && focus[1] === j}
                      onFocus={() => setFocus([i, j])}
                      select={select}
                    />
                  ) : <td key={j} class="rw-dim">…</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {(cut || grid.more > 0) && (
        <div class="rw-cut">not all cells are shown here; grid.df and grid.pivot() have all</div>
      )}
      <div class="rw-legend">
        {grid.legend.map(({ sign, colour, words, count }) => (
          <span key={words} class={`rw-${colour}`}>
            <i aria-hidden="true">{sign}</i>
            {count.toLocaleString("en")} {words}
          </span>
        ))}
      </div>
    </>
  );
}

function Cell({ cell, look, place, name, chosen, reached, onFocus, select }) {
  const [sign, colour] = look;
  const share = cell.share === null ? "" : ` rw-shared rw-share-${cell.state}`;
  return (
    <td data-place={place} class={`rw-${colour} rw-is-${cell.state.replace(" ", "-")}${share}`} style={cell.share === null ? undefined : { "--rw-p": cell.share }}>
      <button
        type="button"
        aria-pressed={chosen}
        tabIndex={reached ? 0 : -1}
        aria-label={`${name}: ${[cell.words, ...cell.lines].join("; ")}`}
        data-key={cell.key}
        onFocus={onFocus}
        onClick={() => select(cell.key)}
      >
        <b><i aria-hidden="true">{sign}</i> {cell.words}</b>
        {cell.lines.map((line) => <span class="rw-mono">{line}</span>)}
      </button>
    </td>
  );
}

function Baseline({ grid, selection, select }) {
  const { baseline, looks } = grid;
  const [sign, colour] = looks[baseline.state];
  const words = baseline.state === "same" ? baseline.lines : [baseline.words, ...baseline.lines];
  return (
    <button
      type="button"
      class={`rw-baseline rw-${colour}`}
      aria-pressed={selection === baseline.key}
      data-key={baseline.key}
      onClick={() => select(baseline.key)}
    >
      <span class="rw-dim">baseline</span> <i aria-hidden="true">{sign}</i> {words.join(" · ")}
    </button>
  );
}

function Pick({ label, options, value, onPick }) {
  return (
    <label>
      <span class="rw-dim">{label}</span>
      <select aria-label={label} value={value} onChange={(event) => onPick(Number(event.currentTarget.value))}>
        {options.map((words, n) => <option value={n}>{words}</option>)}
      </select>
    </label>
  );
}

const names = (axes) => axes.map((axis) => axis.name);
const clamp = (n, size) => Math.min(Math.max(n, 0), size - 1);

/** What the samples of one combination have in common. */
function combination(key) {
  const end = key.lastIndexOf("/");
  return end < 0 ? "" : key.slice(0, end);
}

/** How far apart two neighbours on each axis are; the last axis is the fastest. */
function stridesOf(axes) {
  const strides = axes.map(() => 1);
  for (let n = axes.length - 2; n >= 0; n--) strides[n] = strides[n + 1] * axes[n + 1].labels.length;
  return strides;
}
