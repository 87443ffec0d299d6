"""Counterfactual replay for Burr agent pipelines, inside the notebook.

`Rewind` wraps a Burr application you already have: record a run, fork it at any step,
change exactly one thing, re-run only what depends on it, and see field by field what
changed and why.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rewind_nb.errors import RewindError, StepFailure

if TYPE_CHECKING:
    from rewind_nb import prices
    from rewind_nb._budget import Budget
    from rewind_nb._burr._state import semantic_state
    from rewind_nb._check import Check, Verdict
    from rewind_nb._codec import Unresolved, register
    from rewind_nb._compare import Change, Diff
    from rewind_nb._cost import Cost
    from rewind_nb._divergence import Divergence
    from rewind_nb._model import Event, Origin, Override, Usage
    from rewind_nb._proof import Proof
    from rewind_nb._rewind import Rewind
    from rewind_nb._run import Artifact, Run
    from rewind_nb._secrets import Secret
    from rewind_nb._steps import Call, Step
    from rewind_nb._store import Store, VerifyReport
    from rewind_nb.capture.artifacts import WrittenArtifact, artifact
    from rewind_nb.capture.chat import ChatModel, ChatReply
    from rewind_nb.capture.clock import now, random, uuid4
    from rewind_nb.capture.http import AsyncCapturedTransport, CapturedTransport
    from rewind_nb.capture.policy import HttpPolicy
    from rewind_nb.capture.tools import tool
    from rewind_nb.experiments import (
        Ablate,
        Bisect,
        Experiment,
        Flip,
        Grid,
        Regress,
        Stability,
        Sweep,
    )

__version__ = "0.1.0"

# Loaded when first used: Burr alone takes two seconds where pandas and langchain are there, and
# every pytest imports the package for its plugin.
_LAZY = {
    "Ablate": "experiments",
    "Artifact": "_run",
    "AsyncCapturedTransport": "capture.http",
    "Bisect": "experiments",
    "Budget": "_budget",
    "Call": "_steps",
    "CapturedTransport": "capture.http",
    "Change": "_compare",
    "ChatModel": "capture.chat",
    "ChatReply": "capture.chat",
    "Check": "_check",
    "Cost": "_cost",
    "Diff": "_compare",
    "Divergence": "_divergence",
    "Event": "_model",
    "Experiment": "experiments",
    "Flip": "experiments",
    "Grid": "experiments",
    "HttpPolicy": "capture.policy",
    "Origin": "_model",
    "Override": "_model",
    "Proof": "_proof",
    "Regress": "experiments",
    "Rewind": "_rewind",
    "Run": "_run",
    "Secret": "_secrets",
    "Stability": "experiments",
    "Step": "_steps",
    "Store": "_store",
    "Sweep": "experiments",
    "Unresolved": "_codec",
    "Usage": "_model",
    "Verdict": "_check",
    "VerifyReport": "_store",
    "WrittenArtifact": "capture.artifacts",
    "artifact": "capture.artifacts",
    "now": "capture.clock",
    "random": "capture.clock",
    "register": "_codec",
    "semantic_state": "_burr._state",
    "tool": "capture.tools",
    "uuid4": "capture.clock",
}

__all__ = [
    "Ablate",
    "Artifact",
    "AsyncCapturedTransport",
    "Bisect",
    "Budget",
    "Call",
    "CapturedTransport",
    "Change",
    "ChatModel",
    "ChatReply",
    "Check",
    "Cost",
    "Diff",
    "Divergence",
    "Event",
    "Experiment",
    "Flip",
    "Grid",
    "HttpPolicy",
    "Origin",
    "Override",
    "Proof",
    "Regress",
    "Rewind",
    "RewindError",
    "Run",
    "Secret",
    "Stability",
    "Step",
    "StepFailure",
    "Store",
    "Sweep",
    "Unresolved",
    "Usage",
    "Verdict",
    "VerifyReport",
    "WrittenArtifact",
    "artifact",
    "now",
    "prices",
    "random",
    "register",
    "semantic_state",
    "tool",
    "uuid4",
]


def __getattr__(name: str) -> Any:
    if name == "prices":
        return importlib.import_module("rewind_nb.prices")
    if name in _LAZY:
        return getattr(importlib.import_module(f"rewind_nb.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'rewind_nb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *(n for n in globals() if n.startswith("__"))])
