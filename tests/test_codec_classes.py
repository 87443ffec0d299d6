"""Laws of the codec over user classes: enums, dataclasses, pydantic models, registered types."""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar

import pydantic
import pytest
from codec_values import anything, same, scalars
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel

from rewind_nb import _codec
from rewind_nb._codec import (
    Unresolved,
    _classes,
    _registry,
    _walk,
    decode,
    encode,
    is_atomic,
    know,
    parse,
    register,
)
from rewind_nb.errors import ConfigError, NotEncodableError, StoreCorruptError, UnknownTypeError

thorough = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(autouse=True)
def _no_traces_between_tests(monkeypatch):
    monkeypatch.setattr(_registry, "_classes", {})
    monkeypatch.setattr(_classes, "_registered", {})
    monkeypatch.setattr(_walk, "ENCODERS", dict(_walk.ENCODERS))


def comes_back(value):
    data = encode(value)
    back = decode(data)
    assert same(back, value)
    assert encode(back) == data
    return back


class Color(enum.Enum):
    RED = 1
    CRIMSON = 1  # noqa: PIE796  an alias
    GREEN = "g"


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    A = "a"


class Right(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Bit(enum.IntFlag):
    ONE = 1
    TWO = 2


@dataclass
class Order:
    total: Any
    items: Any = field(default_factory=list)
    tax: ClassVar[int] = 19


@dataclass(frozen=True, slots=True)
class Frozen:
    a: Any
    b: Any = None


@dataclass(slots=True)
class Slotted(Order):
    note: Any = ""


@dataclass
class Guarded:
    a: Any

    def __init__(self):
        raise AssertionError("restoring never runs __init__")

    def __new__(cls, *args):
        raise AssertionError("restoring never runs __new__")

    def __post_init__(self):
        raise AssertionError("restoring never runs __post_init__")

    def __setattr__(self, name, value):
        raise AssertionError("restoring never runs __setattr__")


@dataclass
class Link:
    next: Any


class Item(BaseModel):
    name: Any = Field(default="", alias="itemName")
    count: Any = 0


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: Any = 1
    _hidden: Any = PrivateAttr(default_factory=list)


class Basket(BaseModel):
    items: list[Item] = []
    best: Item | None = None
    color: Color = Color.RED
    order: Order | None = None


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def positive(cls, n):
        assert n > 0
        return n


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    content: T


class Names(RootModel[list[str]]):
    pass


class Chain(BaseModel):
    next: Any = None


# Round trips


@pytest.mark.parametrize(
    "member",
    [*Color, *Level, *Word, *Right, Right(0), Right.READ | Right.WRITE, Bit(3), Bit(8), Bit(0)],
    ids=repr,
)
def test_an_enum_member_comes_back_as_the_same_member(member):
    assert comes_back([member])[0] is member
    assert is_atomic(member)
    comes_back({member: {member}})


def test_an_alias_is_stored_under_the_name_of_its_member():
    assert encode(Color.CRIMSON) == encode(Color.RED)


def test_a_flag_of_several_members_is_stored_by_value():
    assert parse(encode(Right(3)))["v"] == 3
    assert parse(encode(Right.READ))["v"] == "READ"


@thorough
@given(
    anything.flatmap(
        lambda inner: st.sampled_from(
            [
                Order(inner),
                Slotted(inner, [Order(1)], inner),
                Link(Link(inner)),
                [Order(Link(inner))],
            ]
        )
    )
)
def test_every_dataclass_comes_back_exactly(value):
    comes_back(value)


@thorough
@given(scalars.filter(lambda item: not (isinstance(item, Decimal) and item.is_snan())))
def test_every_frozen_dataclass_comes_back_as_member_and_key(content):
    comes_back({Frozen(content), Frozen(Frozen(content))})
    comes_back({Frozen(content): Frozen([1])})


@thorough
@given(
    anything.flatmap(
        lambda inner: st.sampled_from(
            [
                Item(itemName=inner),
                Item.model_construct(count=inner),
                Open(a=inner, extra=inner),
                Open.model_construct({"$"}, a=inner, **{"$": inner}),
                Box[Any](content=inner),
                Chain(next=Chain(next=inner)),
                Basket(items=[Item(count=inner)], best=Item(), order=Order(inner)),
                Basket.model_construct(items=inner),
            ]
        )
    )
)
def test_every_pydantic_model_comes_back_exactly(value):
    comes_back([value])


def test_a_model_keeps_what_was_set_its_extras_and_its_privates():
    model = Open(a=1, other=(2,))
    model._hidden.append(b"x")
    back = comes_back(model)
    assert back == model
    assert back.model_fields_set == {"a", "other"}
    assert back.model_extra == {"other": (2,)}
    assert back._hidden == [b"x"]
    assert comes_back(Open()).model_fields_set == set()


def test_a_model_keeps_fields_that_were_never_set_and_their_order():
    part = Basket.model_construct(color=Color.GREEN)
    del part.__dict__["items"]
    comes_back(part)
    moved = Order(1)
    del moved.items
    comes_back(moved)


def test_validators_do_not_run_again():
    comes_back(Strict.model_construct(n=-5))
    comes_back(Names(["a"]))


def test_no_code_of_a_dataclass_runs():
    empty = object.__new__(Guarded)
    object.__setattr__(empty, "a", (1,))
    assert decode(encode(empty)).a == (1,)


@dataclass(order=True)
class Keyword:
    _: dataclasses.KW_ONLY
    a: int = 1
    seed: dataclasses.InitVar[int] = 3
    late: int = field(init=False, default=7)


def test_a_dataclass_with_unusual_fields_comes_back():
    comes_back(Keyword(a=2))
    assert parse(encode(Keyword(a=2)))["v"] == {"a": 2, "late": 7}


@pydantic.dataclasses.dataclass
class Checked:
    n: int


def test_a_pydantic_dataclass_comes_back():
    comes_back(Checked(3))


def test_the_stored_form_of_user_classes_never_changes():
    module = f"{__name__}:"
    expected = {
        Color.RED: '{"$":"enum","c":"M:Color","v":"RED"}',
        Frozen(1): '{"$":"dataclass","c":"M:Frozen","v":{"a":1,"b":null}}',
    }
    for value, form in expected.items():
        assert encode(value).decode() == form.replace("M:", module)
    assert encode(Open(a=2, z=3)).decode() == (
        '{"$":"pydantic","c":"M:Open","v":{"a":2},"set":["a","z"],'
        '"extra":{"z":3},"private":{"_hidden":[]}}'
    ).replace("M:", module)


def test_generic_models_with_arguments_of_equal_names_stay_apart():
    other = type("Item", (BaseModel,), {"__annotations__": {"x": "int"}, "__module__": "other"})
    mine, theirs = Box[Item](content=Item()), Box[other](content=other(x=1))
    assert type(mine).__qualname__ == type(theirs).__qualname__
    data = encode([mine, theirs])
    back = decode(data)
    assert [type(box) for box in back] == [Box[Item], Box[other]]


# What would be lost


class Bag(dict):
    pass


@dataclass
class Mapping(Bag):
    a: int = 1


@dataclass
class Failure(Exception):
    a: int = 1


@dataclass
class Lazy:
    a: int

    @functools.cached_property
    def twice(self):
        return self.a * 2


class Hidden:
    __slots__ = ("__stash",)

    def stash(self, value):
        self.__stash = value


@dataclass(slots=True)
class Stashed(Hidden):
    a: int = 1


class LazyModel(BaseModel):
    a: int = 1

    @functools.cached_property
    def twice(self):
        return self.a * 2


def refusal(value, path="value"):
    with pytest.raises(NotEncodableError) as caught:
        encode(value, path=path)
    return caught.value


def with_attribute(value, name, content):
    object.__setattr__(value, name, content)
    return value


def test_an_attribute_that_is_not_a_field_is_refused():
    assert "attribute 'x' is not a field" in str(refusal(with_attribute(Order(1), "x", 2)))
    comes_back(Lazy(1))
    lazy, model, stashed = Lazy(1), LazyModel(), Stashed()
    assert (lazy.twice, model.twice) == (2, 2)
    for value in (lazy, model):
        assert "attribute 'twice' is not a field but a cached property" in str(refusal(value))
    comes_back(stashed)
    stashed.stash(1)
    assert "attribute '_Hidden__stash' is not a field" in str(refusal(stashed))


@pytest.mark.parametrize("value", [Mapping(), Failure()], ids=repr)
def test_a_dataclass_on_a_builtin_base_is_refused(value):
    refusal(value)


def test_a_refusal_inside_an_object_names_the_field():
    assert refusal(Order(items=[1, object()], total=1), "o").path == "o.items[1]"
    assert refusal([Item(itemName=object())], "m").path == "m[0].name"
    assert refusal(Open(deep={"k": object()})).path == "value.deep.k"
    hidden = Open()
    hidden._hidden.append(object())
    assert refusal(hidden).path == "value._hidden[0]"


def test_a_cycle_through_objects_is_refused_with_its_path():
    node = Link(None)
    node.next = [node]
    assert refusal(node).path == "value.next[0]"
    chain = Chain()
    chain.next = Link(chain)
    assert refusal({"c": chain}).path == "value.c.next.next"


@pytest.mark.parametrize("wrap", [Link, lambda inner: Chain.model_construct(next=inner)])
def test_objects_nest_two_hundred_levels_and_no_more(wrap):
    core = None
    for _ in range(200):
        core = wrap(core)
    data = encode(core)
    assert encode(decode(data)) == data
    assert "nested deeper" in str(refusal(wrap(core)))


# Classes that are not here, or are not what they were


def forget(*kinds):
    for kind in kinds:
        _registry._classes.pop(_registry.class_name(kind), None)


def local(name="Report", **fields):
    kind = make_dataclass(name, fields or {"total": int})
    kind.__module__, kind.__qualname__ = "reports.monthly", f"make.<locals>.{name}"
    return kind


def test_a_class_is_found_if_it_was_encoded_or_is_known():
    kind = local()
    data = encode(kind(1))
    assert type(decode(data)) is kind
    forget(kind)
    with pytest.raises(UnknownTypeError):
        decode(data)
    know(kind)
    assert type(decode(data)) is kind


def test_a_missing_class_is_named_with_what_to_import():
    kind = local()
    data = encode([kind(1)])
    forget(kind)
    with pytest.raises(UnknownTypeError) as caught:
        decode(data)
    assert caught.value.class_name == "reports.monthly:make.<locals>.Report"
    assert "Import 'reports.monthly' first, or pass types=[Report]" in str(caught.value)


def absent_values():
    kind, shade = local(), enum.Enum("Shade", "DARK", module="reports.monthly")
    model = pydantic.create_model("Page", n=(int, 1), __module__="reports.monthly")
    extra = type("Extra", (Open,), {"__module__": "reports.monthly"})
    register(Fraction, lambda f: (f.numerator, f.denominator), lambda v: Fraction(*v), name="frac")
    value = [
        {"report": kind((1, [kind(2)]))}, {shade.DARK: shade.DARK}, model(n=2), extra(x={1: 2}),
        Fraction(1, 3), Order(kind(3)), dict.fromkeys([Frozen(shade.DARK)]), {shade.DARK},
        Box[model](content=model(n=3)),
    ]  # fmt: skip
    data = encode(value)
    _registry._classes.clear()
    _classes._registered.clear()
    return data


def test_values_of_missing_classes_can_be_read_and_encode_back_identically():
    data = absent_values()
    with pytest.raises(UnknownTypeError):
        decode(data)
    back = decode(data, strict=False)
    assert encode(back) == data
    assert same(decode(encode(back), strict=False), back)
    report = back[0]["report"]
    assert (report.kind, report.class_name) == ("dataclass", "reports.monthly:make.<locals>.Report")
    assert report.fields["total"][1][0].fields == {"total": 2}
    assert back[3].fields == {"a": 1, "x": {1: 2}}
    assert back[4].fields == {"value": (1, 3)}
    assert type(back[5]) is Order
    assert back[5].total.fields == {"total": 3}


def test_an_unresolved_value_is_immutable_and_compares_by_content():
    data = absent_values()
    left, right = (decode(data, strict=False)[0]["report"] for _ in range(2))
    left.fields["total"] = 5
    left.fields["total"][1].append(1)
    assert left == right
    assert hash(left) == hash(right)
    assert left != decode(data, strict=False)[2]
    assert left != 1


def test_the_repr_of_an_unresolved_value_is_deterministic_and_short():
    kind = local()
    short, long = encode(kind({"b", "a"})), encode(kind("x" * 1000))
    forget(kind)
    name = "reports.monthly:make.<locals>.Report"
    expected = f'Unresolved({name} {{"total":{{"$":"set","v":["a","b"]}}}})'
    assert repr(decode(short, strict=False)) == expected
    assert len(repr(decode(long, strict=False))) < 300


def test_changed_fields_are_refused_and_named():
    old, new = local(total=int, draft=str), local(total=int, verdict=str)
    data = encode(old(1, "x"))
    forget(old)
    know(new)
    with pytest.raises(UnknownTypeError) as caught:
        decode(data)
    assert (caught.value.missing, caught.value.added) == (["draft"], ["verdict"])
    assert "['verdict']" in str(caught.value)
    assert "['draft']" in str(caught.value)
    back = decode(data, strict=False)
    assert isinstance(back, Unresolved)
    assert back.fields == {"total": 1, "draft": "x"}
    assert encode(back) == data


@pytest.mark.parametrize(
    ("now", "missing", "added"), [("a", ["b"], []), ("abc", [], ["c"]), ("", ["a", "b"], [])]
)
def test_a_field_more_or_a_field_less_is_refused(now, missing, added):
    data = encode(local(a=int, b=int)(1, 2))
    new = make_dataclass("Report", list(now))
    new.__module__, new.__qualname__ = "reports.monthly", "make.<locals>.Report"
    know(new)
    with pytest.raises(UnknownTypeError) as caught:
        decode(data)
    assert (caught.value.missing, caught.value.added) == (missing, added)


def test_fields_in_another_order_are_the_same_fields():
    data = encode(local(a=int, b=int)(1, 2))
    know(local(b=int, a=int))
    assert (decode(data).a, decode(data).b) == (1, 2)


def test_changed_fields_of_a_model_are_refused_and_named():
    def make(**fields):
        return pydantic.create_model("Page", __module__="reports.monthly", **fields)

    data = encode(make(a=(int, 1), b=(int, 2))())
    know(make(a=(int, 1), c=(int, 3)))
    with pytest.raises(UnknownTypeError) as caught:
        decode(data)
    assert (caught.value.missing, caught.value.added) == (["b"], ["c"])
    assert encode(decode(data, strict=False)) == data


def test_the_newest_definition_in_a_loaded_module_wins(monkeypatch):
    module = ModuleType("cells")
    monkeypatch.setitem(sys.modules, "cells", module)
    versions = []
    for _ in range(2):
        exec("from dataclasses import dataclass\n@dataclass\nclass R:\n    a: int", module.__dict__)
        versions.append(module.R)
    data = encode(versions[0](1))
    assert type(decode(data)) is versions[1]


def test_a_removed_enum_member_is_named_with_the_nearest():
    shade = enum.Enum("Shade", "DARK LIGHT", module="reports.monthly")
    data = encode(shade.DARK)
    forget(shade)
    know(enum.Enum("Shade", "DARKER LIGHT", module="reports.monthly"))
    with pytest.raises(UnknownTypeError, match="Did you mean 'DARKER'"):
        decode(data)
    assert decode(data, strict=False).fields == {"value": "DARK"}


def test_an_enum_is_restored_by_name_even_where_its_value_changed():
    data = encode(enum.Enum("Shade", {"DARK": 1}, module="reports.monthly").DARK)
    new = enum.Enum("Shade", {"DARK": 2}, module="reports.monthly")
    know(new)
    assert decode(data) is new.DARK


def test_only_restorable_classes_can_be_known():
    for wrong in (int, dict, Mapping, Path, "Order", Order(1)):
        with pytest.raises(ConfigError, match="register"):
            know(wrong)
    know(Color, Order, Item, Box[int])


# Nothing in stored data chooses code


CANARY = "import pathlib; pathlib.Path(__file__).with_name('imported').touch()\n"


@pytest.fixture
def canary(tmp_path, monkeypatch):
    (tmp_path / "canary_mod.py").write_text(CANARY + "class Thing: pass\n")
    package = tmp_path / "canary_pkg"
    package.mkdir()
    (package / "__init__.py").write_text(
        "def __getattr__(name):\n    import canary_mod\n    return canary_mod.Thing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    spec = importlib.util.spec_from_file_location("canary_lazy", tmp_path / "canary_mod.py")
    loader = importlib.util.LazyLoader(spec.loader)
    spec.loader = loader
    lazy = importlib.util.module_from_spec(spec)
    loader.exec_module(lazy)
    monkeypatch.setitem(sys.modules, "canary_lazy", lazy)
    importlib.import_module("canary_pkg")
    yield tmp_path / "imported"
    for name in ("canary_mod", "canary_pkg"):
        sys.modules.pop(name, None)


NODES = [
    '{"$":"dataclass","c":"NAME","v":{}}',
    '{"$":"enum","c":"NAME","v":"A"}',
    '{"$":"enum","c":"NAME","v":1}',
    '{"$":"pydantic","c":"NAME","v":{},"set":[],"extra":null,"private":null}',
    '{"$":"custom","c":"NAME","v":1}',
]


@pytest.mark.parametrize("node", NODES, ids=lambda node: node[6:14])
@pytest.mark.parametrize("module", ["canary_mod", "canary_pkg", "canary_pkg.sub", "canary_lazy"])
def test_a_name_found_in_stored_data_is_never_imported(canary, node, module):
    data = node.replace("NAME", f"{module}:Thing").encode()
    with pytest.raises(UnknownTypeError):
        decode(data)
    assert encode(decode(data, strict=False)) == data
    assert not canary.exists()
    assert "canary_mod" not in sys.modules


@pytest.mark.parametrize("node", NODES, ids=lambda node: node[6:14])
@pytest.mark.parametrize(
    "name",
    ["os:system", "builtins:dict", "subprocess:Popen", "decimal:Decimal", "dataclasses:field",
     "pathlib:Path", "sys:modules", "os:path.join", ":", "x", "", "builtins:", "a:b:c", "re:A.b"],
)  # fmt: skip
def test_only_classes_of_the_stored_kind_are_ever_made(node, name):
    with pytest.raises(UnknownTypeError):
        decode(node.replace("NAME", name).encode())


def test_a_class_of_another_kind_is_not_what_was_stored():
    for stored, found in [("enum", "Order"), ("dataclass", "Item"), ("pydantic", "Order")]:
        node = next(node for node in NODES if stored in node)
        with pytest.raises(UnknownTypeError):
            decode(node.replace("NAME", f"{__name__}:{found}").encode())


def test_a_name_that_only_aliases_a_class_is_not_its_name(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "Alias", Frozen, raising=False)
    with pytest.raises(UnknownTypeError):
        decode(f'{{"$":"dataclass","c":"{__name__}:Alias","v":{{"a":1,"b":2}}}}'.encode())


DAMAGED = [
    '{"$":"dataclass","c":"M:Frozen","v":[1,2]}',
    '{"$":"dataclass","c":"M:Frozen","v":{"a":1,"b":2},"absent":"x"}',
    '{"$":"dataclass","c":"M:Frozen","v":{"a":1,"b":2},"absent":[1]}',
    '{"$":"set","v":[{"$":"dataclass","c":"M:Frozen","v":{"a":[],"b":2}}]}',
    '{"$":"set","v":[{"$":"dataclass","c":"M:Order","v":{"total":1,"items":2}}]}',
    '{"$":"enum","c":"M:Color","v":1}',
    '{"$":"enum","c":"M:Right","v":"x"}',
    '{"$":"enum","c":"M:Right","v":1024}',
    '{"$":"enum","c":"M:Right","v":[]}',
    '{"$":"pydantic","c":"M:Item","v":{"name":1,"count":2},"set":1,"extra":null,"private":null}',
    '{"$":"pydantic","c":"M:Item","v":{"name":1,"count":2},"set":[[]],"extra":null,"private":null}',
    '{"$":"pydantic","c":"M:Item","v":{"name":1,"count":2},"set":[],"extra":1,"private":null}',
    '{"$":"pydantic","c":"M:Item","v":{"name":1,"count":2},"set":[],"extra":null,"private":[]}',
    '{"$":"pydantic","c":"M:Item","v":{"name":1,"count":2},"extra":null,"private":null}',
    '{"$":"pydantic","c":"M:Item","v":{"name":1,"count":2},"set":[],"more":1,"extra":null,"private":null}',
]


@pytest.mark.parametrize("node", DAMAGED)
def test_damaged_objects_are_corruption_or_unknown_and_nothing_else(node):
    with pytest.raises((StoreCorruptError, UnknownTypeError)):
        decode(node.replace("M:", f"{__name__}:").encode())


# register


def test_a_registered_type_comes_back_through_its_own_functions():
    register(Fraction, lambda f: (f.numerator, f.denominator), lambda v: Fraction(*v))
    comes_back({Fraction(1, 3): [Fraction(2)]})
    assert encode(Fraction(1, 3)) == (
        b'{"$":"custom","c":"fractions:Fraction","v":{"$":"tuple","v":[1,3]}}'
    )


def test_a_registered_type_takes_precedence_over_its_kind():
    register(Order, lambda order: order.total, Order, name="order")
    register(Color, lambda color: color.name, lambda name: Color[name], name="color")
    register(Decimal, str, Decimal, name="decimal")
    assert parse(encode(Order(1))) == {"$": "custom", "c": "order", "v": 1}
    assert decode(encode(Order(1))) == Order(1)
    assert comes_back([Color.RED])[0] is Color.RED
    assert parse(encode(Decimal(1)))["$"] == "custom"


def test_a_registered_type_does_not_cover_its_subclasses():
    register(Order, lambda order: order.total, Order)
    assert parse(encode(Slotted(1)))["$"] == "dataclass"


def test_a_registered_encoder_may_return_any_encodable_value():
    register(complex, lambda c: [Frozen(c.real), {c.imag}], lambda v: complex(v[0].a, *v[1]))
    comes_back(1 + 2j)
    register(Fraction, lambda f: {"bad": object()}, Fraction)
    assert refusal([Fraction(1)]).path == "value[0].bad"


def test_an_encoder_that_fails_is_a_refusal_with_the_path():
    register(Fraction, lambda f: 1 / 0, Fraction)
    error = refusal({"f": Fraction(1)})
    assert error.path == "value.f"
    assert "ZeroDivisionError" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_an_encoder_that_returns_its_argument_is_a_refusal():
    register(Fraction, lambda f: f, Fraction)
    assert "cycle" in str(refusal(Fraction(1)))


def test_a_decoder_that_fails_leaves_the_value_readable():
    register(Fraction, str, lambda text: 1 / 0)
    data = encode(Fraction(1, 3))
    with pytest.raises(UnknownTypeError, match="ZeroDivisionError") as caught:
        decode(data)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert decode(data, strict=False).fields == {"value": "1/3"}


def test_a_decoder_is_never_handed_a_placeholder():
    kind, handed = local(), []
    register(Fraction, lambda f: kind(str(f)), handed.append, name="frac")
    data = encode([Fraction(1, 3)])
    forget(kind)
    with pytest.raises(UnknownTypeError, match=r"reports\.monthly"):
        decode(data)
    assert decode(data, strict=False)[0].class_name == "frac"
    assert encode(decode(data, strict=False)) == data
    assert not handed


def test_a_type_that_is_not_registered_here_is_named():
    data = b'{"$":"custom","c":"frac","v":1}'
    with pytest.raises(UnknownTypeError, match="register"):
        decode(data)
    assert encode(decode(data, strict=False)) == data


def test_a_name_belongs_to_one_class_but_the_class_may_be_redefined():
    register(Fraction, str, Fraction, name="f")
    with pytest.raises(ConfigError, match=r"belongs to fractions\.Fraction"):
        register(complex, str, complex, name="f")
    old, new = local(), local()
    for kind in (old, new):
        register(kind, lambda item: item.total, kind)
    assert type(decode(encode(old(1)))) is new


@pytest.mark.parametrize("kind", [str, int, float, bool, type(None), list, dict])
def test_plain_json_cannot_be_registered(kind):
    with pytest.raises(ConfigError, match="plain JSON"):
        register(kind, str, kind)


def test_a_class_that_forbids_storing_cannot_be_registered_and_is_refused_in_any_kind():
    @dataclass
    class Key:
        __rewind_refuse__: ClassVar[str] = "a Secret is never stored"
        text: str

    with pytest.raises(ConfigError, match="forbids"):
        register(Key, str, Key)
    assert "a Secret is never stored" in str(refusal([Key("x")]))
    assert "k-123" not in str(refusal(Key("k-123")))


LAZY = """
import sys
from rewind_nb import _codec
class Thing: pass
for value in [1, (1,), b"x"]:
    assert _codec.decode(_codec.encode(value)) == value
try:
    _codec.encode(Thing())
except TypeError:
    pass
print([name for name in ("numpy", "pandas", "pydantic") if name in sys.modules])
"""


def test_the_codec_alone_imports_neither_numpy_nor_pandas_nor_pydantic():
    root = str(Path(_codec.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", LAZY],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
