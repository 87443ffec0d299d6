// What an experiment was asked, how far it is, what it costs, and its buttons.
import { useState } from "preact/hooks";
import { Chip } from "./parts.jsx";

const STATUS = {
  complete: ["✓", "good"],
  running: ["▸", "cache"],
  interrupted: ["‖", "warn"],
  failed: ["✕", "bad"],
};
const VERBS = { start: "▶ Start", resume: "▶ Resume", retry: "↻ Retry errors" };

export function ExperimentHead({ drawn, wire, live }) {
  const { head, over, total } = drawn;
  const [sign, colour] = STATUS[head.status] ?? ["·", "inherited"];
  const counted = total !== undefined;
  return (
    <>
      <div class="rw-head">
        <b>{head.name}</b>
        {head.label && <b>{head.label}</b>}
        <span aria-live="polite">
          <Chip sign={sign} colour={colour}>{head.stopping ? "stopping" : head.status}</Chip>
        </span>
        <span class="rw-mono rw-dim">{head.id}</span>
        {counted && <Bar over={over} total={total} status={head.status} />}
        {!counted && head.status === "running" && <span class="rw-small">{drawn.made} made</span>}
        {live && <Buttons drawn={drawn} wire={wire} />}
      </div>
      <div class="rw-line">
        <Quoting words={head.question} />
        {head.check && <> · check <span class="rw-mono">{head.check}</span></>}
      </div>
      {drawn.answer && <div class={`rw-box rw-${drawn.tone}`}><b><Quoting words={drawn.answer} /></b></div>}
      {drawn.plan && (
        <div class="rw-box rw-plan">
          <span class="rw-dim">{drawn.can === "resume" ? "Left to do:" : "It will make"}</span> {drawn.plan}
        </div>
      )}
      {head.note && <div class="rw-box rw-warn">{head.note}</div>}
      {drawn.cannot && <div class="rw-box rw-warn">{drawn.cannot}</div>}
      {drawn.spent && head.status !== "not begun" && <div class="rw-facts">spent: {drawn.spent}</div>}
    </>
  );
}

function Bar({ over, total, status }) {
  return (
    <span class="rw-progress" aria-live={status === "running" ? "off" : "polite"}>
      <span class="rw-track" role="progressbar" aria-valuenow={over} aria-valuemin={0} aria-valuemax={total} aria-label="cells that ended">
        <span style={{ width: `${total ? (100 * over) / total : 0}%` }} />
      </span>
      <span class="rw-small">{over.toLocaleString("en")} of {total.toLocaleString("en")} ended</span>
    </span>
  );
}

function Buttons({ drawn, wire }) {
  const [waits, setWaits] = useState(false);
  const [error, setError] = useState("");
  const press = (kind, args) => () => {
    setWaits(true);
    setError("");
    wire.ask(kind, args).catch((wrong) => setError(wrong.message)).finally(() => setWaits(false));
  };
  return (
    <span class="rw-buttons">
      {drawn.can && (
        <button type="button" class={drawn.can === "retry" ? "" : "rw-primary"} disabled={waits} onClick={press("start", drawn.can === "retry" ? { retry: "errors" } : {})}>
          {VERBS[drawn.can]}
        </button>
      )}
      {drawn.stops && (
        <button type="button" disabled={waits || drawn.head.stopping} onClick={press("stop")}>
          ■ {drawn.head.stopping ? "Stopping …" : "Stop"}
        </button>
      )}
      <span role="alert">{error && <span class="rw-bad rw-wrong">✕ {error}</span>}</span>
    </span>
  );
}

/** Words whose names stand between backticks. */
function Quoting({ words }) {
  return words.split("`").map((part, n) => (n % 2 ? <span class="rw-mono">{part}</span> : part));
}
