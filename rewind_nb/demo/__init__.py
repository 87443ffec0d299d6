"""The examples: two real applications over real tables, with a model that needs no network.

`build()` gives an ordinary Burr application that turns a table into a page, `tasks()` the
questions it can answer. `rewind_nb.demo.travel` is the other one: it plans a trip, on two
paths that join late. Without `REWIND_BASE_URL` the model is the offline one; with it, the
same applications talk to that provider.
"""

from __future__ import annotations

import os
from typing import Any

from burr.core import Application, ApplicationBuilder, State

from rewind_nb.capture.chat import ChatModel
from rewind_nb.demo import pipeline
from rewind_nb.demo.offline import BASE_URL, MODEL, OfflineModel
from rewind_nb.demo.tables import Task, data_folder, find_task, tasks
from rewind_nb.errors import ConfigError

__all__ = [
    "HALT_AFTER",
    "INPUTS",
    "OfflineModel",
    "Task",
    "build",
    "chosen_model",
    "data_folder",
    "default_model",
    "find_task",
    "offline_model",
    "tasks",
]

HALT_AFTER = ["publish"]
INPUTS: dict[str, Any] = {}  # the question is part of the state


def build(
    task: str = "penguins",
    *,
    model: ChatModel | None = None,
    jitter: float | bool = 0.0,
    seed: int = 0,
) -> Application[Any]:
    """Build the example application for a task, ready to run.

    Args:
        task: the id of one of `tasks()`.
        model: who answers; `default_model()` if None.
        jitter: how much the offline model rewords from call to call, 0.0 to 1.0.
        seed: of the jitter.

    Raises:
        ConfigError: no such task, or a jitter for a model that is not the offline one.

    Example:
        >>> app = build("weather")
        >>> app.entrypoint, app.state["question"][:32]
        ('plan', 'Which season brings Seattle the ')
    """
    model = chosen_model(model, jitter=jitter, seed=seed)
    state = find_task(task).to_state()
    return (
        ApplicationBuilder()
        .with_actions(
            pipeline.research,
            pipeline.analyse,
            pipeline.verify,
            pipeline.publish,
            plan=pipeline.plan.bind(model=model),
            critique=pipeline.critique.bind(model=model),
            revise=pipeline.revise.bind(model=model),
            compose=pipeline.compose.bind(model=model),
        )
        .with_transitions(*pipeline.TRANSITIONS)
        .with_state(State(state))
        .with_entrypoint("plan")
        .build()
    )


def chosen_model(
    model: ChatModel | None, *, jitter: float | bool = 0.0, seed: int = 0
) -> ChatModel:
    """The model that was given, else `default_model()`.

    Raises:
        ConfigError: a jitter for a model that is not the offline one.
    """
    if model and jitter:
        raise ConfigError(
            "jitter belongs to the offline model, and another model was given. "
            "Leave one of the two out, or pass offline_model(OfflineModel(jitter=...)).",
            jitter=jitter,
        )
    return model or default_model(jitter=jitter, seed=seed)


def default_model(*, jitter: float | bool = 0.0, seed: int = 0) -> ChatModel:
    """The provider at `REWIND_BASE_URL` where that is set, else the offline model.

    Raises:
        ConfigError: a jitter with a real provider, which has its own; or no
            `REWIND_MODEL` to ask it for.
    """
    if not os.environ.get("REWIND_BASE_URL"):
        return offline_model(OfflineModel(jitter=jitter, seed=seed))
    if jitter:
        raise ConfigError(
            "jitter belongs to the offline model, and REWIND_BASE_URL is set. "
            "Unset it to run offline, or leave jitter out.",
            jitter=jitter,
        )
    return ChatModel()


def offline_model(
    transport: OfflineModel | None = None, *, model: str = MODEL, temperature: float = 0.0
) -> ChatModel:
    """A chat client whose requests the offline model answers."""
    transport = transport or OfflineModel()
    return ChatModel(BASE_URL, model, temperature=temperature, transport=transport)
