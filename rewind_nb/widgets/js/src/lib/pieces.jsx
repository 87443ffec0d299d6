// Two texts in one: what was removed is struck out, what was added underlined.

/** `without` leaves out a kind: the text before has nothing that was added. */
export function Pieces({ pieces, prose, without }) {
  const kinds = pieces.map(([kind]) => kind).join(" ");
  const replaced = kinds === "removed added" && !without;
  return (
    <div class={`rw-pieces ${prose ? "rw-prose" : "rw-mono"}`} tabIndex={0} role="group" aria-label="what changed">
      {pieces.map(([kind, text], i) => (
        <>
          {replaced && i === 1 && <span class="rw-dim"> → </span>}
          {kind !== without && <Piece kind={kind} text={text} />}
        </>
      ))}
    </div>
  );
}

function Piece({ kind, text }) {
  if (kind === "removed") return <del>{text}</del>;
  if (kind === "added") return <ins>{text}</ins>;
  return kind === "cut" ? <span class="rw-cut">{text}</span> : <span>{text}</span>;
}
