// A run: its actions as a graph or its steps as a line, and what is told of the selected step.
import { ActionGraph } from "./lib/action_graph.jsx";
import { widget } from "./lib/frame.jsx";
import { Chip, Choice } from "./lib/parts.jsx";
import { StepDetail } from "./lib/step_detail.jsx";
import { StepLine } from "./lib/step_line.jsx";
import { useTrait } from "./lib/wire.js";

const STATUS = {
  complete: ["✓", "good"],
  halted: ["‖", "inherited"],
  failed: ["✕", "bad"],
  interrupted: ["✕", "bad"],
  running: ["◔", "warn"],
};
const MODES = [["actions", "Actions"], ["steps", "Steps"]];

export function RunGraph({ model, wire }) {
  const [drawn] = useTrait(model, "_drawn");
  const [selection, select] = useTrait(model, "selection");
  const [mode, setMode] = useTrait(model, "mode");
  if (!drawn.run) return <div class="rw-dim">No run yet: the next one is shown here.</div>;
  const { run, graph, steps, legend } = drawn;
  const [sign, colour] = STATUS[run.status] ?? ["?", "inherited"];
  const Path = mode === "steps" ? StepLine : ActionGraph;
  return (
    <>
      <div class="rw-head">
        <b>Run</b>
        <span class="rw-mono">{run.id}</span>
        {run.label && <span>{run.label}</span>}
        <span aria-live="polite">
          <Chip sign={sign} colour={colour}>{run.status}</Chip>
        </span>
        <span class="rw-dim rw-small">{run.facts}</span>
        <Choice label="what a box is" options={MODES} value={mode} onChange={setMode} />
      </div>
      {run.kind !== "record" && <div class="rw-line">{run.told}</div>}
      {run.note && <div class="rw-box rw-warn">{run.note}</div>}
      {steps.length > 0 && (
        <Path graph={graph} steps={steps} selection={selection} select={select} />
      )}
      <div class="rw-legend">
        {legend.map(({ sign, colour, words, count }) => (
          <span class={`rw-${colour}`}>
            <i aria-hidden="true">{sign}</i>
            {count.toLocaleString("en")} {words}
          </span>
        ))}
      </div>
      <StepDetail wire={wire} address={selection} steps={steps} select={select} run={run} />
    </>
  );
}

export default widget(RunGraph);
