// One thing that a step can consume: what was recorded, what is typed instead, what that changes.
import { useState } from "preact/hooks";
import { Chip } from "./parts.jsx";
import { Pieces } from "./pieces.jsx";
import { useAnswer } from "./wire.js";

const MOST_ROWS = 18;

/**
 * A field, folded until it is pressed.
 * `draft` is what was typed, undefined for nothing; `checked` what Python says of it.
 */
export function EditField({ field, wire, address, run, draft, checked, type, editable }) {
  const [open, setOpen] = useState(draft !== undefined);
  const [id] = useState(() => `rw-${Math.random().toString(36).slice(2)}`);
  return (
    <div class={`rw-ed-field${open ? " rw-ed-open" : ""}`} data-field={field.id}>
      <button
        type="button"
        class="rw-ed-fold"
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setOpen(!open)}
      >
        <span class="rw-ed-turn" aria-hidden="true">{open ? "▾" : "▸"}</span>
        <b>{field.name}</b>
        <Mark field={field} draft={draft} problem={checked?.problem} />
        {!open && <span class="rw-dim rw-ed-preview">{field.preview}</span>}
      </button>
      <div id={id} hidden={!open}>
        {open && (
          <Panel
            key={`${run}\n${address}`}
            {...{ field, wire, address, run, draft, checked, type, editable, id }}
          />
        )}
      </div>
    </div>
  );
}

function Mark({ field, draft, problem }) {
  if (problem) return <Chip sign="✕" colour="bad">not valid</Chip>;
  if (draft !== undefined) return <Chip sign="✎" colour="override">edited</Chip>;
  if (field.locked) return <Chip sign="⊘" colour="inherited">not edited here</Chip>;
  return field.absent && field.kind !== "patch" && <Chip sign="○" colour="inherited">not recorded</Chip>;
}

function Panel({ field, wire, address, run, draft, checked, type, editable, id }) {
  const asked = useAnswer(wire, "recorded", { address, field: field.id }, run);
  const recorded = asked?.value;
  if (!recorded) return <div class="rw-dim rw-ed-panel">{asked?.error ?? "…"}</div>;
  return (
    <div class="rw-ed-panel">
      <div class="rw-ed-sides">
        {!field.absent && (
          <section class="rw-ed-side">
            <div class="rw-small rw-dim">recorded</div>
            <pre class="rw-pre rw-mono" tabIndex={0} aria-label={`${field.name}, as recorded`}>
              {recorded.shown}
            </pre>
          </section>
        )}
        {!field.locked && (
          <Typed {...{ field, recorded, draft, checked, type, editable, id }} />
        )}
      </div>
      {field.locked && (
        <div class="rw-box">
          {field.locked} {recorded.code && <>In code: <code class="rw-mono">{recorded.code}</code></>}
        </div>
      )}
      {draft !== undefined && checked?.pieces?.length > 0 && (
        <section>
          <div class="rw-small rw-dim">what changes</div>
          <Pieces pieces={checked.pieces} prose={field.form === "text"} />
        </section>
      )}
    </div>
  );
}

function Typed({ field, recorded, draft, checked, type, editable, id }) {
  const text = draft ?? recorded.text;
  const problem = checked?.problem;
  const common = {
    id: `${id}-text`,
    class: "rw-mono rw-ed-typed",
    value: text,
    readOnly: !editable,
    spellcheck: field.form === "text" && !field.line,
    "aria-invalid": Boolean(problem),
    "aria-describedby": `${id}-problem`,
    placeholder: field.hint,
    "data-lm-suppress-shortcuts": "true",
    onInput: (event) => {
      const typed = event.currentTarget.value;
      type(field.id, typed === asShown(recorded.text) ? undefined : typed);
    },
  };
  const rows = Math.min(MOST_ROWS, Math.max(2, text.split("\n").length));
  return (
    <section class="rw-ed-side">
      <label class="rw-small rw-dim" for={`${id}-text`}>
        {field.kind === "patch" ? "patch" : "edit"}
        {field.form === "json" && ", as JSON"}
      </label>
      {draft !== undefined && (
        <button type="button" class="rw-small rw-ed-reset" onClick={() => type(field.id, undefined)}>
          Reset<span class="rw-hidden"> {field.name}</span>
        </button>
      )}
      {field.line ? <input type="text" {...common} /> : <textarea rows={rows} {...common} />}
      <div id={`${id}-problem`} class="rw-ed-problem-of" aria-live="polite">
        {problem && <><span aria-hidden="true">✕ </span>{problem}</>}
      </div>
    </section>
  );
}

/** A text as a text area gives it back: it knows one end of a line only. */
function asShown(text) {
  return text.replace(/\r\n?/g, "\n");
}
