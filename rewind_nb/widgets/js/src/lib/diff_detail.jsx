// An opened change: both values word by word, its cause, and the chain that led to it.
import { useEffect, useState } from "preact/hooks";
import { SideBySide } from "./diff_files.jsx";
import { Goto } from "./diff_head.jsx";
import { Chip } from "./parts.jsx";
import { Pieces } from "./pieces.jsx";

export function RowDetail({ drawn, wire, row, select, answers, why, setWhy }) {
  const asked = useKept(answers, wire, "row", row);
  const [step, path, more, before, after, , cause] = drawn.rows[row];
  const [address, label] = drawn.steps[step];
  const told = asked?.value;
  return (
    <div class="rw-told" aria-live="polite">
      <div class="rw-told-head">
        <span class="rw-mono">{path}{more}</span>
        <Goto address={address} label={label} select={select} />
        {told && <span class="rw-dim rw-small">{told.kinds.join(" → ")}</span>}
      </div>
      {!asked && <div class="rw-dim">…</div>}
      {asked?.error && (
        <div class="rw-pieces rw-mono">
          <div class="rw-cut">{asked.error}</div>
          <del>{before}</del> <ins>{after}</ins>
        </div>
      )}
      {told && !told.file && <Pieces pieces={told.pieces} prose={told.prose} />}
      {told?.file && <SideBySide file={told.file} />}
      <div class="rw-told-cause">
        <span class="rw-dim">cause</span> {told?.cause ?? drawn.causes[cause]}
        <button type="button" aria-expanded={Boolean(why)} onClick={() => setWhy(!why)}>
          {why ? "hide the chain" : "why?"}
        </button>
      </div>
      {why && <Chains {...{ drawn, wire, row, select, answers }} />}
    </div>
  );
}

function Chains({ drawn, wire, row, select, answers }) {
  const asked = useKept(answers, wire, "why", row);
  if (!asked) return <div class="rw-dim">…</div>;
  if (asked.error) return <div class="rw-cut">{asked.error}</div>;
  const { chains, more } = asked.value;
  return (
    <div class="rw-chains" role="group" aria-label="what led to it">
      {chains.map((chain) => <Chain chain={chain} drawn={drawn} select={select} />)}
      {chains.length === 0 && <div class="rw-dim">Nothing that was observed led to it.</div>}
      {more > 0 && <div class="rw-cut">… {more} more in diff.why</div>}
    </div>
  );
}

function Chain({ chain, drawn, select }) {
  const given = drawn.overrides.find(([, , address]) => address === chain[0]?.[0]);
  return (
    <ol>
      {given && (
        <li>
          <Chip sign="✎" colour="override">{given[1]}</Chip>
        </li>
      )}
      {chain.map((link) =>
        link === null ? (
          <li class="rw-dim">…</li>
        ) : (
          <li>
            <Goto address={link[0]} select={select}>
              {link[1]} <span class="rw-mono">{link[2]}</span>
            </Goto>
          </li>
        ),
      )}
    </ol>
  );
}

/** An answer that is asked for once, also where the row leaves the page and comes back. */
function useKept(answers, wire, ask, row) {
  const key = `${ask} ${row}`;
  const [, again] = useState(0);
  useEffect(() => {
    if (answers.has(key)) return;
    let here = true;
    const keep = (found) => {
      answers.set(key, found);
      if (here) again((n) => n + 1);
    };
    wire.ask(ask, { row }).then(
      (value) => keep({ value }),
      (error) => keep({ error: error.message }),
    );
    return () => {
      here = false;
      if (answers.get(key)?.error) answers.delete(key); // it is asked again
    };
  }, [key]);
  return answers.get(key);
}
