// What is told of the selected cell: its samples, its verdict, what it did and cost, its diff.
import { Chip, plural } from "./parts.jsx";
import { useAnswer } from "./wire.js";

export function CellDetail({ wire, grid, selection, select }) {
  const cell = selection === grid.baseline.key ? grid.baseline : grid.cells.find((one) => start(one.key) === start(selection));
  const version = selection ? `${selection} ${cell?.state} ${cell?.words} ${cell?.lines}` : "";
  const asked = useAnswer(wire, "cell", selection ? { key: selection } : null, version);
  const told = asked?.value?.key === selection ? asked.value : null;
  const ran = told?.run_id && selection !== grid.baseline.key && told.state !== "running";
  const compared = useAnswer(wire, "diff", ran ? { key: selection } : null, ran ? version : "");
  if (!selection) return <div class="rw-dim rw-detail">Select a cell to see its run, its samples and how it differs.</div>;
  if (!told) return <div class="rw-dim rw-detail" role="status">{asked?.error ?? "…"}</div>;
  const mine = told.samples.find((one) => one.key === selection) ?? told.samples[0];
  const diff = compared?.value?.key === selection ? compared.value : null;
  return (
    <section class="rw-detail" aria-label="the selected cell">
      <div class="rw-head" aria-live="polite">
        <b>{selection === grid.baseline.key ? "The baseline" : "Cell"}</b>
        <Chip sign={mine.sign} colour={mine.colour}>{mine.words}</Chip>
        {told.run_id && <span class="rw-mono">{told.run_id}</span>}
        {told.same_as && <span class="rw-dim rw-small">asks for the same as {told.same_as}: one run</span>}
      </div>
      {told.samples.length > 1 && (
        <div class="rw-toggles rw-samples" role="group" aria-label="samples">
          {told.samples.map((one, n) => (
            <button type="button" class={`rw-${one.colour}`} aria-pressed={one.key === selection} onClick={() => select(one.key)}>
              <small>{n}</small> <i aria-hidden="true">{one.sign}</i> {one.words}
            </button>
          ))}
        </div>
      )}
      {told.error && <div class="rw-box rw-bad rw-prose">✕ {told.error}</div>}
      <div class="rw-told-cell">
        <div class="rw-pairs">
          {told.values.map(([name, value]) => (
            <Row name={name}><span class="rw-mono rw-prose">{value}</span></Row>
          ))}
          {told.verdict && (
            <Row name="check">{told.verdict}{told.reason && <span class="rw-dim"> · {told.reason}</span>}</Row>
          )}
          {told.outcome.map(([name, value, was]) => (
            <Row name={name}>
              <span class="rw-mono rw-prose">{value}</span>
              {value !== was && selection !== grid.baseline.key && <span class="rw-dim rw-prose"> · baseline: {was}</span>}
            </Row>
          ))}
        </div>
        <div class="rw-pairs">{told.facts.map(([name, value]) => <Row name={name}>{value}</Row>)}</div>
      </div>
      {ran && <Changes diff={diff} error={compared?.error} />}
    </section>
  );
}

function Changes({ diff, error }) {
  if (error) return <div class="rw-dim">{error}</div>;
  if (!diff) return <div class="rw-dim">comparing …</div>;
  if (!diff.count) return <div class="rw-line"><b>No difference</b> from the baseline.</div>;
  return (
    <>
      <div class="rw-title">{plural(diff.count, "change")} from the baseline, first at {diff.first}</div>
      <div class="rw-scroll">
        <table class="rw-table">
          <thead><tr><th>step</th><th>path</th><th>before</th><th>after</th></tr></thead>
          <tbody>
            {diff.changes.map(([step, path, before, after]) => (
              <tr>
                <td class="rw-keep">{step}</td>
                <td class={`rw-mono ${fit(path)}`}>{path}</td>
                <td class={fit(before)}><del>{before}</del></td>
                <td class={fit(after)}><ins>{after}</ins></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {diff.count > diff.changes.length && (
        <div class="rw-cut">… {plural(diff.count - diff.changes.length, "more change")}; grid[key] and rw.diff have all</div>
      )}
    </>
  );
}

function Row({ name, children }) {
  return (
    <div class="rw-row">
      <span class="rw-dim">{name}</span>
      <div>{children}</div>
    </div>
  );
}

const fit = (words) => (words.length < 24 ? "rw-keep" : "rw-why");

function start(key) {
  const end = key.lastIndexOf("/");
  return end < 0 ? key : key.slice(0, end);
}
