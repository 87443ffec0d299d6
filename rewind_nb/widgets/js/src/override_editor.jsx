// The fields of a step: what was recorded beside what is typed, and a fork made of it.
import { useEffect, useRef, useState } from "preact/hooks";
import { EditField } from "./lib/edit_field.jsx";
import { ForkBar } from "./lib/fork_bar.jsx";
import { widget } from "./lib/frame.jsx";
import { plural } from "./lib/parts.jsx";
import { useAnswer, useTrait } from "./lib/wire.js";

const PAUSE = 150; // ms without a key until what was typed is checked

export function OverrideEditor({ model, wire, live }) {
  const [drawn] = useTrait(model, "_drawn");
  const [selection, select] = useTrait(model, "selection");
  const [result] = useTrait(model, "result");
  const [, setRun] = useTrait(model, "run_id");
  const [drafts, setDrafts] = useState({}); // by run and step, then by field
  const { run, steps, left } = drawn;
  const place = `${run.id}\n${selection}`;
  const own = drafts[place] ?? {};
  const type = (field, text) =>
    setDrafts((all) => {
      const { [field]: _, ...others } = all[place] ?? {};
      return { ...all, [place]: text === undefined ? others : { ...others, [field]: text } };
    });
  return (
    <>
      <div class="rw-head">
        <b>Edit a step</b>
        <Steps steps={steps} left={left} selection={selection} select={select} />
        <span class="rw-dim rw-small">
          of run <span class="rw-mono">{run.id}</span>, {run.told}
        </span>
      </div>
      {wire.state() === "saved" && (
        <div class="rw-box">This is a saved page: it is read-only. The notebook edits and forks.</div>
      )}
      {selection ? (
        <Step {...{ model, wire, live, run, address: selection, own, type }} />
      ) : (
        <div class="rw-dim rw-detail">Select a step to see what it can be given instead.</div>
      )}
      <Way result={result} run={run} setRun={setRun} live={live} />
    </>
  );
}

function Steps({ steps, left, selection, select }) {
  return (
    <select
      aria-label="step"
      value={selection}
      data-lm-suppress-shortcuts="true"
      onChange={(event) => select(event.currentTarget.value)}
    >
      <option value="">select a step</option>
      {steps.map(({ address, label, status }) => (
        <option key={address} value={address}>
          {label}
          {status !== "complete" && `, ${status}`}
        </option>
      ))}
      {left > 0 && <option disabled>{plural(left, "more step")}: set selection in code</option>}
    </select>
  );
}

function Step({ model, wire, live, run, address, own, type }) {
  const asked = useAnswer(wire, "step", { address }, `${run.id}\n${address}`);
  const step = asked?.value?.address === address ? asked.value : null;
  const edits = step ? step.fields.flatMap(({ id }) => (id in own ? [[id, own[id]]] : [])) : [];
  const checked = useCheck(wire, address, edits, `${run.id}\n${address}`, live);
  if (!step) return <div class="rw-dim rw-detail" role="status">{asked?.error ?? "…"}</div>;
  const refused = step.refused || (edits.length ? checked?.refused : "Nothing is changed yet.");
  return (
    <div class="rw-detail">
      {groups(step.fields).map(([name, fields]) => (
        <section key={name} class="rw-group-of" aria-label={name}>
          <div class="rw-title">{name}</div>
          {fields.map((field) =>
            field.kind ? (
              <EditField
                key={`${run.id}\n${address}\n${field.id}`}
                {...{ field, wire, address, type }}
                run={run.id}
                draft={own[field.id]}
                checked={checked?.fields?.[field.id]}
                editable={live && !step.refused}
              />
            ) : null,
          )}
        </section>
      ))}
      {step.fields.length === 0 && <div class="rw-dim">This step took nothing and left nothing.</div>}
      {step.left > 0 && <div class="rw-dim">{plural(step.left, "more field")}: fork in code to replace one.</div>}
      {checked?.error && <div class="rw-box rw-bad">{checked.error}</div>}
      <ForkBar
        {...{ model, wire, live }}
        fork={() => wire.ask("fork", { address, edits })}
        reproduce={() => wire.ask("reproduce", { address })}
        from={step.from === step.label ? "" : step.from}
        refused={refused}
        estimate={edits.length ? checked?.estimate : ""}
      />
    </div>
  );
}

/** What Python says of what was typed, asked when the typing pauses; the last answer until then. */
function useCheck(wire, address, edits, place, live) {
  const [answer, show] = useState({ place });
  const latest = useRef(0);
  const key = JSON.stringify(edits);
  useEffect(() => {
    const turn = ++latest.current;
    if (!live || !edits.length) {
      show({ place });
      return undefined;
    }
    const mine = (told) => turn === latest.current && show({ place, ...told });
    const timer = setTimeout(() => {
      wire.ask("check", { address, edits }).then(mine, (error) => mine({ error: error.message }));
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [place, key, live]);
  return answer.place === place ? answer : null;
}

/** To the fork that was made, and back to where it came from. */
function Way({ result, run, setRun, live }) {
  const next = result && result !== run.id;
  if (!live || !(next || run.parent)) return null;
  return (
    <div class="rw-way-on">
      {next && (
        <button type="button" onClick={() => setRun(result)}>
          Edit the fork <span class="rw-mono">{result}</span>
        </button>
      )}
      {run.parent && (
        <button type="button" onClick={() => setRun(run.parent)}>
          Back to its parent <span class="rw-mono">{run.parent}</span>
        </button>
      )}
    </div>
  );
}

/** Fields by their heading, in their order. */
function groups(fields) {
  const found = new Map();
  for (const field of fields) {
    if (!found.has(field.group)) found.set(field.group, []);
    found.get(field.group).push(field);
  }
  return [...found];
}

export default widget(OverrideEditor);
