"""Runs, diffs and trees of forks as plain text for a terminal.

Every line goes through one door (`_shown.page`): at most 100 columns as a terminal counts
them, and nothing in it that a terminal would obey. Apart from ids, hashes and times, equal
runs give equal text.
"""

from __future__ import annotations

from rewind_nb._text._diff import diff_text
from rewind_nb._text._runs import PAID_ELSEWHERE, forest, run_text, tree_text
from rewind_nb._text._shown import brief, clip, columns, shared_start, visible

__all__ = [
    "PAID_ELSEWHERE",
    "brief",
    "clip",
    "columns",
    "diff_text",
    "forest",
    "run_text",
    "shared_start",
    "tree_text",
    "visible",
]
