// The two actions at a step, what they will do, and what executes.
import { useState } from "preact/hooks";
import { Chip } from "./parts.jsx";
import { useTrait } from "./wire.js";

const STATES = {
  running: ["◔", "warn"],
  stopping: ["◔", "warn"],
  done: ["✓", "good"],
  failed: ["✕", "bad"],
  stopped: ["‖", "inherited"],
};

/** `fork` and `reproduce` are asked with a press; `estimate` and `refused` are of the fork. */
export function ForkBar({ model, wire, live, fork, reproduce, from, refused, estimate }) {
  const [told] = useTrait(model, "_told");
  const [error, setError] = useState("");
  const going = told.state === "running" || told.state === "stopping";
  const press = (act) => () => {
    setError("");
    act().catch((problem) => setError(problem.message));
  };
  const words = estimate ? `; estimated ${estimate}` : "";
  return (
    <section class="rw-actions" aria-label="fork or reproduce">
      <div class="rw-action">
        <button type="button" class="rw-main" disabled={!live || going || Boolean(refused)} onClick={press(fork)}>
          Fork here
        </button>
        <span>
          (re-executes, may call the model{words})
          {refused && <span class="rw-refused"> {refused}</span>}
        </span>
      </div>
      <div class="rw-action">
        <button type="button" disabled={!live || going} onClick={press(reproduce)}>
          Reproduce from here
        </button>
        <span>(plays back, no call){from && ` from ${from}`}</span>
      </div>
      <div class="rw-status" role="status" aria-live="polite">
        {told.state && (
          <>
            <Chip sign={STATES[told.state]?.[0] ?? "?"} colour={STATES[told.state]?.[1] ?? "inherited"}>
              {told.state}
            </Chip>{" "}
            <span>{told.words}</span>
          </>
        )}
        {told.state === "running" && (
          <button type="button" disabled={!live} onClick={press(() => wire.ask("stop"))}>
            Stop
          </button>
        )}
        {told.problem && <div class="rw-box rw-bad">{told.problem}</div>}
        {error && <div class="rw-box rw-bad">{error}</div>}
      </div>
    </section>
  );
}
