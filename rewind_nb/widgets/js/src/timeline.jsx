// The runs of a store: a tree of forks, the steps of the selected run one by one, two compared.
import { useEffect, useState } from "preact/hooks";
import { widget } from "./lib/frame.jsx";
import { RunPair } from "./lib/run_pair.jsx";
import { RunSteps } from "./lib/run_steps.jsx";
import { RunTree } from "./lib/run_tree.jsx";
import { useTrait } from "./lib/wire.js";

export function Timeline({ model, wire, live }) {
  const [drawn] = useTrait(model, "_drawn");
  const [runId, selectRun] = useTrait(model, "run_id");
  const [compared, setCompared] = useTrait(model, "compared");
  const [pair, setPair] = useState(() => sides(compared));
  useEffect(() => {
    if (compared) setPair(sides(compared)); // somebody else chose
  }, [compared]);
  const choose = (next) => {
    setPair(next);
    setCompared(next.every(Boolean) ? next.join(" ") : "");
  };
  if (!drawn.runs) return <div class="rw-dim">…</div>;
  const chosen = drawn.runs.find((row) => row.id === runId);
  return (
    <>
      <Head drawn={drawn} model={model} wire={wire} live={live} />
      {drawn.runs.length ? (
        <RunTree {...{ drawn, model, wire, pair }} selected={runId} select={selectRun} />
      ) : (
        <div class="rw-dim rw-detail">
          {drawn.there ? "No runs yet." : "There is no store yet: the first run that is recorded makes it."}
          {live && " Refresh shows what is there by then."}
        </div>
      )}
      {runId && (
        <RunPair {...{ wire, model, pair, choose, selectRun }} selected={runId} parent={parentOf(drawn, chosen)} versions={versionsOf(drawn, pair)} />
      )}
      {runId && <RunSteps {...{ model, wire, live, selectRun }} run={runId} row={chosen} />}
    </>
  );
}

function Head({ drawn, model, wire, live }) {
  const [experiments, setExperiments] = useTrait(model, "experiments");
  const [state, setState] = useState("");
  const renew = () => {
    setState("Reading …");
    wire.ask("renew").then(() => setState(""), (error) => setState(error.message));
  };
  const others = `${drawn.others.toLocaleString("en")} of experiments left out`;
  return (
    <div class="rw-head">
      <b>Runs</b>
      <span class="rw-mono rw-small">{drawn.where}</span>
      <span class="rw-dim rw-small">
        {drawn.told}
        {drawn.others > 0 && ` · ${others}`}
      </span>
      <span class="rw-buttons">
        <span class="rw-dim rw-small" role="status">{state}</span>
        {live && (drawn.others > 0 || experiments) && (
          <label class="rw-small rw-check">
            <input type="checkbox" checked={experiments} onChange={(event) => setExperiments(event.currentTarget.checked)} />
            runs of experiments
          </label>
        )}
        {live && <button type="button" onClick={renew}>Refresh</button>}
      </span>
    </div>
  );
}

const sides = (compared) => {
  const ids = compared.split(" ").filter(Boolean);
  return [ids[0] ?? "", ids[1] ?? ""];
};

/** What changes when one of two runs does. */
const versionsOf = ({ runs }, pair) => runs.flatMap(({ id, version }) => (pair.includes(id) ? [version] : [])).join(" ");

/** The run that a listed one was forked or replayed from, "" for none. */
function parentOf({ runs }, row) {
  if (!row) return "";
  if (row.level === 1) return row.from;
  for (let i = runs.indexOf(row) - 1; i >= 0; i--) if (runs[i].level < row.level) return runs[i].id;
  return "";
}

export default widget(Timeline);
