"""Runs, diffs and trees of forks as plain text for a terminal.

Every line goes through one door (`_shown.page`): at most 100 columns as a terminal counts
them, and nothing in it that a terminal would obey. Apart from ids, hashes and times, equal
runs give equal text.
"""

from __future__ import annotations

from rewind_nb._steps import PAID_ELSEWHERE
from rewind_nb._text._diff import diff_text
from rewind_nb._text._how import HOW, how, why, why_inside
from rewind_nb._text._runs import forest, run_text, tree_text
from rewind_nb._text._shown import brief, clip, columns, visible
from rewind_nb._text._tasks import Task, chosen, tasks_of
from rewind_nb._text._told import UNFINISHED, Told, chains, differing_tasks, kind_words, told

__all__ = [
    "HOW",
    "PAID_ELSEWHERE",
    "UNFINISHED",
    "Task",
    "Told",
    "brief",
    "chains",
    "chosen",
    "clip",
    "columns",
    "diff_text",
    "differing_tasks",
    "forest",
    "how",
    "kind_words",
    "run_text",
    "tasks_of",
    "told",
    "tree_text",
    "visible",
    "why",
    "why_inside",
]
