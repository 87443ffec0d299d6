// A diff: a row for each field that differs, which opens; how to find one; the files of both runs.
import { useState } from "preact/hooks";
import { DiffGrid } from "./lib/diff_grid.jsx";
import { DiffHead } from "./lib/diff_head.jsx";
import { DiffFilter, useFilter } from "./lib/diff_filter.jsx";
import { Files } from "./lib/diff_files.jsx";
import { widget } from "./lib/frame.jsx";
import { useTrait } from "./lib/wire.js";

export function DiffTable({ model, wire }) {
  const [drawn] = useTrait(model, "_drawn");
  if (!drawn.runs) return <div class="rw-dim">No diff yet.</div>;
  return <Drawn key={drawn.key} drawn={drawn} model={model} wire={wire} />;
}

function Drawn({ drawn, model, wire }) {
  const [, select] = useTrait(model, "selection");
  const filter = useFilter(drawn);
  const [grouped, setGrouped] = useState(drawn.steps.length > 1);
  return (
    <>
      <DiffHead drawn={drawn} select={select} />
      {drawn.rows.length > 0 && (
        <>
          <DiffFilter drawn={drawn} filter={filter} grouped={grouped} setGrouped={setGrouped} />
          <DiffGrid {...{ drawn, model, wire, filter, grouped }} />
        </>
      )}
      {drawn.left_out > 0 && (
        <div class="rw-cut">
          … {drawn.left_out.toLocaleString("en")} more changes are not shown; diff.df has them all
        </div>
      )}
      <Files drawn={drawn} wire={wire} />
    </>
  );
}

export default widget(DiffTable);
