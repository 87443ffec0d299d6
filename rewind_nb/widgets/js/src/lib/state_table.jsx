// The state that a step left: a row for each field, first those that the step touched.
import { useState } from "preact/hooks";
import { Pieces } from "./pieces.jsx";
import { plural } from "./parts.jsx";
import { useAnswer } from "./wire.js";

const UNTOUCHED = 8; // fields that are shown before all are asked for

export function StateTable({ told, run, wire }) {
  const [all, setAll] = useState(false);
  const touched = told.keys.filter(({ change }) => change);
  const shown = all ? told.keys : told.keys.slice(0, touched.length + UNTOUCHED);
  const changed = touched.filter(({ change }) => change !== "written, equal").length;
  const rest = told.keys.length - shown.length;
  if (!told.keys.length) return <div class="rw-dim rw-line">The state is empty here.</div>;
  return (
    <>
      <div class="rw-title">
        {told.left ? "State after this step" : "State that entered this step, which left none"}{" "}
        <span class="rw-dim rw-small">
          {plural(told.keys.length + told.left_out, "field")}
          {told.left && `, ${changed} changed`}
        </span>
      </div>
      <div class="rw-scroll rw-state-of">
        <table class="rw-table">
          <thead>
            <tr>
              <th scope="col">change</th>
              <th scope="col">field</th>
              <th scope="col">type</th>
              <th scope="col">value</th>
            </tr>
          </thead>
          <tbody>{shown.map((field) => <Field key={field.name} {...{ field, run, wire }} address={told.address} />)}</tbody>
        </table>
      </div>
      {rest > 0 && <button type="button" class="rw-more" onClick={() => setAll(true)}>Show {plural(rest, "more field")}</button>}
      {told.left_out > 0 && <div class="rw-cut">… {plural(told.left_out, "more field")} not shown; run.state_at() has all</div>}
    </>
  );
}

function Field({ field, run, wire, address }) {
  const { name, change, sign, colour, kind, before, after, more } = field;
  const [open, setOpen] = useState(false);
  const asked = useAnswer(wire, "value", open ? { run, address, name } : null, `${open} ${address}`);
  return (
    <tr class={change ? `rw-touched rw-${colour}` : ""} data-field={name}>
      <td class="rw-kind rw-keep">{change ? <><i aria-hidden="true">{sign}</i> {change}</> : <span class="rw-dim">unchanged</span>}</td>
      <td class="rw-mono">{field.key}</td>
      <td class="rw-dim rw-small">{kind}</td>
      <td class="rw-mono">
        {before !== null && <del>{before}</del>}
        {before !== null && after !== null && <span class="rw-dim"> → </span>}
        {after !== null && (before === null ? after : <ins>{after}</ins>)}
        {more && (
          <>
            {" "}
            <button type="button" class="rw-small" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? "less" : "more"}</button>
          </>
        )}
        {open && asked?.error && <div class="rw-box rw-bad">{asked.error}</div>}
        {open && asked?.value && (
          <Pieces pieces={asked.value.pieces.map(([sort, text]) => [asked.value.same && sort === "added" ? "same" : sort, text])} prose={asked.value.prose} />
        )}
      </td>
    </tr>
  );
}
