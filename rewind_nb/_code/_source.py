"""The body of a function, such that comments and layout do not count.

The text comes from the file or notebook cell as an AST. Docstrings of functions do not
count either (those of classes do, see `_classes`). A file may have been edited since it
was imported, so a text is believed only where compiling it gives the very code that
runs. Otherwise (no text, text that moved on, several lambdas on one line) the code
object itself is digested, without positions, and tagged with the Python version within
which such a digest is stable.
"""

from __future__ import annotations
import __future__

import ast
import linecache
import sys
import threading
import warnings
import weakref
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_
from types import CodeType
from typing import Any

from rewind_nb._code._names import Chain, References, name_chains, references, with_nested
from rewind_nb._code._value import constant, digest

__all__ = ["CodeFacts", "bytecode_digest", "code_facts", "compiled", "source_digest"]

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Place = tuple[int, str]  # first line, name

_BYTECODE = f"bytecode {sys.version_info[0]}.{sys.version_info[1]}"
_FUTURES = reduce(or_, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names))
_KIND_FLAGS = 0x04 | 0x08 | 0x20 | 0x80 | 0x200  # *args, **kwargs, generator, coroutine, both
_HAS_DOCSTRING = 0x4000000  # since Python 3.13


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """What one code object says.

    Attributes:
        body: ``("source", digest)`` or ``("bytecode 3.11", digest)``.
        references: the names it refers to, those of its decorators and annotations too.
    """

    body: tuple[str, str]
    references: References


# Keyed by identity: code objects that compare equal may differ in their decorators.
_known: dict[int, tuple[weakref.ref[CodeType], CodeFacts]] = {}


def code_facts(code: CodeType) -> CodeFacts:
    """Read a function's code object; remembered as long as that object lives."""
    key = id(code)
    known = _known.get(key)
    if known is not None and known[0]() is code:
        return known[1]
    facts = _read(code)
    _known[key] = (weakref.ref(code, lambda _: _known.pop(key, None)), facts)
    return facts


def _read(code: CodeType) -> CodeFacts:
    loaded = references(code)
    node = _definition(code)
    body = None if node is None else source_digest(node)
    if node is None or body is None:
        return CodeFacts((_BYTECODE, bytecode_digest(code)), loaded)
    loaded.names.update(_header_chains(node))
    return CodeFacts(("source", body), loaded)


# -- the body as text ------------------------------------------------------------------


def _definition(code: CodeType) -> _Definition | None:
    """The definition in the text that compiles to this code; None where none or two do."""
    linecache.checkcache(code.co_filename)  # the file may have been edited and loaded again
    text = "".join(linecache.getlines(code.co_filename))
    nodes, codes = _parsed(text, code.co_flags & _FUTURES)
    running = bytecode_digest(code)
    same = [c for c in codes.get(code.co_qualname, ()) if bytecode_digest(c) == running]
    if not same:
        return None
    found = min(same, key=lambda c: abs(c.co_firstlineno - code.co_firstlineno))  # lines move
    here = nodes[found.co_firstlineno, found.co_name]
    return here[0] if len(here) == 1 else None


@lru_cache(maxsize=32)
def _parsed(
    text: str, flags: int
) -> tuple[dict[_Place, list[_Definition]], dict[str, list[CodeType]]]:
    """The definitions in a text by place, the code they compile to by qualified name."""
    nodes: defaultdict[_Place, list[_Definition]] = defaultdict(list)
    codes: defaultdict[str, list[CodeType]] = defaultdict(list)
    tree, code = compiled(text, flags | ast.PyCF_ONLY_AST), compiled(text, flags)
    if tree is None or code is None:
        return nodes, codes
    for node in ast.walk(tree):
        if isinstance(node, _Definition):
            nodes[_place(node)].append(node)
    for inner in with_nested(code):
        codes[inner.co_qualname].append(inner)
    return nodes, codes


_compiling = threading.Lock()


def compiled(text: str, flags: int) -> Any:
    """What a text compiles to; None where it is not Python."""
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # a notebook cell may await
    # Python 3.11 counts the depth of a tree for all threads together, and trips over it
    with _compiling, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python has warned when it was imported
        try:
            return compile(text, "<text>", "exec", flags, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            return None


def _place(node: _Definition) -> _Place:
    if isinstance(node, ast.Lambda):
        return node.lineno, "<lambda>"
    return min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.name


def source_digest(node: ast.AST) -> str | None:
    """The digest of an AST; None where it nests too deep."""
    try:
        return digest(_canonical(node))
    except RecursionError:
        return None


def _canonical(node: Any) -> Any:
    """An AST as nested lists: no positions, no function docstrings, no empty fields.

    Empty fields are left out because new versions of Python add some.
    """
    if isinstance(node, list):
        return [_canonical(item) for item in node]
    if not isinstance(node, ast.AST):
        return constant(node)
    if isinstance(node, ast.Constant):  # its kind (u"") is layout
        return ["Constant", constant(node.value)]
    fields = dict(ast.iter_fields(node))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _has_docstring(node.body):
        fields["body"] = node.body[1:]
    kept = {name: v for name, v in fields.items() if v not in (None, []) and name != "ctx"}
    return [type(node).__name__, *([name, _canonical(value)] for name, value in kept.items())]


def _has_docstring(body: list[ast.stmt]) -> bool:
    first = body[0].value if isinstance(body[0], ast.Expr) else None
    return isinstance(first, ast.Constant) and isinstance(first.value, str)


def _header_chains(node: _Definition) -> Iterator[Chain]:
    arguments = [part for part in ast.walk(node.args) if isinstance(part, ast.arg)]
    header: list[ast.AST | None] = [argument.annotation for argument in arguments]
    if not isinstance(node, ast.Lambda):
        header += [node.returns, *node.decorator_list]
    for part in header:
        if part is not None:
            yield from name_chains(part)


# -- the body as code ------------------------------------------------------------------


def bytecode_digest(code: CodeType) -> str:
    """A code object without its file, lines, name and docstring."""
    return digest(
        [
            [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount],
            [code.co_code.hex(), code.co_exceptiontable.hex(), code.co_flags & _KIND_FLAGS],
            [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars],
            [_constant_of_code(value) for value in _constants(code)],
        ]
    )


def _constants(code: CodeType) -> tuple[Any, ...]:
    """Before 3.13 the first constant of a ``def`` is its docstring or None."""
    if sys.version_info >= (3, 13):
        documented = bool(code.co_flags & _HAS_DOCSTRING)
    else:
        first = code.co_consts[:1]
        documented = not code.co_name.startswith("<") and isinstance(first and first[0], str)
    return (None, *code.co_consts[1:]) if documented else code.co_consts


def _constant_of_code(value: Any) -> Any:
    return ["code", bytecode_digest(value)] if isinstance(value, CodeType) else constant(value)
