"""`DiffTable`: what changed between two runs, field by field, and what led to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import traitlets

from rewind_nb import _html
from rewind_nb._changes import only_side
from rewind_nb._contrast import contrast
from rewind_nb._describe import displayed, plural
from rewind_nb._diff import MISSING
from rewind_nb._html._diff_page import is_prose
from rewind_nb._html._diff_steps import KINDS, ONLY
from rewind_nb._text import UNFINISHED
from rewind_nb.errors import NotFoundError
from rewind_nb.widgets._base import View, bundle, styles
from rewind_nb.widgets._files import made, side_by_side
from rewind_nb.widgets._pieces import kind_of, value_pieces

if TYPE_CHECKING:
    from rewind_nb._changes import Change
    from rewind_nb._compare import Diff, Link
    from rewind_nb._fields import Found

__all__ = ["DiffTable", "diff_drawn"]

ROWS = 20_000  # changes that are sent; `Diff.df` has them all
CELL = 120  # characters of a value in its cell
NAMED = 400  # characters of a path, a label
WORDS = 2_000  # characters of a cause
FILES = 200  # artifacts that are listed
CHAINS = 12  # that are shown of one change
LINKS = 12  # at each end of a long chain
SAVED = 400  # changes that a saved page tells all of
SAVED_FILES = 12  # artifacts that it holds

FILES_OF = "@artifacts"


class DiffTable(View):
    """What changed between two runs: a row for each field, with its values and its cause.

    A row opens: its values are compared word by word, and the chain of causes is shown, link
    by link. Which step a row is of is in `selection`, so a run graph beside it can follow.

    Args:
        diff: what it shows; None for nothing yet.
        selection: the address of a step that is selected at first.
        path: the field of a change that is open at first.

    Attributes:
        path: the field of the change that was selected last, such as ``report.total``; "" for none.

    Example:
        >>> import ipywidgets  # doctest: +SKIP
        >>> table, graph = rw.diff(run, fork).view(), fork.view()  # doctest: +SKIP
        >>> link = ipywidgets.link((table, "selection"), (graph, "selection"))  # doctest: +SKIP
    """

    _esm = bundle("diff_table")
    _css = styles()
    asks: ClassVar[dict[str, str]] = {"row": "_of_row", "why": "_why", "file": "_file"}

    path = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self, diff: Diff | None = None, *, selection: str = "", path: str = "", **given: Any
    ) -> None:
        self._diff = diff
        if diff is not None:
            given |= {"_drawn": diff_drawn(diff)}
        super().__init__(selection=selection, path=path, **given)

    @property
    def diff(self) -> Diff | None:
        """The diff it shows; set it to show another."""
        return self._diff

    @diff.setter
    def diff(self, diff: Diff) -> None:
        self._diff = diff
        self._show(_drawn=diff_drawn(diff), selection="", path="", problem="")

    @property
    def title(self) -> str:
        return "Diff" if self._diff is None else f"Diff {self._diff.a.id} → {self._diff.b.id}"

    def html(self) -> str:
        """The diff as static HTML; a sentence where there is none yet."""
        if self._diff is None:
            return '<div class="rw">No diff yet.</div>'
        return _html.diff_html(self._diff)

    def __repr__(self) -> str:
        if self._diff is None:
            return "<DiffTable, no diff yet>"
        return f"<DiffTable, {_verdict(self._diff)}>"

    def questions(self) -> list[tuple[str, dict[str, Any]]]:
        """What a saved page may ask; of very many changes only the first."""
        if self._diff is None:
            return []
        rows = range(min(len(self._diff.found), SAVED))
        files = range(min(len(self._diff.artifacts), SAVED_FILES))
        return [
            *(("row", {"row": row}) for row in rows),
            *(("why", {"row": row}) for row in rows),
            *(("file", {"file": file}) for file in files),
        ]

    # -- what a view asks -------------------------------------------------------------------

    def _of_row(self, row: int) -> dict[str, Any]:
        """All that is told of a change."""
        diff, (change, *_) = self._found(row)
        both = change.before, change.after
        name = _file_name(change)
        return {
            "cause": displayed(change.cause)[:WORDS],
            "kinds": [displayed(kind_of(side)) for side in both],
            "prose": any(map(is_prose, both)),
            "pieces": [] if name else value_pieces(*both),
            "file": _files(diff, name, *both) if name else None,
        }

    def _why(self, row: int) -> dict[str, Any]:
        """The chains of causes that led to a change, each from its first cause."""
        diff, found = self._found(row)
        chains = diff.chains(found)
        return {
            "chains": [[*_links(chain)] for chain in chains[:CHAINS]],
            "more": max(0, len(chains) - CHAINS),
        }

    def _file(self, file: int) -> dict[str, Any]:
        """A file of both runs, side by side."""
        count = 0 if self._diff is None else len(self._diff.artifacts)
        if self._diff is None or not 0 <= file < count:
            raise NotFoundError(f"There is no artifact {file}: the diff has {count}.")
        return _files(self._diff, *self._diff.artifacts[file])

    def _found(self, row: int) -> tuple[Diff, Found]:
        count = 0 if self._diff is None else len(self._diff.found)
        if self._diff is None or not 0 <= row < count:
            raise NotFoundError(f"There is no change {row}: the diff has {count}.")
        return self._diff, self._diff.found[row]


# -- what is drawn: plain values -----------------------------------------------------------


def diff_drawn(diff: Diff) -> dict[str, Any]:
    """A diff as a table draws it. Of what many rows share, a row has the position."""
    steps: dict[tuple[str, str], int] = {}
    causes: dict[str, int] = {}
    kinds: dict[tuple[str, str, str], int] = {}
    rows = []
    for found in diff.found[:ROWS]:
        change = found.change
        step = steps.setdefault((change.address, displayed(change.label)[:NAMED]), len(steps))
        cause = causes.setdefault(displayed(change.cause)[:CELL], len(causes))
        kind = kinds.setdefault(_kind(change), len(kinds))
        rows.append([step, *_where(change), *_cells(change), kind, cause])
    return {
        "key": f"{diff.a.id} {diff.b.id}",
        "runs": [diff.a.id, diff.b.id],
        "identical": diff.identical,
        "told": _verdict(diff),
        "facts": _whence(diff),
        "overrides": [
            [g.side, displayed(g.words)[:WORDS], g.address, displayed(g.label)[:NAMED]]
            for g in diff.overrides
        ],
        "warnings": [displayed(words)[:WORDS] for words in diff.mismatched_models],
        "outcome": _ended(diff),
        "steps": list(steps),
        "kinds": list(kinds),
        "causes": list(causes),
        "rows": rows,
        "left_out": max(0, len(diff.found) - ROWS),
        "files": [
            [displayed(one.name)[:NAMED], *_file_kind(one.kind)] for one in diff.artifacts[:FILES]
        ],
        "files_left_out": max(0, len(diff.artifacts) - FILES),
    }


def _verdict(diff: Diff) -> str:
    if diff.identical:
        return f"identical: {plural(len(diff.pairs), 'step', ',')}, 0 changes"
    changed = plural(diff.changed_steps, "step", ",")
    return f"{plural(len(diff.changes), 'change', ',')} in {changed}"


def _whence(diff: Diff) -> str:
    shared = f"{plural(diff.shared_steps, 'step', ',')} shared"
    if diff.ancestor is None:
        return f"no common ancestor: recorded independently · {shared}"
    role = {diff.a.id: " (before)", diff.b.id: " (after)"}.get(diff.ancestor.id, "")
    return f"ancestor {diff.ancestor.id}{role} · {shared}"


def _ended(diff: Diff) -> str:
    outcome = diff.outcome
    ended = f"{outcome.before} → {outcome.after}"
    if outcome.changed:
        fields = displayed(", ".join(outcome.changed))[:WORDS]
        return f"{ended}; the final state differs in {fields}"
    order = ", in another order of its fields" if outcome.reordered else ""
    return f"{ended}; the final state is equal{order}"


def _kind(change: Change) -> tuple[str, str, str]:
    """What became of a field: words, a sign and a colour."""
    if side := only_side(change):
        return ONLY[side]
    return (UNFINISHED.get(change.kind, change.kind), *KINDS[change.kind])


def _file_kind(kind: str) -> tuple[str, str, str]:
    return ("same bytes", "=", "inherited") if kind == "same" else (kind, *KINDS[kind])


def _where(change: Change) -> tuple[str, str]:
    """The path, and what its words have beyond it."""
    return displayed(change.path)[:NAMED], displayed(change.where[len(change.path) :])[:NAMED]


def _cells(change: Change) -> list[str | None]:
    """Both values on a line each; None for one that is not there."""
    both = change.before, change.after
    if _file_name(change):
        return [None if side is MISSING else f"sha256 {side[:16]}" for side in both]
    lines = contrast(*both, CELL)
    return [None if v is MISSING else line for v, line in zip(both, lines, strict=True)]


def _file_name(change: Change) -> str:
    """The name of the file that a change is of, "" where it is of something else."""
    if not change.path.startswith(f"{FILES_OF}["):
        return ""
    return str(json.loads(change.path.removeprefix(FILES_OF))[0])


def _files(diff: Diff, name: str, before: Any, after: Any) -> dict[str, Any]:
    return side_by_side(made(diff.a, name, before), made(diff.b, name, after))


def _links(chain: tuple[Link, ...]) -> Iterator[list[str] | None]:
    """The links of a chain, None for the middle of a long one."""
    for n, link in enumerate(chain):
        if LINKS <= n < len(chain) - LINKS:
            if n == LINKS:
                yield None
            continue
        yield [link.address, displayed(link.label)[:NAMED], displayed(link.path)[:NAMED]]
