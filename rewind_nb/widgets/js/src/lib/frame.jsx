// The frame of every widget: its root, what went wrong, and whether Python is there.
import { render } from "preact";
import { useState } from "preact/hooks";
import { createWire, useTrait } from "./wire.js";

const STATES = {
  busy: "The kernel is busy: it answers when the running cell has ended.",
  lost: "Disconnected: the kernel was restarted or is gone. Run the cell again.",
};

/** What anywidget calls: shows a component in `el` until the view is removed. */
export function widget(Content) {
  return {
    render({ model, el }) {
      const root = document.createElement("div");
      el.append(root);
      const uncover = hideSnapshot(el);
      let follow = () => {};
      const wire = createWire(model, (state) => follow(state));
      const Root = () => {
        const [state, show] = useState(wire.state());
        follow = show;
        return (
          <Frame model={model} state={state}>
            <Content model={model} wire={wire} live={state === "live" || state === "busy"} />
          </Frame>
        );
      };
      render(<Root />, root);
      return () => {
        render(null, root);
        wire.close();
        uncover();
      };
    },
  };
}

function Frame({ model, state, children }) {
  const [problem] = useTrait(model, "problem");
  return (
    <div class="rw rw-widget" data-state={state} onKeyDown={keepKeys}>
      <div role="status" aria-live="polite">
        {STATES[state] && <div class="rw-box rw-warn rw-state">{STATES[state]}</div>}
        {problem && <div class="rw-box rw-bad rw-problem">{problem}</div>}
      </div>
      {children}
    </div>
  );
}

/** The notebook's one-letter commands are not for who types in a widget; Escape goes back to it. */
function keepKeys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" || event.key === "Tab") return;
  event.stopPropagation();
}

/** Static HTML before the view is for a page that comes back without its kernel. */
function hideSnapshot(el) {
  let before = null;
  let frames = 120; // until the view is in the page, which it is not yet
  const look = () => {
    const output = el.closest?.(".jp-OutputArea-child");
    if (!output && frames-- > 0) return requestAnimationFrame(look);
    before = output?.previousElementSibling?.querySelector(".rw-snapshot") ? output.previousElementSibling : null;
    if (before) before.style.display = "none";
  };
  look();
  return () => {
    frames = 0;
    if (before) before.style.display = "";
  };
}
