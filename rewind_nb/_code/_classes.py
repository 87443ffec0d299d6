"""What a class, a wrapper or the target's own instance says.

A class is read from the class object, not from its text: a notebook class without
methods has none that Python could find, and a patched method is what runs. Fields are
read from the declarations that dataclasses, attrs and pydantic keep on the class. A
class docstring counts: schemas and prompts are built from it.
"""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rewind_nb._code._functions import functions_in, read_name
from rewind_nb._code._names import Chain, name_chains, stored_attributes
from rewind_nb._code._source import compiled
from rewind_nb._code._value import (
    attributes,
    class_dict,
    constant,
    is_own_class,
    is_own_function,
    module_dict,
    qualified_name,
    type_name,
)
from rewind_nb._code._walk import Graph, Place, Token, is_wrapper

__all__ = ["read_class", "read_instance", "read_wrapper"]

_FIELDS = ("__dataclass_fields__", "__attrs_attrs__", "__pydantic_fields__", "model_fields")
_OPTIONS = ("init", "repr", "eq", "order", "unsafe_hash", "frozen")  # of @dataclass
_DECLARING = {"dataclasses", "attr", "pydantic", "annotated_types", "typing"}
_SKIPPED = {*_FIELDS, "_abc_impl", "model_computed_fields"}
_MAKERS = {"__init__", "__new__", "__post_init__"}  # they set up an instance, not the class
_SLOTS = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    type(class_dict(inspect.Arguments)["args"]),  # a named tuple's
)
# What a wrapper holds that makes it what it is, in this order.
_FUNCTIONS = ("__func__", "func", "fget", "fset", "fdel", "__wrapped__", "dispatcher")
_TYPES = ("_name", "__forward_arg__", "__origin__", "__args__", "__metadata__")
_DEEPEST = 12


def read_class(graph: Graph, cls: type) -> Token:
    """The tokens of a class of the user's."""
    members = class_dict(cls)
    module, qualname = members.get("__module__"), type.__dict__["__qualname__"].__get__(cls)
    inside = Place(f"class {graph.found.name(module, qualname)}", listed=False)
    tokens = [
        "class",
        type.__dict__["__name__"].__get__(cls),
        _docstring(cls, members),
        [graph.type(base) for base in type.__dict__["__bases__"].__get__(cls)],
        graph.type(type(cls)),
        [graph.unit(base) for base in members.get("__orig_bases__", ()) if is_wrapper(base)],
        _annotations(graph, inside, members),
        [_declared(graph, inside, members.get(key)) for key in _FIELDS],
        _dataclass_options(members),
        _enumeration(graph, inside, members),
        _members(graph, inside, members),
    ]
    graph.found.followed.add(qualified_name(cls))
    graph.found.part(inside.label, [*tokens[:-1], sorted(members)])  # its members say the rest
    return tokens


def _docstring(cls: type, members: Mapping[str, Any]) -> Token:
    """Not the one that dataclasses generate: it may quote addresses."""
    text = members.get("__doc__")
    name = type.__dict__["__name__"].__get__(cls)
    generated = "__dataclass_fields__" in members and str(text).startswith(f"{name}(")
    return None if generated else constant(text)


def _dataclass_options(members: Mapping[str, Any]) -> Token:
    held = attributes(members.get("__dataclass_params__"))
    return [constant(held.get(name)) for name in _OPTIONS]


def _annotations(graph: Graph, inside: Place, members: Mapping[str, Any]) -> Token:
    found = members.get("__annotations__")
    if type(found) is not dict:
        return None
    scope = sys.modules.get(str(members.get("__module__")))
    names = {} if scope is None else module_dict(scope)
    return [
        [name, _declared(graph, inside, kind), _text_annotation(graph, names, kind)]
        for name, kind in found.items()
    ]


def _text_annotation(graph: Graph, scope: Mapping[str, Any], text: Any) -> Token:
    if type(text) is not str:
        return None
    return [[chain, read_name(graph, scope, chain)] for chain in _annotation_names(text)]


@lru_cache(maxsize=1024)
def _annotation_names(text: str) -> tuple[Chain, ...]:
    tree = compiled(text, ast.PyCF_ONLY_AST)  # any text may stand there
    return () if tree is None else tuple(sorted(name_chains(tree)))


def _enumeration(graph: Graph, inside: Place, members: Mapping[str, Any]) -> Token:
    found = members.get("_member_map_", {})
    values = ((name, attributes(member).get("_value_")) for name, member in found.items())
    return [[name, _declared(graph, inside, value)] for name, value in values]


