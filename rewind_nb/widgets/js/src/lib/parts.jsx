// Small pieces that several widgets show.

/** A word with a sign and a colour: the colour is never the only cue. */
export function Chip({ sign, colour, children }) {
  return (
    <span class={`rw-chip rw-${colour}`}>
      <i aria-hidden="true">{sign}</i>
      {children}
    </span>
  );
}

/** One of several ways to look at something. */
export function Choice({ label, options, value, onChange }) {
  return (
    <div class="rw-choice" role="group" aria-label={label}>
      {options.map(([name, words]) => (
        <button type="button" aria-pressed={name === value} onClick={() => onChange(name)}>
          {words}
        </button>
      ))}
    </div>
  );
}

export function plural(amount, noun) {
  return `${amount.toLocaleString("en")} ${noun}${amount === 1 ? "" : "s"}`;
}
