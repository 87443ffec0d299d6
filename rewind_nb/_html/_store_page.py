"""A store: its runs as a tree of forks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rewind_nb._html._markup import Child, Html, join, note, row, table, tag, text
from rewind_nb._html._parts import count, heading, mono, number, page, status_chip, when
from rewind_nb._html._run_page import run_line
from rewind_nb._text import forest

if TYPE_CHECKING:
    from rewind_nb._run import Run
    from rewind_nb._store import Store

__all__ = ["store_html"]

MAX_RUNS = 200


def store_html(store: Store) -> str:
    """A store as one self-contained piece of HTML, without script.

    Example:
        >>> from rewind_nb._store import Store
        >>> "no runs yet" in store_html(Store(":memory:"))
        True
    """
    runs = store.runs() if store.exists else []
    newest = runs[-MAX_RUNS:]
    where = "in memory" if store.path is None else str(store.path)
    left = len(runs) - len(newest)
    return page(
        heading(tag("b", "Store"), mono(where), tag("span", count(len(runs), "run"))),
        note(f"the newest {MAX_RUNS}; store.runs_df() has all") if left else None,
        _tree(newest) if newest else tag("div", "no runs yet", class_="rw-dim"),
    )


def _tree(runs: list[Run]) -> Html:
    rows = (_row(prefix, run) for prefix, run in forest(runs))
    head = ["run", "status", number("steps"), "origin", "made, UTC"]
    return table(head, rows, "… more runs than fit; store.runs_df() has all", 120_000)


def _row(prefix: str, run: Run) -> Html:
    made = tag("span", when(run.created_at), class_="rw-dim rw-keep")
    return row(
        tag("span", prefix[-48:], run.id, class_="rw-mono rw-tree"),
        status_chip(run.status),
        number(len(run)),
        tag("div", *_words(run), class_="rw-origin"),
        made,
    )


def _words(run: Run) -> list[Child]:
    label = join(tag("b", text(run.label, 80)), " ") if run.label else None
    return [label, run_line(run) or tag("span", "recorded", class_="rw-dim")]
