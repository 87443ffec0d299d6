// Two runs of the tree, and what they differ in.
import { Chip } from "./parts.jsx";
import { useAnswer, useTrait } from "./wire.js";

export function RunPair({ wire, model, pair, choose, selectRun, selected, parent, versions }) {
  const [a, b] = pair;
  const put = (side) => choose(side === 0 ? [selected, b === selected ? "" : b] : [a === selected ? "" : a, selected]);
  const saved = wire.state() === "saved";
  return (
    <section class="rw-pair" aria-label="compare two runs">
      <div class="rw-tools">
        <span class="rw-dim">Compare</span>
        <Side name="A" id={a} selectRun={selectRun} />
        <span aria-hidden="true">→</span>
        <Side name="B" id={b} selectRun={selectRun} />
        {(a || b) && <button type="button" onClick={() => choose(["", ""])}>Clear</button>}
        {saved && !parent && !a && <span class="rw-dim">select a fork: a saved page compares it with its parent</span>}
        <span class="rw-buttons" role="group" aria-label="the selected run">
          {!saved && <button type="button" aria-pressed={a === selected} onClick={() => put(0)}>Selected as A</button>}
          {!saved && <button type="button" aria-pressed={b === selected} onClick={() => put(1)}>Selected as B</button>}
          {parent && <button type="button" onClick={() => choose([parent, selected])}>Selected with its parent</button>}
        </span>
      </div>
      {a && b && <Comparison {...{ wire, model, a, b, versions }} />}
    </section>
  );
}

function Side({ name, id, selectRun }) {
  return (
    <span class="rw-side-of">
      <b class="rw-side">{name}</b>{" "}
      {id ? (
        <button type="button" class="rw-mono" title={`select ${id}`} onClick={() => selectRun(id)}>{id}</button>
      ) : (
        <span class="rw-dim">not chosen</span>
      )}
    </span>
  );
}

function Comparison({ wire, model, a, b, versions }) {
  const [ready] = useTrait(model, "_ready");
  const [, select] = useTrait(model, "selection");
  const asked = useAnswer(wire, "compare", { a, b }, `${a} ${b} ${ready} ${versions}`);
  const told = asked?.value?.runs?.join(" ") === `${a} ${b}` ? asked.value : null;
  if (asked?.error) return <div class="rw-box rw-bad" role="status">{asked.error}</div>;
  if (!told) return <div class="rw-dim rw-box" role="status">Comparing …</div>;
  const { first } = told;
  return (
    <div class="rw-box" role="status" aria-live="polite">
      <div>
        <Chip sign={told.identical ? "=" : "~"} colour={told.identical ? "good" : "warn"}>{told.told}</Chip>{" "}
        <span class="rw-dim">{told.shared} · {told.outcome}</span>
      </div>
      {told.cause && <div class="rw-line"><span class="rw-dim">override</span> {told.cause}</div>}
      {first && (
        <div class="rw-line">
          <span class="rw-dim">first divergence</span>{" "}
          <button type="button" class="rw-goto" onClick={() => select(first.address)}>{first.label}</button>{" "}
          <span class="rw-mono">{first.path}</span>
          <div class="rw-mono rw-line">
            {first.sides[0] !== null && <del>{first.sides[0]}</del>}
            {first.sides[0] !== null && first.sides[1] !== null && <span class="rw-dim"> → </span>}
            {first.sides[1] !== null && <ins>{first.sides[1]}</ins>}
          </div>
          {first.why && <div class="rw-line"><span class="rw-dim">cause</span> {first.why}</div>}
        </div>
      )}
      <div class="rw-line rw-dim rw-small">all of it: <span class="rw-mono">{told.code}</span></div>
    </div>
  );
}
