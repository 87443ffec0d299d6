// What is told of the selected step: its facts, why it executed or did not, its visits, its tasks.
import { Chip, plural } from "./parts.jsx";
import { StepCard } from "./step_line.jsx";
import { useAnswer } from "./wire.js";

export function StepDetail({ wire, address, steps, select, run }) {
  const known = steps.find((step) => step.address === address);
  const version = `${run.id} ${address} ${known?.status}`;
  const asked = useAnswer(wire, "step", address ? { address } : null, version);
  const inside = useAnswer(wire, "inside", known?.tasks ? { address } : null, version);
  if (!address) return <div class="rw-dim rw-detail">Select a step to see what it did and why.</div>;
  const told = asked?.value?.address === address ? asked.value : null;
  const step = told ?? known;
  if (!step) return <div class="rw-dim rw-detail">{asked?.error ?? "…"}</div>;
  const visits = steps.filter((other) => other.action === step.action);
  return (
    <section class="rw-detail" aria-label="the selected step">
      <div class="rw-head" aria-live="polite">
        <b>{step.action}</b>
        <span class="rw-mono">{step.address}</span>
        <Chip sign={step.sign} colour={step.colour}>
          {step.status === "complete" ? step.source : step.status}
        </Chip>
        <span class="rw-dim rw-small">
          step {step.seq} · {step.seconds} ·{" "}
          {step.tokens === null ? "tokens unknown" : plural(step.tokens, "token")}
        </span>
        {visits.length > 1 && <Visits visits={visits} address={address} select={select} />}
      </div>
      {step.error && <div class="rw-box rw-bad">{step.error}</div>}
      {(step.because || step.why) && <Row name="why">{step.because || step.why}</Row>}
      {step.reads?.length > 0 && <Row name="read"><Keys keys={step.reads} /></Row>}
      {step.writes?.length > 0 && <Row name="wrote"><Keys keys={step.writes} /></Row>}
      {step.calls?.map((call) => <Row name="call"><span class="rw-mono">{call}</span></Row>)}
      {step.condition && <Row name="then">{step.condition}</Row>}
      {inside?.value?.map(({ task, steps: inner }) => (
        <Row name={task}>
          <span class="rw-lane">
            {inner.map((one) => <StepCard step={one} chosen={false} select={select} />)}
          </span>
        </Row>
      ))}
    </section>
  );
}

function Visits({ visits, address, select }) {
  return (
    <span class="rw-choice" role="group" aria-label="visits">
      {visits.map((visit) => (
        <button
          type="button"
          aria-pressed={visit.address === address}
          aria-label={`visit ${visit.visit}`}
          onClick={() => select(visit.address)}
        >
          {visit.visit}
        </button>
      ))}
    </span>
  );
}

function Row({ name, children }) {
  return (
    <div class="rw-row">
      <span class="rw-dim">{name}</span>
      <div>{children}</div>
    </div>
  );
}

function Keys({ keys }) {
  return keys.map((key) => <code>{key}</code>);
}
