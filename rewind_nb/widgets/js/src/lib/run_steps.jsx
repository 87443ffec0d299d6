// A run step by step: a slider over its steps, and the state that the chosen one left.
import { useEffect, useState } from "preact/hooks";
import { OverrideEditor } from "../override_editor.jsx";
import { Chip, plural } from "./parts.jsx";
import { StateTable } from "./state_table.jsx";
import { useAnswer, useTrait } from "./wire.js";

const SIGNS = 60; // steps that have a sign above the slider

export function RunSteps({ model, wire, live, run, row, selectRun }) {
  const [selection, select] = useTrait(model, "selection");
  const [given] = useTrait(model, "_facts");
  const version = `${run} ${row?.version} ${given[run]?.steps}`;
  const asked = useAnswer(wire, "run", { run }, version);
  const told = asked?.value?.id === run ? asked.value : null;
  if (!told) return <div class="rw-dim rw-detail" role="status">{asked?.error ?? "…"}</div>;
  const { steps } = told;
  const [sign, colour] = told.look;
  const at = placeOf(steps, selection);
  return (
    <section class="rw-detail" aria-label="the selected run">
      <div class="rw-head">
        <b>{told.label || "Run"}</b>
        <span class="rw-mono">{told.id}</span>
        <Chip sign={sign} colour={colour}>{told.status}</Chip>
        <span class="rw-dim rw-small">{told.facts}</span>
        {told.parent && (
          <button type="button" class="rw-small" onClick={() => selectRun(told.parent)}>Go to its parent</button>
        )}
      </div>
      {told.kind !== "record" && <div class="rw-line">{told.told}</div>}
      {told.note && <div class="rw-box rw-warn">{told.note}</div>}
      {steps.length ? (
        <>
          <Slider steps={steps} at={at} select={select} />
          {told.left_out > 0 && <div class="rw-cut">… {plural(told.left_out, "later step")} not shown; run.steps has all</div>}
          <AtStep {...{ model, wire, live, version, select }} run={run} step={steps[at]} />
        </>
      ) : (
        <div class="rw-dim rw-line">It has no step yet.</div>
      )}
    </section>
  );
}

/** The position of the selected step; of one inside a task, that of the step around it. */
function placeOf(steps, selection) {
  const [outer] = selection.split("[");
  const found = steps.findIndex(({ address }) => address === selection || address === outer);
  return found < 0 ? steps.length - 1 : found;
}

function Slider({ steps, at, select }) {
  const step = steps[at];
  const go = (i) => select(steps[Math.min(steps.length - 1, Math.max(0, i))].address);
  return (
    <div class="rw-slider">
      <div class="rw-slider-head">
        <b>{step.label}</b>
        <Chip sign={step.sign} colour={step.colour}>{step.words}</Chip>
        <span class="rw-dim rw-small">{at + 1} of {steps.length.toLocaleString("en")}</span>
      </div>
      <div class="rw-slider-line">
        <button type="button" aria-label="the step before" disabled={at === 0} onClick={() => go(at - 1)}>‹</button>
        <div class="rw-slider-way">
          {steps.length <= SIGNS && (
            <div class="rw-signs" aria-hidden="true">
              {steps.map(({ address, label, sign, colour, words }, i) => (
                <span
                  key={address}
                  class={`rw-${colour}${i === at ? " rw-here" : ""}`}
                  style={{ left: steps.length > 1 ? `${(100 * i) / (steps.length - 1)}%` : "50%" }}
                  title={`${label}: ${words}`}
                  onClick={() => go(i)}
                >
                  {sign}
                </span>
              ))}
            </div>
          )}
          <input
            type="range"
            min={0}
            max={steps.length - 1}
            value={at}
            aria-label="step of the run"
            aria-valuetext={`${step.label}, ${step.words}, ${at + 1} of ${steps.length}`}
            onInput={(event) => go(Number(event.currentTarget.value))}
          />
        </div>
        <button type="button" aria-label="the step after" disabled={at === steps.length - 1} onClick={() => go(at + 1)}>›</button>
      </div>
    </div>
  );
}

