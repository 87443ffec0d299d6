// The graph of a run's actions. Python laid it out: the same places as in the static SVG.

/** A box per action; a press selects the last of its visits. */
export function ActionGraph({ graph, steps, selection, select }) {
  return (
    <div class="rw-scroll rw-canvas">
      <svg
        width={graph.width}
        height={graph.height}
        viewBox={`0 0 ${graph.width} ${graph.height}`}
        role="group"
        aria-label={`graph of ${graph.boxes.length} actions`}
      >
        {graph.lines.map((line) => (
          <Line key={`${line.source}\n${line.target}`} line={line} />
        ))}
        {graph.boxes.map((box) => (
          <Box key={box.action} box={box} steps={steps} selection={selection} select={select} />
        ))}
      </svg>
    </div>
  );
}

function Line({ line }) {
  return (
    <g class={line.back ? "rw-back" : ""}>
      <title>{line.told}</title>
      <path d={line.path} class={line.taken ? "rw-edge" : "rw-edge rw-edge-next"} />
      <path d={line.tip} class="rw-tip" />
      {line.label && line.taken > 1 && (
        <text x={line.label[0]} y={line.label[1]} class="rw-small" text-anchor="middle">
          ×{line.taken}
        </text>
      )}
    </g>
  );
}

function Box({ box, steps, selection, select }) {
  const { x, y, width, height } = box;
  const own = box.steps.map((i) => steps[i]);
  const chosen = own.some((step) => step.address === selection);
  const colour = box.look === "failed" ? "bad" : box.look;
  const press = () => select(own[own.length - 1].address);
  const onKey = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    press();
  };
  const active = own.length
    ? { role: "button", tabindex: 0, "aria-pressed": chosen, onClick: press, onKeyDown: onKey }
    : { role: "img" };
  return (
    <g
      class={`rw-node rw-${colour}${chosen ? " rw-chosen" : ""}`}
      data-action={box.action}
      aria-label={`${box.name}, ${box.words}${box.forked ? ", the fork starts here" : ""}`}
      {...active}
    >
      <title>{box.told}</title>
      {box.stacked && <path class="rw-behind" d={behind(box)} />}
      <rect
        {...{ x, y, width, height }}
        rx="5"
        class={`rw-card rw-card-${box.look}${box.how ? ` rw-how-${box.how}` : ""}`}
      />
      {own.length > 0 && (
        <rect x={x} y={y + 6} width="4" height={height - 12} rx="2" class="rw-bar" />
      )}
      <text x={x + 12} y={y + 19}>{box.name}</text>
      <text x={x + 12} y={y + 36} class="rw-small">
        {box.signs.map(([sign, of]) => (
          <tspan class={`rw-sign rw-${of}`}>{sign} </tspan>
        ))}
        {box.words}
      </text>
      {box.forked && <text x={x} y={y - 5} class="rw-small">▼ fork</text>}
    </g>
  );
}

function behind({ x, y, width, height }) {
  const [right, bottom] = [x + width, y + height];
  return `M${x + 6} ${bottom + 3}H${right - 2}Q${right + 3} ${bottom + 3} ${right + 3} ${bottom - 2}V${y + 6}`;
}
