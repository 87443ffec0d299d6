"""The tables, tasks and facts of the examples, read from `data/`.

A wheel carries the folder as `rewind_nb/demo/data/`; a source checkout or an
editable install has it beside the package. Only the `csv` module is used, so
that a check with pandas shares nothing with the pipeline.
"""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rewind_nb.errors import ConfigError, did_you_mean

_PACKAGE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Task:
    """One question about one table (`data/README.md` describes the fields).

    Count, mean and total are of the first of `measures`; `ratio` names the
    columns of the two totals that are divided.

    Example:
        >>> from rewind_nb.demo import tasks
        >>> [task.id for task in tasks()]
        ['penguins', 'weather']
    """

    id: str
    title: str
    question: str
    table: str
    group_by: str
    measures: list[str]
    ratio: dict[str, str]
    group_columns: dict[str, str]
    measure_columns: dict[str, str]
    facts: list[str]
    source: str

    def to_state(self) -> dict[str, Any]:
        """The state a run starts with; the question apart, so that a fork can change it."""
        task = asdict(self)
        return {"question": task.pop("question"), "task": task}


def data_folder() -> Path:
    """The folder of the tables: inside an installed package, else beside it.

    Raises:
        ConfigError: neither place has it.
    """
    places = (_PACKAGE / "data", _PACKAGE.parent.parent / "data")
    for place in places:
        if (place / "tasks.json").is_file():
            return place
    raise ConfigError(
        "the example's data is missing: "
        f"there is no tasks.json in {' or '.join(repr(str(place)) for place in places)}. "
        "Reinstall rewind-nb, or install it from a complete checkout.",
        places=places,
    )


def tasks() -> list[Task]:
    """Every task of `data/tasks.json`, in its order."""
    return [Task(**fields) for fields in read_json("tasks")]


def find_task(name: str) -> Task:
    """The task with this id.

    Raises:
        ConfigError: there is none; the message lists the near misses.
    """
    known = {task.id: task for task in tasks()}
    if name not in known:
        raise ConfigError(f"no task {name!r}. {did_you_mean(name, known)}", task=name)
    return known[name]


def tables() -> list[str]:
    """Names of the tables: the CSV files without their suffix."""
    return sorted(path.stem for path in data_folder().glob("*.csv"))


def read_table(name: str) -> list[dict[str, str]]:
    """The rows of one of `tables()`, every cell as text."""
    return list(csv.DictReader(_text(f"{name}.csv").splitlines()))


def read_json(name: str) -> Any:
    """The content of one of the JSON files, named without its suffix."""
    return json.loads(_text(f"{name}.json"))


def _text(name: str) -> str:
    return (data_folder() / name).read_text(encoding="utf-8")
