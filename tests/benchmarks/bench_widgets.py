"""What the widgets cost: in Python, and in a browser that opens their saved page.

Prints each figure with what is allowed::

    python tests/benchmarks/bench_widgets.py

Needs playwright and a Chromium, the system's or the one that ``REWIND_CHROMIUM`` names.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from burr.core import ApplicationBuilder, State, action
from playwright.sync_api import Browser, sync_playwright

from rewind_nb import Rewind, Store
from rewind_nb._compare import Diff
from rewind_nb.widgets import DiffTable

CHANGES = 10_000
Figure = tuple[str, float, float]  # what, how much, at most

FIRST_PAINT = """() => new Promise((done) => {
  const look = () => {
    const row = document.querySelector('[role="row"]');
    if (row) requestAnimationFrame(() => setTimeout(() => done(performance.now())));
    else requestAnimationFrame(look);
  };
  look();
})"""
FILTER = """async (text) => {
  const [input, told] = ['[type="search"]', ".rw-count"].map((one) => document.querySelector(one));
  const [before, start] = [told.textContent, performance.now()];
  input.value = text;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  while (told.textContent === before) await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""


def large_diff(store: Store, changes: int) -> Diff:
    """Two runs of one step that differ in so many fields."""

    @action(reads=["n"], writes=["table"])
    def fill(state: State) -> State:
        words = f"written in round {state['n']}, and so on" * 3
        return state.update(table={f"key {i}": f"cell {i} {words}" for i in range(changes - 1)})

    app = ApplicationBuilder().with_actions(fill).with_state(n=1).with_entrypoint("fill").build()
    rw = Rewind(app, store=store)
    run = rw.run(halt_after=["fill"])
    return rw.diff(run, rw.fork(run, "fill", state={"n": 2}))


def of_diff(browser: Browser, folder: Path) -> Iterator[Figure]:
    """The table of a diff of very many changes."""
    with Store(":memory:") as store:
        diff = large_diff(store, CHANGES)
        start = time.perf_counter()
        found = len(diff.changes)
        yield f"compare {found:,} changes, s", time.perf_counter() - start, 5
        start = time.perf_counter()
        with closing(DiffTable(diff)) as table:
            yield "draw in Python, s", time.perf_counter() - start, 2
            yield "sent, MB", len(json.dumps(table._drawn)) / 1e6, 3
        path = diff.to_html(folder / "diff.html")
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    inspector = page.context.new_cdp_session(page)
    inspector.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(path.as_uri(), wait_until="commit")
    yield "first paint, ms", page.evaluate(FIRST_PAINT), 500
    measured = {
        one["name"]: one["value"] for one in inspector.send("Performance.getMetrics")["metrics"]
    }
    yield "of that, of the processor, ms", measured["TaskDuration"] * 1_000, 500
    yield "rows in the page", page.locator('[role="row"]').count(), 60
    yield "filter, ms", page.evaluate(FILTER, "cell 77"), 300
    yield "filter given up, ms", page.evaluate(FILTER, ""), 300
    page.close()


def main() -> None:
    named = os.environ.get("REWIND_CHROMIUM")
    chromium = named or shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for part in (of_diff,):
            print(f"\n{(part.__doc__ or '').strip()}")
            for what, amount, most in part(started, Path(folder)):
                verdict = "ok" if amount <= most else "TOO MUCH"
                print(f"  {what:32} {amount:10,.2f}  at most {most:,g}  {verdict}")
        started.close()


if __name__ == "__main__":
    main()
