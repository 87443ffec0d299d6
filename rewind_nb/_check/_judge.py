"""What a tree of checks says of a run: pass, fail or error, by three-valued logic.

Unknown is unknown: a field that is not there and a comparison of a text with a number are
errors, not failures. An error beside a failure does not matter to `and`, nor one beside a
pass to `or`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from rewind_nb import _path
from rewind_nb._check._subject import Subject
from rewind_nb._check._tree import TESTS, And, Compare, Node, Not, Or, Ran
from rewind_nb._check._values import OPERATORS, UnknownError, kind, listed, scalar
from rewind_nb._describe import displayed, error_line, short
from rewind_nb._path import MISSING

__all__ = ["Verdict", "judge"]

Outcome = Literal["pass", "fail", "error"]


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """What a check says of a run. It is true where the check passed, and only there.

    Attributes:
        outcome: ``pass``, ``fail``, or ``error`` where the run does not allow an answer.
        reason: why, such as ``report.total is 98, not > 100``.
        value: what was compared: the field's value, the callable's number; None otherwise.
        passed: whether the outcome is ``pass``.

    Example:
        >>> Verdict("fail", "report.total is 98, not > 100", 98)
        <Verdict fail: report.total is 98, not > 100>
        >>> bool(Verdict("error", "there is no report"))
        False
    """

    outcome: Outcome
    reason: str
    value: Any = field(default=None, compare=False)

    @property
    def passed(self) -> bool:
        """Whether the outcome is ``pass``."""
        return self.outcome == "pass"

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return displayed(f"<Verdict {self.outcome}: {self.reason}>")


def judge(node: Node, subject: Subject) -> Verdict:
    """What a tree of checks says of a run; never raises an `Exception`."""
    match node:
        case Not(part):
            inner = judge(part, subject)
            flipped: dict[Outcome, Outcome] = {"pass": "fail", "fail": "pass", "error": "error"}
            return Verdict(flipped[inner.outcome], inner.reason, inner.value)
        case And(parts):
            return _combined((judge(part, subject) for part in parts), "fail")
        case Or(parts):
            return _combined((judge(part, subject) for part in parts), "pass")
    try:
        return _asked(node, subject) if isinstance(node, Ran) else _compared(node, subject)
    except UnknownError as unknown:
        return Verdict("error", str(unknown))
    except Exception as error:  # noqa: BLE001  (values and callables are the user's)
        return Verdict("error", displayed(f"{_name(node)} raised {error_line(error)}"))


def _combined(verdicts: Iterable[Verdict], decisive: Outcome) -> Verdict:
    """The first verdict that decides; else an error, else what all of them say."""
    met = []
    for verdict in verdicts:
        if verdict.outcome == decisive:
            return verdict
        met.append(verdict)
    worst: Outcome = next((v.outcome for v in met if v.outcome == "error"), met[0].outcome)
    return Verdict(worst, "; ".join(v.reason for v in met if v.outcome == worst))


def _name(node: Compare | Ran) -> str:
    return node.name if isinstance(node, Ran) else _path.render(node.path)


def _compared(node: Compare, subject: Subject) -> Verdict:
    name = _path.render(node.path)
    value, lost = subject.walk(node.path)
    if node.operator in TESTS:
        there = value is not MISSING
        told = f"{name} {'is there' if there else 'is missing'}"
        return _verdict(there == (node.operator == "exists"), displayed(told), None)
    if value is MISSING:
        raise UnknownError(lost)
    value = scalar(value)
    operator = node.operator.removeprefix("not ")
    found = OPERATORS[operator](value, node.value, name)
    said = f"{'' if operator == '==' else f'{operator} '}{short(listed(node.value))}"
    against = "" if found and operator == "==" else f", {'' if found else 'not '}{said}"
    told = displayed(f"{name} is {short(value)}{against}")
    return _verdict(found == (operator == node.operator), told, value)


def _verdict(holds: bool, reason: str, value: Any) -> Verdict:
    return Verdict("pass" if holds else "fail", reason, value)


def _asked(node: Ran, subject: Subject) -> Verdict:
    answer = scalar(node.function(subject.run))
    bounded = node.at_least is not None or node.at_most is not None
    if isinstance(answer, bool) and not bounded:
        return _verdict(answer, f"{node.name} returned {answer}", None)
    if kind(answer) != "a number":
        _put_off(answer)
        wanted = "a number" if bounded else "True or False"
        raise UnknownError(displayed(f"{node.name} returned {short(answer)}, not {wanted}"))
    if not bounded:
        raise UnknownError(
            f"{node.name} returned {short(answer)}, a number, and the check has no threshold. "
            "Give at_least= or at_most=."
        )
    if answer != answer:  # noqa: PLR0124  (a NaN)
        raise UnknownError(f"{node.name} returned {short(answer)}, which is no amount")
    if node.at_least is not None and answer < node.at_least:
        told = f"{short(answer)}, less than {node.at_least}"
        return Verdict("fail", f"{node.name} returned {told}", answer)
    if node.at_most is not None and answer > node.at_most:
        told = f"{short(answer)}, more than {node.at_most}"
        return Verdict("fail", f"{node.name} returned {told}", answer)
    return Verdict("pass", f"{node.name} returned {short(answer)}", answer)


def _put_off(answer: Any) -> None:
    """Close a coroutine that nobody will await, so that Python does not complain later."""
    close = getattr(answer, "close", None)
    if hasattr(answer, "__await__") and callable(close):
        close()
