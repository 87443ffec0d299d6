"""`Check`: a predicate on a run's outcome; `Verdict`: what it says."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from typing import Any

from rewind_nb._check._judge import Verdict, judge
from rewind_nb._check._parse import parse
from rewind_nb._check._subject import Checked, Subject
from rewind_nb._check._tree import And, Node, Not, Or, Ran, both, either, write
from rewind_nb._describe import displayed, short
from rewind_nb.errors import ConfigError

__all__ = ["Check", "Verdict"]


class Check:
    r"""A predicate on a run: an expression, or a callable that is given the run.

    Runs are compared by checks, never by whether a model said the same words. Called with a
    run, a check gives a `Verdict`: pass, fail, or error where the run allows no answer, such
    as for a field that is not there or a text compared with a number.

    An expression compares fields with values: ``==`` ``!=`` ``<`` ``<=`` ``>`` ``>=``,
    ``contains`` and ``not contains`` (of a text, a list, the keys of a dict), ``matches`` and
    ``not matches`` (a regular expression, found anywhere), ``in [..]`` and ``not in [..]``,
    ``exists`` and ``is missing``; joined by ``and``, ``or``, ``not`` and parentheses. An error
    beside a failure does not matter to ``and``, nor one beside a pass to ``or``. Values are
    texts in quotes, numbers, ``true``, ``false``, ``null`` and lists of them. A field is

    - a path into the final state: ``report.groups.A.total``, ``items[3].name``,
      ``report["a.b"]``;
    - ``output``: the state's field of that name. Where it has none: what the last completed
      step wrote, the text itself where that is one text, else all of it as JSON;
    - ``@status``, ``@action`` (the last one), ``@error`` (``type: message``, or null),
      ``@usage.total_tokens`` and its like (what the run itself spent), and ``@visits.book``
      (how often the action occurred in the run itself, 0 if never).

    Args:
        expr_or_callable: the expression, or a callable that returns a bool, or a number where a
            threshold is given. What it raises, and all else it returns, is an error.
        at_least: the least number for a pass.
        at_most: the most.
        name: what to call it; the expression or the callable's name if not given.

    Raises:
        CheckSyntaxError: the expression cannot be read.
        ConfigError: neither an expression nor a callable, or a threshold that cannot be used.

    Example:
        >>> check = Check("report.total>100 and output contains 'confirmed'")
        >>> check
        Check("report.total > 100 and output contains 'confirmed'")
        >>> check(run).passed  # doctest: +SKIP
        True
        >>> Check(lambda run: len(run), at_most=8) | ~check
        Check("<lambda>() <= 8 or not (report.total > 100 and output contains 'confirmed')")
    """

    __slots__ = ("_name", "_node")

    def __init__(
        self,
        expr_or_callable: str | Callable[[Any], Any],
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        name: str | None = None,
    ) -> None:
        bounds = {"at_least": at_least, "at_most": at_most}
        given = {key: bound for key, bound in bounds.items() if bound is not None}
        if isinstance(expr_or_callable, str):
            if given:
                raise ConfigError(
                    f"{' and '.join(given)}= are for callables that return a number. "
                    "Write the comparison into the expression, such as report.total >= 10."
                )
            self._node: Node = parse(expr_or_callable)
        else:
            self._node = _ran(expr_or_callable, given)
        self._name = name

    @staticmethod
    def of(check: Check | str | Callable[[Any], Any]) -> Check:
        """The check itself, or one of an expression or a callable.

        Raises:
            CheckSyntaxError: the expression cannot be read.
            ConfigError: it is none of these.
        """
        return check if isinstance(check, Check) else Check(check)

    @property
    def text(self) -> str:
        """The expression, written one way; a callable stands in it by its name."""
        return write(self._node)

    @property
    def name(self) -> str:
        """What it was called, else its `text`."""
        return self.text if self._name is None else self._name

    def __call__(self, run: Checked) -> Verdict:
        """What it says of a run.

        An interrupt passes through; any other exception is an error verdict.
        """
        return judge(self._node, Subject(run))

    def __and__(self, other: Check) -> Check:
        return _joined(both, self, other)

    def __or__(self, other: Check) -> Check:
        return _joined(either, self, other)

    def __invert__(self) -> Check:
        node = self._node
        return _made(node.part if isinstance(node, Not) else Not(node))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Check):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[Any, ...]:
        # the text tells 1 from 1.0 and true, which are equal to Python
        return (self.name, self.text, tuple(map(id, _functions(self._node))))

    def __repr__(self) -> str:
        named = "" if self._name is None else f", name={self._name!r}"
        return displayed(f"Check({json.dumps(self.text, ensure_ascii=False)}{named})")


def _ran(function: Any, bounds: dict[str, Any]) -> Ran:
    if not callable(function):
        raise ConfigError(
            f"A check is an expression or a callable that is given the run, not {short(function)}."
        )
    name = getattr(function, "__name__", None)
    name = name if isinstance(name, str) else type(function).__name__
    if inspect.iscoroutinefunction(function):
        raise ConfigError(f"{name} is async, and a check is not awaited. Pass a plain function.")
    for key, bound in bounds.items():
        number = isinstance(bound, int | float) and not isinstance(bound, bool)
        if not number or math.isnan(bound):
            raise ConfigError(f"{key}={short(bound)} is no number that could be compared.")
    return Ran(function, name, **bounds)


def _joined(join: Callable[[list[Node]], Node], first: Check, second: Any) -> Check:
    if not isinstance(second, Check):
        raise ConfigError(
            f"A check is joined with a check, not with {short(second)}. "
            "Write Check.of(..) around an expression or a callable."
        )
    return _made(join([first._node, second._node]))  # noqa: SLF001  (its own class)


def _made(node: Node) -> Check:
    check = Check.__new__(Check)
    check._node, check._name = node, None  # noqa: SLF001  (its own class)
    return check


def _functions(node: Node) -> list[Any]:
    if isinstance(node, Ran):
        return [node.function]
    if isinstance(node, Not):
        return _functions(node.part)
    if isinstance(node, And | Or):
        return [function for part in node.parts for function in _functions(part)]
    return []
