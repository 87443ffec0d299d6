r"""The language of checks: ``report.total > 100 and output contains 'confirmed'``.

An expression is parsed into a small tree, never evaluated as Python::

    expression := all ("or" all)*              all := one ("and" one)*
    one := "not" one | "(" expression ")" | path operator value | path "exists"
         | path "is missing"
    operator := == != < <= > >= | contains | matches | in | not contains | not matches | not in
    value := 'text' | "text" | 10 | -2.5e3 | true | false | null | [value, ...]

A path is written as everywhere: ``items[3].name``, ``report["a.b"]``. In a text a backslash
stands before a quote or another backslash; anywhere else it is itself, so that
``matches '\d+'`` needs no more of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from rewind_nb import _path
from rewind_nb._check._tree import TESTS, Compare, Node, Not, both, either
from rewind_nb._path import Part, Root
from rewind_nb._visible import visible
from rewind_nb.errors import CheckSyntaxError, ConfigError, did_you_mean

__all__ = ["parse"]

ROOTS = ("@status", "@error", "@action", "@usage", "@visits")
ORDER = ("<", "<=", ">", ">=")
OPERATORS = (
    *("==", "!=", *ORDER, "contains", "not contains", "matches", "not matches", "in", "not in"),
    *TESTS,
)
# As other languages write it.
MEANT = dict.fromkeys(("=", "===", "is", "equals"), "==")
MEANT |= dict.fromkeys(("=~", "~", "like"), "matches") | {"<>": "!="}
MEANT |= dict.fromkeys(("has", "includes"), "contains")
MEANT |= {"&&": "and", "&": "and", "||": "or", "|": "or", "!": "not"}
DEEP = 50  # parentheses and nots inside each other
VALUES = "a value: 'text', 10, true, null or a list [..]"

_PATH = re.compile(
    r'(?:@?[\w-]+|\["(?:[^"\\]|\\.)*"\]|\[[0-9]+\])'
    r'(?:\.[\w-]+|\["(?:[^"\\]|\\.)*"\]|\[[0-9]+\])*'
)
_OPERATOR = re.compile(
    r"(?:(not)\s+)?(contains|matches|in)(?!\w)|(==|!=|<=|>=|<|>)(?![=<>~!])"
    r"|(exists)(?!\w)|(is)\s+(missing)(?!\w)"
)
_TEXT = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
_ESCAPE = re.compile(r"\\([\\'\"])")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])")
_NAME = re.compile(r"[\w-]+(?:\.[\w-]+)*")
_FOUND = re.compile(r"[^\W\d]\w*|[^\w\s'\"\[\](),@]+|.", re.DOTALL)
_NAMED = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}


def parse(expression: str) -> Node:
    """The tree of an expression; the inverse of `write`.

    Raises:
        CheckSyntaxError: it cannot be read; the message shows where and what was expected.

    Example:
        >>> parse("report.total > 100")
        Compare(path=('report', 'total'), operator='>', value=100)
        >>> parse("output contain 'x'")
        Traceback (most recent call last):
            ...
        rewind_nb.errors.CheckSyntaxError: output contain 'x'
        ...
    """
    reader = _Reader(expression)
    node = reader.any_of()
    if not reader.at_end():
        reader.refuse("'and', 'or' or the end", ("and", "or"))
    return node


class _Reader:
    """Reads an expression from the left, one token at a time."""

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.position = 0
        self.depth = 0

    def any_of(self) -> Node:
        parts = [self.all_of()]
        while self.word("or"):
            parts.append(self.all_of())
        return either(parts)

    def all_of(self) -> Node:
        parts = [self.one()]
        while self.word("and"):
            parts.append(self.one())
        return both(parts)

    def one(self) -> Node:
        start = self.skip()
        self.depth += 1
        if self.depth > DEEP:
            self.refuse(f"at most {DEEP} parentheses and nots inside each other", at=start)
        node: Node
        if self.word("not"):
            node = Not(self.one())
        elif self.sign("("):
            node = self.any_of()
            if not self.sign(")"):
                self.refuse("')', 'and' or 'or'", ("and", "or"))
        else:
            node = self.comparison()
        self.depth -= 1
        return node

    def comparison(self) -> Node:
        path = self.path()
        self.skip()
        token = self.take(_OPERATOR)
        if token is None:
            self.refuse(f"an operator: {', '.join(OPERATORS)}", OPERATORS)
        operator = " ".join(filter(None, token.groups()))
        if operator in TESTS:
            return Compare(path, operator)
        start = self.skip()
        value = self.value()
        self.check(operator, value, start)
        return Compare(path, operator, value)

    def path(self) -> tuple[Part, ...]:
        start = self.skip()
        token = self.take(_PATH)
        if token is None:
            self.refuse("a field such as report.total, output or @status")
        try:
            parts = _path.parse(token[0])
        except ConfigError:
            self.refuse('a path: report.total, items[3], report["a.b"]', at=start)
        if isinstance(parts[0], Root) and parts[0] not in ROOTS:
            self.refuse(f"one of {', '.join(ROOTS)}", ROOTS, start, parts[0])
        return parts

    def value(self) -> Any:
        start = self.skip()
        if text := self.take(_TEXT):
            return _ESCAPE.sub(r"\1", text[1] if text[1] is not None else text[2])
        if number := self.take(_NUMBER):
            return self.number(number[0], start)
        if self.sign("["):
            return self.items()
        if self.expression[start : start + 1] in ("'", '"'):
            self.refuse(f"the {self.expression[start]} that ends this text")
        name = self.take(_NAME)
        if name is None or name[0] not in _NAMED:
            hint = f". For the text write '{name[0]}'" if name else ""
            self.refuse(VALUES + hint, _NAMED, start)
        return _NAMED[name[0]]

    def items(self) -> tuple[Any, ...]:
        self.depth += 1
        if self.depth > DEEP:
            self.refuse(f"at most {DEEP} lists inside each other")
        found: list[Any] = []
        while not self.sign("]"):
            if found and not self.sign(","):
                self.refuse("',' or ']'")
            found.append(self.value())
        self.depth -= 1
        return tuple(found)

    def number(self, text: str, start: int) -> int | float:
        try:
            number = float(text) if set(text) & set(".eE") else int(text)
        except ValueError:  # more digits than Python reads
            number = math.inf
        if number in (math.inf, -math.inf):
            self.refuse("a number with fewer digits", at=start)
        return number

    def check(self, operator: str, value: Any, start: int) -> None:
        """Refuse a value that the operator can never use."""
        orderable = isinstance(value, int | float | str) and not isinstance(value, bool)
        if operator in ORDER and not orderable:
            self.refuse(f"a number or a text after {operator}", at=start)
        if operator in ("in", "not in") and not isinstance(value, tuple):
            self.refuse(f"a list after {operator!r}, such as ['a', 'b']", at=start)
        if operator in ("matches", "not matches"):
            if not isinstance(value, str):
                self.refuse(f"a regular expression in quotes after {operator!r}", at=start)
            try:
                re.compile(value)
            except (re.error, OverflowError, RecursionError, Warning) as error:
                self.refuse(f"a regular expression, and this is none: {error}", at=start)

    # -- tokens ---------------------------------------------------------------------------

    def skip(self) -> int:
        while self.expression[self.position : self.position + 1].isspace():
            self.position += 1
        return self.position

    def at_end(self) -> bool:
        return self.skip() == len(self.expression)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        token = pattern.match(self.expression, self.position)
        self.position = token.end() if token else self.position
        return token

    def word(self, word: str) -> bool:
        self.skip()
        return self.take(re.compile(rf"{word}(?![\w.-])")) is not None

    def sign(self, sign: str) -> bool:
        self.skip()
        return self.take(re.compile(re.escape(sign))) is not None

    def refuse(
        self,
        expected: str,
        known: Iterable[str] = (),
        at: int | None = None,
        found: str | None = None,
    ) -> NoReturn:
        position = self.skip() if at is None else at
        if found is None:
            token = _FOUND.match(self.expression, position)
            found = token[0] if token else ""
        what = f"{visible(found)!r}" if found else "the end"
        near = did_you_mean(found, known) if found and known else ""
        hint = f" Did you mean {MEANT[found]!r}?" if found in MEANT else f" {near}"
        raise CheckSyntaxError(
            f"{_pointed(self.expression, position)}\n"
            f"Found {what} at character {position}, expected {expected}."
            + (hint if "Did you mean" in hint else ""),
            expression=self.expression,
            position=position,
            expected=expected,
        )


def _pointed(expression: str, position: int, width: int = 100) -> str:
    """The expression with a caret under the position; of a long one what is around it."""
    start = max(0, position - width // 2)
    before, after = expression[start:position], expression[position : start + width]
    return f"{visible(before + after)}\n{' ' * len(visible(before))}^"