function AtStep({ model, wire, live, run, step, version, select }) {
  const { address } = step;
  const place = `${version} ${address}`;
  const asked = useAnswer(wire, "state", { run, address }, place);
  const [last, keep] = useState(null); // shown, faint, until the next is there
  useEffect(() => {
    if (asked?.value) keep(asked.value);
  }, [asked]);
  if (asked?.error) return <div class="rw-box rw-bad" role="status">{asked.error}</div>;
  const told = asked?.value ?? last;
  if (!told) return <div class="rw-dim">…</div>;
  const current = told.run === run && told.address === address;
  return (
    <div class={current ? "" : "rw-faint"} aria-busy={!current}>
      {told.error && <div class="rw-box rw-bad">{told.error}</div>}
      <StateTable told={told} run={run} wire={wire} key={run} />
      <Actions {...{ model, wire, live, run, step, select }} code={told.code} />
    </div>
  );
}

/** Both actions of a step: in an editor where there is a Rewind, as code to type everywhere. */
function Actions({ model, wire, live, run, step, select, code }) {
  const [acts] = useTrait(model, "_acts");
  const [editing] = useTrait(model, "_editing");
  const [open, setOpen] = useState(false);
  const [error, setError] = useState("");
  const begin = () => {
    setError("");
    select(step.address);
    wire.ask("edit", { run, address: step.address }).then(() => setOpen(true), (problem) => setError(problem.message));
  };
  return (
    <section class="rw-actions" aria-label="fork or reproduce here">
      {acts && live && (
        <button type="button" aria-expanded={open} onClick={open ? () => setOpen(false) : begin}>
          {open ? "Close the editor" : "Edit, fork or reproduce here"}
        </button>
      )}
      {error && <div class="rw-box rw-bad">{error}</div>}
      {open && editing._drawn && <Editor {...{ model, wire, live }} />}
      {!open && (
        <Code
          name="Fork here"
          words={`(re-executes, may call the model)${code.changes ? "; put another value in" : ""}`}
          code={code.fork}
        />
      )}
      {!open && <Code name="Reproduce from here" words="(plays back, no call)" code={code.reproduce} />}
    </section>
  );
}

function Code({ name, words, code }) {
  const [copied, setCopied] = useState("");
  const copy = () =>
    Promise.resolve(navigator.clipboard?.writeText(code) ?? Promise.reject())
      .then(() => setCopied("Copied."), () => setCopied("Select it and copy it: the page may not."));
  return (
    <div class="rw-code">
      <div>
        {name} <span class="rw-dim">{words}</span>
      </div>
      <div class="rw-code-line">
        <code class="rw-mono" tabIndex={0}>{code}</code>
        <button type="button" aria-label={`copy: ${name}`} onClick={copy}>Copy</button>
        <span class="rw-dim rw-small" role="status">{copied}</span>
      </div>
    </div>
  );
}

/** The editor of overrides, on the timeline's own traits. */
function Editor({ model, wire, live }) {
  const [inner] = useState(() => ({
    model: {
      get: (name) => (MIRRORED.includes(name) ? model.get("_editing")[name] : model.get(name)),
      set: (name, value) => model.set(name, value),
      save_changes: () => model.save_changes(),
      on: (name, each) => model.on(renamed(name), each),
      off: (name, each) => model.off(renamed(name), each),
    },
    wire: {
      ...wire,
      ask: (ask, args = {}) =>
        wire.ask("editor", { ask, args }).then((told) => {
          if ("error" in told) throw new Error(told.error);
          return told.answer;
        }),
    },
  }));
  return (
    <div class="rw-box rw-editor">
      <OverrideEditor model={inner.model} wire={inner.wire} live={live} />
    </div>
  );
}

const MIRRORED = ["_drawn", "_told", "result"];

const renamed = (name) => (MIRRORED.includes(name.replace("change:", "")) ? "change:_editing" : name);
