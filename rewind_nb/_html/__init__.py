"""Values as static HTML: one string each, without script, link or outside resource.

The modules, from the ground up: `_markup` builds elements that data cannot break out of and
bounds what a page holds, `_style` is the style sheet, `_parts` what all pages share,
`_value` any Python value, `_graph` the path of a run as SVG; then a page per type.
"""

from __future__ import annotations

from rewind_nb._html._diff_page import diff_html
from rewind_nb._html._experiment_page import comparison_html, experiment_html
from rewind_nb._html._proof_page import proof_html
from rewind_nb._html._run_page import run_html
from rewind_nb._html._step_page import step_html
from rewind_nb._html._store_page import store_html

__all__ = [
    "comparison_html",
    "diff_html",
    "experiment_html",
    "proof_html",
    "run_html",
    "step_html",
    "store_html",
]
