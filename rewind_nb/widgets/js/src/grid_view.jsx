// An experiment: what was asked and what came of it; a grid as a matrix of cells that turn.
import { ExperimentHead } from "./lib/experiment_head.jsx";
import { Matrix } from "./lib/grid_matrix.jsx";
import { CellDetail } from "./lib/grid_cell.jsx";
import { widget } from "./lib/frame.jsx";
import { useTrait } from "./lib/wire.js";

export function GridView({ model, wire, live }) {
  const [drawn] = useTrait(model, "_drawn");
  const [selection, select] = useTrait(model, "selection");
  if (!drawn.head) return <div class="rw-dim">…</div>;
  const { grid, table } = drawn;
  return (
    <>
      <ExperimentHead drawn={drawn} wire={wire} live={live} />
      {grid && <Matrix grid={grid} selection={selection} select={select} />}
      {grid && <CellDetail wire={wire} grid={grid} selection={selection} select={select} />}
      {table && <Rows table={table} />}
    </>
  );
}

function Rows({ table }) {
  if (!table.rows.length) return null;
  return (
    <>
      <div class="rw-title">{table.title}</div>
      <div class="rw-scroll">
        <table class="rw-table">
          <thead>
            <tr>{table.columns.map((name) => <th scope="col">{name}</th>)}</tr>
          </thead>
          <tbody>
            {table.rows.map((row) => (
              <tr>
                {row.map((words) => (
                  <td>
                    <div class={/^[+-]?[\d,]*\.?\d+$/.test(words) ? "rw-n" : words.length < 32 ? "rw-keep" : "rw-why"}>
                      {words}
                    </div>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {table.more > 0 && <div class="rw-cut">… {table.more.toLocaleString("en")} more rows; .df has all</div>}
    </>
  );
}

export default widget(GridView);
