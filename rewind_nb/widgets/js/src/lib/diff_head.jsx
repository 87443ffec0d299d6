// What is told of a diff as a whole: whether the runs differ, what set them apart, how they ended.
import { Chip } from "./parts.jsx";

export function DiffHead({ drawn, select }) {
  const { runs, identical, told, facts, overrides, warnings, outcome } = drawn;
  const oneSided = overrides.every(([side]) => side === "after");
  return (
    <>
      <div class="rw-head">
        <b>Diff</b>
        <span class="rw-mono">{runs[0]}</span>→<span class="rw-mono">{runs[1]}</span>
        <Chip sign={identical ? "=" : "≠"} colour={identical ? "good" : "warn"}>{told}</Chip>
        <span class="rw-dim rw-small">{facts}</span>
      </div>
      {overrides.map(([side, words, address, label]) => (
        <div class="rw-line">
          <Chip sign="✎" colour="override">{oneSided ? "override" : `override ${side}`}</Chip>{" "}
          <b>{words}</b> <Goto address={address} label={label} select={select} />
        </div>
      ))}
      {warnings.map((words) => <div class="rw-box rw-warn">{words}</div>)}
      <div class="rw-line rw-dim">{outcome}</div>
    </>
  );
}

/** A step by its name; a press selects it. */
export function Goto({ address, label, select, children }) {
  return (
    <button type="button" class="rw-goto" data-address={address} onClick={() => select(address)}>
      {children ?? label}
    </button>
  );
}