def _members(graph: Graph, inside: Place, members: Mapping[str, Any]) -> Token:
    rebound = {
        name
        for member in members.values()
        for function in functions_in(member)
        if function.__code__.co_name not in _MAKERS
        for name in stored_attributes(function.__code__)
    }
    skipped = {*_SKIPPED, *members.get("_member_map_", ())}
    tokens = []
    for name in sorted(members):
        value = members[name]
        if name not in skipped and not _is_machinery(name, value):
            place = Place(f"{inside.label}.{name}", rebound=name in rebound)
            tokens.append([name, graph.value(place, value)])
    return tokens


def _is_machinery(name: str, value: Any) -> bool:
    """Whether Python or a library put a member there, rather than the user."""
    if type(value) in _SLOTS:
        return True
    functions = list(functions_in(value))
    if any(map(_is_generated, functions)):
        return True
    special = name.startswith("_") and name.endswith("_")
    return special and not any(map(is_own_function, functions))


def _is_generated(function: types.FunctionType) -> bool:
    """By dataclasses, attrs or namedtuple: what the user declared is read instead."""
    return (
        function.__code__.co_qualname.startswith("__create_fn__")
        or function.__code__.co_filename.startswith("<attrs generated")
        or str(function.__globals__.get("__name__")).startswith("namedtuple_")
    )


def _declared(graph: Graph, inside: Place, value: Any, depth: int = 0) -> Token:
    """A declaration such as a dataclass field: the values it was declared with."""
    known = constant(value) or graph.code(inside, value)
    if known is not None or depth > _DEEPEST:
        return known
    deeper = depth + 1
    if type(value) in (list, tuple):
        return [_declared(graph, inside, item, deeper) for item in value]
    if type(value) is dict:
        return [
            [_declared(graph, inside, key, deeper), _declared(graph, inside, item, deeper)]
            for key, item in value.items()
        ]
    name = type_name(value)
    if name.partition(".")[0] not in _DECLARING:
        return name
    held = attributes(value)
    if "_attributes_set" in held:  # pydantic keeps what was given apart from what it derived
        held = {key: held.get(key) for key in ("_attributes_set", "metadata")}
    given = {key: item for key, item in held.items() if item is not None}
    return [name, [[key, _declared(graph, inside, item, deeper)] for key, item in given.items()]]


# -- wrappers and the target's own instance --------------------------------------------


def read_wrapper(graph: Graph, wrapper: Any) -> Token:
    """The tokens of a bound method, a partial, a property, a generic type, ..."""
    held = attributes(wrapper)
    inside = Place(type_name(wrapper))
    tokens = [type_name(wrapper)]
    tokens += [graph.value(inside, held[name]) for name in _FUNCTIONS if name in held]
    tokens += [_declared(graph, inside, held[name]) for name in _TYPES if name in held]
    if "__self__" in held:
        tokens.append(_bound(graph, held["__self__"], held["__func__"]))
    if "keywords" in held:
        tokens.append(_arguments(graph, wrapper, held))
    return tokens


def _bound(graph: Graph, owner: Any, function: Any) -> Token:
    if id(owner) in graph.found.roots and not issubclass(type(owner), type):
        return graph.unit(owner)
    return graph.value(Place(f"self of {qualified_name(function)}"), owner)


def _arguments(graph: Graph, wrapper: Any, held: Mapping[str, Any]) -> Token:
    given = {**dict(enumerate(held["args"])), **held["keywords"]}
    prefix = "" if id(wrapper) in graph.found.roots else f"{_called(held['func'])}."
    return [
        [name, graph.value(Place(f"argument {prefix}{name}"), value)]
        for name, value in sorted(given.items(), key=lambda item: str(item[0]))
    ]


def _called(function: Any) -> str:
    plain = type(function) in (types.FunctionType, types.BuiltinFunctionType)
    return qualified_name(function if plain else type(function))


def read_instance(graph: Graph, instance: Any) -> Token:
    """The tokens of the target's own instance: its attributes may change at any time."""
    if not is_own_class(type(instance)):
        return graph.opaque(Place("self"), instance)
    tokens: list[Token] = ["instance", graph.type(type(instance))]
    for name, value in attributes(instance).items():
        code = graph.code(Place(f"self.{name}"), value)
        place = Place(f"self.{name}", rebound=code is None)
        tokens.append([name, code if code is not None else graph.value(place, value)])
    return tokens
