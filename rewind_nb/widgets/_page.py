"""A widget as one page that needs nothing: no kernel, no network, no other file."""

from __future__ import annotations

import html
import json
from contextlib import closing
from pathlib import Path
from typing import Any

from rewind_nb._compare import Diff
from rewind_nb._run import Run
from rewind_nb._store import Store
from rewind_nb.experiments import Experiment
from rewind_nb.widgets._base import View
from rewind_nb.widgets._diff_table import DiffTable
from rewind_nb.widgets._grid_view import view_of
from rewind_nb.widgets._run_graph import RunGraph
from rewind_nb.widgets._timeline import Timeline

__all__ = ["save_diff", "save_experiment", "save_run", "save_store"]

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' blob:; img-src data:">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{title}</title><style>body{{margin:16px;background:#fff}}
@media (prefers-color-scheme:dark){{body{{background:#111418}}}}
{css}</style></head>
<body><div id="rewind"></div><noscript>{static}</noscript>
<script id="saved" type="application/json">{saved}</script>
<script type="module">
const {{ code, state, answers }} = JSON.parse(document.getElementById("saved").textContent);
const heard = new Map();
const model = {{
  saved: true,
  get: (name) => state[name],
  set(name, value) {{
    state[name] = value;
    for (const each of heard.get(`change:${{name}}`) ?? []) each();
  }},
  save_changes() {{}},
  on: (name, each) => heard.set(name, [...(heard.get(name) ?? []), each]),
  off: (name, each) => heard.set(name, (heard.get(name) ?? []).filter((one) => one !== each)),
  send({{ id, ask, args }}) {{
    const found = answers[JSON.stringify([ask, args])];
    const answer = found ?? {{ error: "This saved page does not hold that; the notebook does." }};
    queueMicrotask(() => {{
      for (const each of heard.get("msg:custom") ?? []) each({{ id, ...answer }});
    }});
  }},
}};
const url = URL.createObjectURL(new Blob([code], {{ type: "text/javascript" }}));
const widget = (await import(url)).default;
widget.render({{ model, el: document.getElementById("rewind") }});
</script></body></html>
"""


def save_run(run: Run, path: str | Path) -> Path:
    """Write a page that shows a run."""
    with closing(RunGraph(run)) as view:
        return _save(view, Path(path), f"Run {run.id}")


def save_diff(diff: Diff, path: str | Path) -> Path:
    """Write a page that shows a diff."""
    with closing(DiffTable(diff)) as view:
        return _save(view, Path(path), f"Diff {diff.a.id} → {diff.b.id}")


def save_experiment(experiment: Experiment, path: str | Path) -> Path:
    """Write a page that shows an experiment."""
    with closing(view_of(experiment, experiment.made_by)) as view:
        view.settle()
        return _save(view, Path(path), f"{type(experiment).__name__} {experiment.id}")


def save_store(store: Store, path: str | Path) -> Path:
    """Write a page that shows the runs of a store."""
    with closing(Timeline(store)) as view:
        view.settle()
        return _save(view, Path(path), "Runs")


def _save(view: View, path: Path, title: str) -> Path:
    """Write a page that shows a widget as it is now, and holds the answers to what it may ask."""
    asked = {
        json.dumps([ask, args], separators=(",", ":"), ensure_ascii=False): view.answer(
            {"ask": ask, "args": args}
        )
        for ask, args in view.questions()
    }
    saved = {"code": view._esm, "state": view.state(), "answers": asked}  # noqa: SLF001
    path.write_text(
        _PAGE.format(
            title=html.escape(title),
            css=view._css,  # noqa: SLF001
            static=view.html(),
            saved=_in_script(saved),
        ),
        "utf-8",
    )
    return path


def _in_script(value: Any) -> str:
    """JSON that no HTML parser takes for an end of the script, or for the end of a line."""
    text = json.dumps(value, ensure_ascii=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
