// The files of both runs: which there are, and one of them side by side.
import { useState } from "preact/hooks";
import { plural } from "./parts.jsx";
import { Pieces } from "./pieces.jsx";
import { useAnswer } from "./wire.js";

export function Files({ drawn, wire }) {
  const { files, files_left_out } = drawn;
  const [open, setOpen] = useState(-1);
  const asked = useAnswer(wire, "file", open < 0 ? null : { file: open }, open);
  if (!files.length) return null;
  return (
    <section aria-label="artifacts">
      <div class="rw-title">{plural(files.length + files_left_out, "artifact")}</div>
      <ul class="rw-files">
        {files.map(([name, words, sign, colour], i) => (
          <li>
            <button
              type="button"
              aria-expanded={i === open}
              onClick={() => setOpen(i === open ? -1 : i)}
            >
              <i aria-hidden="true" class="rw-open">{i === open ? "▾" : "▸"}</i>
              <span class="rw-mono">{name}</span>
              <span class={`rw-kind rw-${colour}`}>
                <i aria-hidden="true">{sign}</i> {words}
              </span>
            </button>
            {i === open && (
              <div class="rw-told" aria-live="polite">
                {asked?.error && <div class="rw-cut">{asked.error}</div>}
                {asked?.value ? <SideBySide file={asked.value} /> : !asked && "…"}
              </div>
            )}
          </li>
        ))}
      </ul>
      {files_left_out > 0 && (
        <div class="rw-cut">… {plural(files_left_out, "more artifact")} in diff.artifacts</div>
      )}
    </section>
  );
}

export function SideBySide({ file }) {
  const { sides, pieces } = file;
  return (
    <div class="rw-sides">
      {["before", "after"].map((name, i) => (
        <figure aria-label={name}>
          <figcaption>
            <b>{name}</b>{" "}
            {sides[i] ? (
              <span class="rw-dim rw-small" title={sides[i].sha256}>
                {sides[i].size} · sha256 <span class="rw-mono">{sides[i].sha256.slice(0, 12)}</span>
              </span>
            ) : (
              <span class="rw-dim rw-small">no such file</span>
            )}
          </figcaption>
          {sides[i]?.image && <img src={sides[i].image} alt={`the file ${name}`} />}
          {sides[i]?.why && <div class="rw-cut">{sides[i].why}</div>}
          {sides[i] && pieces.length > 0 && (
            <Pieces pieces={pieces} without={i === 0 ? "added" : "removed"} />
          )}
        </figure>
      ))}
    </div>
  );
}
