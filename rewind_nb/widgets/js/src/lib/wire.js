// The way between a view and Python: traits, questions, and whether anybody answers.
import { useEffect, useRef, useState } from "preact/hooks";

const PATIENCE = 4000; // ms that a kernel which is not busy gets to answer

/** A trait as state of a component: its value, and how to set it. */
export function useTrait(model, name) {
  const [value, show] = useState(() => model.get(name));
  useEffect(() => {
    const changed = () => show(() => model.get(name));
    changed(); // it may have changed before this ran
    model.on(`change:${name}`, changed);
    return () => model.off(`change:${name}`, changed);
  }, [model, name]);
  const set = (next) => {
    if (model.get(name) === next) return;
    model.set(name, next);
    model.save_changes();
  };
  return [value, set];
}

/**
 * Questions to Python, each answered by a message with its id.
 * `state` is "live", "busy" (the kernel executes a cell), "lost" or "saved" (a page without one).
 */
export function createWire(model, onState) {
  const waiting = new Map();
  const kernel = model.widget_manager?.kernel;
  // Two views share one model. No randomUUID: pages of plain http do not have it.
  const view = Math.random().toString(36).slice(2);
  let next = 0;
  let state = model.saved ? "saved" : "live";

  const become = (now) => {
    if (now === state || state === "saved") return;
    state = now;
    onState(now);
  };
  const answered = (message) => {
    const asked = waiting.get(message?.id);
    if (!asked) return; // it is another view's
    waiting.delete(message.id);
    clearTimeout(asked.timer);
    become("live");
    if ("error" in message) asked.reject(new Error(message.error));
    else asked.resolve(message.answer);
  };
  const patience = (id) =>
    setTimeout(() => {
      const asked = waiting.get(id);
      if (!asked) return;
      if (kernel?.status === "busy") {
        become("busy"); // it answers when the cell has ended
        asked.timer = patience(id);
        return;
      }
      waiting.delete(id);
      become("lost");
      asked.reject(new Error("The kernel does not answer. Run the cell again."));
    }, PATIENCE);
  const ask = (kind, args = {}) =>
    new Promise((resolve, reject) => {
      const id = `${kind} ${++next} ${view}`;
      waiting.set(id, { resolve, reject, timer: patience(id) });
      model.send({ id, ask: kind, args });
    });
  const turned = (_, status) => {
    if (/restarting|dead|terminating/.test(status)) become("lost");
  };

  model.on("msg:custom", answered);
  kernel?.statusChanged?.connect?.(turned);
  if (state !== "saved") ask("ping").catch(() => {});
  return {
    ask,
    state: () => state,
    close() {
      model.off("msg:custom", answered);
      kernel?.statusChanged?.disconnect?.(turned);
      for (const { timer } of waiting.values()) clearTimeout(timer);
      waiting.clear();
    },
  };
}

/** The answer to a question, asked again whenever `key` changes; null until it is there. */
export function useAnswer(wire, kind, args, key) {
  const [answer, show] = useState(null);
  const latest = useRef(0);
  useEffect(() => {
    const turn = ++latest.current;
    if (args === null) {
      show(null);
      return;
    }
    wire.ask(kind, args).then(
      (value) => turn === latest.current && show({ value }),
      (error) => turn === latest.current && show({ error: error.message }),
    );
  }, [key]);
  return answer;
}
