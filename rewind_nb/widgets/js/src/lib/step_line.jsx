// The steps of a run in their order, as many in a row as there is room for.
import { plural } from "./parts.jsx";

export function StepLine({ steps, selection, select }) {
  return (
    <ol class="rw-scroll rw-steps">
      {steps.map((step) => (
        <li key={step.address}>
          <StepCard step={step} chosen={step.address === selection} select={select} />
        </li>
      ))}
    </ol>
  );
}

export function StepCard({ step, chosen, select }) {
  const did = step.how === "executed" ? step.source : step.how;
  const facts = [step.status === "complete" ? did : step.status];
  if (step.tasks) facts.push(plural(step.tasks, "task"));
  return (
    <button
      type="button"
      class={`rw-step rw-${step.colour} rw-is-${step.how}`}
      aria-pressed={chosen}
      title={[step.address, step.seconds, step.why, step.error].filter(Boolean).join("\n")}
      data-address={step.address}
      onClick={() => select(step.address)}
    >
      <b>
        <small>{step.seq}</small> {step.action}
        {step.visit > 1 && <small> visit {step.visit}</small>}
      </b>
      <span>
        <i aria-hidden="true">{step.sign}</i> {facts.join(", ")}
      </span>
    </button>
  );
}
