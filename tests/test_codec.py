"""Laws of the codec over plain Python values."""

from __future__ import annotations

import collections
import contextlib
import json
import math
import os
import re
import subprocess
import sys
import threading
import types
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from codec_values import BY_TYPE, any_text, anything, hashables, same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rewind_nb import _codec
from rewind_nb._codec import decode, decode_node, digest, encode, is_atomic, parse
from rewind_nb.errors import NotEncodableError, StoreCorruptError, UnknownTypeError

thorough = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

NEW_YEAR = datetime.fromisoformat("2024-01-01")
TAGS = sorted(_codec._walk.DECODERS)


def comes_back(value):
    data = encode(value)
    back = decode(data)
    assert same(back, value)
    assert encode(back) == data
    assert same(decode_node(parse(data), strict=True), value)


@pytest.mark.parametrize("kind", BY_TYPE)
def test_every_scalar_comes_back_exactly(kind):
    thorough(given(BY_TYPE[kind])(comes_back))()


@thorough
@given(anything)
def test_every_nest_of_values_comes_back_exactly(value):
    comes_back(value)


@thorough
@given(hashables())
def test_every_hashable_comes_back_as_a_key_and_as_a_member(value):
    comes_back({value: 1, "after": 2})
    comes_back({value})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": 1, "a": [1.0, True, None, "é"]}, '{"b":1,"a":[1.0,true,null,"é"]}'),
        (math.nan, '{"$":"float","v":"nan"}'),
        (-math.inf, '{"$":"float","v":"-inf"}'),
        (-0.0, "-0.0"),
        (-(2**2048), '{"$":"int","v":"-1' + "0" * 512 + '"}'),
        ("\ud800", '{"$":"str","v":"7aCA"}'),
        (b"x", '{"$":"bytes","v":"eA=="}'),
        (bytearray(b"x"), '{"$":"bytearray","v":"eA=="}'),
        ((1,), '{"$":"tuple","v":[1]}'),
        ({"b", "a"}, '{"$":"set","v":["a","b"]}'),
        (frozenset({10, 9}), '{"$":"frozenset","v":[10,9]}'),
        ({1: "a", "1": "b"}, '{"$":"dict","v":[[1,"a"],["1","b"]]}'),
        ({"$": 1}, '{"$":"dict","v":[["$",1]]}'),
        (1 - 2j, '{"$":"complex","v":[1.0,-2.0]}'),
        (Decimal("1.10"), '{"$":"decimal","v":"1.10"}'),
        (uuid.UUID(int=1), '{"$":"uuid","v":"00000000-0000-0000-0000-000000000001"}'),
        (date(2024, 2, 29), '{"$":"date","v":"2024-02-29"}'),
        (time(1, 2, fold=1), '{"$":"time","v":"01:02:00","fold":1}'),
        (timedelta(-1, 2, 3), '{"$":"timedelta","v":[-1,2,3]}'),
        (
            datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
            '{"$":"datetime","v":"2024-10-27T02:30:00","tz":{"$":"zone","v":"Europe/Berlin"},"fold":1}',
        ),
        (
            datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2), "X")),
            '{"$":"datetime","v":"2024-01-01T00:00:00","tz":{"$":"timezone","v":7200000000,"name":"X"}}',
        ),
    ],
)
def test_the_stored_form_never_changes(value, expected):
    assert encode(value) == expected.encode()


@thorough
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**60), 2**60)
        | st.text()
        | st.floats(allow_nan=False, allow_infinity=False),
        lambda s: st.lists(s) | st.dictionaries(st.text().filter(lambda key: key != "$"), s),
    )
)
def test_a_plain_json_value_is_encoded_as_itself(value):
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    assert encode(value) == text.encode()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0), (1, True), (0, False), (0.0, -0.0), (None, "null"), ("1", 1), ((1,), [1]),
        (b"x", "x"), (b"x", bytearray(b"x")), ({1}, frozenset({1})), ({}, []), ([], None),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({1: 0, 2: 0}, {2: 0, 1: 0}), ({1: 0}, {"1": 0}),
        ("e\u0301", "\u00e9"), ("\ud83d\ude00", "😀"), (math.nan, None), (Decimal(1), 1),
        (Decimal("1.0"), Decimal("1.00")), (date(2024, 1, 1), NEW_YEAR),
        (NEW_YEAR, NEW_YEAR.replace(fold=1)),
        (datetime(2024, 1, 1, tzinfo=UTC), NEW_YEAR),
        (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC"))),
        ({"a": None}, {}), (complex(0.0, -0.0), complex(0.0, 0.0)),
    ],
    ids=repr,
)  # fmt: skip
def test_values_that_differ_have_different_encodings(left, right):
    assert encode(left) != encode(right)


def test_all_nans_are_one():
    nans = [math.nan, -math.nan, float("inf") - float("inf")]
    assert len({encode(nan) for nan in nans}) == 1
    assert len(decode(encode(set(nans)))) == 3


@thorough
@given(st.lists(hashables(), unique=True, max_size=6), st.randoms())
def test_set_order_never_matters(members, random):
    shuffled = random.sample(members, len(members))
    assert encode(set(members)) == encode(set(shuffled))


HASHED = """
import uuid
from datetime import date
from rewind_nb._codec import digest, encode
words = {f"w{i}" for i in range(50)}
value = {"set": words, "nested": {frozenset(words), frozenset({("a", 1), ("b", None)})},
         "order": {w: 1 for w in sorted(words)}, 5: {date(2024, 1, 1), uuid.UUID(int=7), b"x"}}
print(digest(encode(value)))
"""


def test_a_hash_depends_on_neither_hash_seed_nor_process_nor_locale():
    settings = [("0", "C", "UTC"), ("1", "C.UTF-8", "Asia/Tokyo"), ("4242", "POSIX", "UTC")]
    root = str(Path(_codec.__file__).parents[2])
    digests = {
        subprocess.run(
            [sys.executable, "-c", HASHED],
            env={
                **os.environ,
                "PYTHONPATH": root,
                "PYTHONHASHSEED": seed,
                "LC_ALL": lang,
                "TZ": tz,
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, lang, tz in settings
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    "number", [10**5000, -(10**5000), 2**2048, 2**2048 - 1, -(2**2048)], ids=int.bit_length
)
def test_an_int_of_any_size_comes_back(number):
    comes_back([number, {number: {number}}])


def test_an_int_is_encoded_alike_under_every_str_digits_limit():
    number, before = 10**1000, sys.get_int_max_str_digits()
    data = encode([number])
    try:
        sys.set_int_max_str_digits(640)
        assert encode([number]) == data
        assert decode(data) == [number]
    finally:
        sys.set_int_max_str_digits(before)


MARKERS = [
    {"$": "tuple", "v": [1]},
    {"$": "dataclass", "c": "os:system", "v": {}},
    {"$": {"$": {"$": 1}}},
    {"v": 1, "$": "set"},
    {"__burr_serde__": "pydantic", "__pydantic_class": "antigravity.x"},
    {"lc": 1, "type": "constructor", "id": ["langchain", "Secret"], "kwargs": {}},
    {"__class__": "int"}, {"__proto__": {}}, {"constructor": {}}, {"py/object": "os.system"},
    {"$t": "x"}, {"$ref": "#"}, {"$type": "x"}, {"\\u0024": 1}, {"": {"": ""}}, {"a" * 10_000: 1},
]  # fmt: skip


@pytest.mark.parametrize("value", MARKERS, ids=lambda value: repr(value)[:40])
def test_marker_keys_in_user_data_stay_plain_data(value):
    comes_back(value)
    comes_back([value, {"inside": value}, (value,)])


NAUGHTY = [
    "", " ", "\x00", "\x00\x01\x1f\x7f", "null", "NaN", "true", "undefined", "\\", '"', "'", "`",
    "\\u0000", "\u2028\u2029", "\ufeffbom", "\u202ereversed", "\u200b", "e\u0301" * 1000, "ﬀ", "İ",
    "\ud800", "\udfff", "\ud83d\ude00", "\udc00\ud800", "😀\ud83d", "\ud83d😀", "👩‍👩‍👧‍👦", "🇩🇪",
    "<script>alert(1)</script>", "';DROP TABLE steps--", "../../etc/passwd", "%s%d{0}${x}", "\x1b[31m",
    "\r\n", "\n", "\t", "1e999", "-0", "0x10", "١٢٣", "a" * 100_000, "\ufffd\ufffe\uffff", "\U0010ffff",
]  # fmt: skip


@pytest.mark.parametrize("text", NAUGHTY, ids=lambda text: ascii(text)[:30])
def test_naughty_strings_come_back_as_values_keys_and_members(text):
    comes_back(text)
    comes_back({text: {"k": text}})
    comes_back({(text, 1): {text}})


def test_two_lone_surrogates_never_merge_into_one_character():
    assert len(decode(encode("\ud83d\ude00"))) == 2
    assert len(decode(encode({"\ud83d\ude00": 1})).popitem()[0]) == 2


def test_decoding_gives_fresh_objects_each_time():
    value = {"plain": [1, {"a": []}], "tagged": ([1], {2: []}, bytearray(b"x"), {3})}
    data = encode(value)
    first, second = decode(data), decode(data)
    first["plain"][1]["a"].append(1)
    first["tagged"][0].append(1)
    first["tagged"][1][2].append(1)
    assert same(second, value)


def test_decoding_a_node_never_shares_with_the_node():
    tree = parse(encode({"a": [[1]], "b": ([],)}))
    before = json.dumps(tree)
    decode_node(tree)["a"][0].append(2)
    decode_node(tree["a"])[0].append(2)
    decode_node(tree)["b"][0].append(2)
    assert json.dumps(tree) == before


def test_a_shared_reference_comes_back_as_two_objects():
    shared = [1]
    left, right = decode(encode([shared, shared]))
    assert left == right
    assert left is not right


def test_encoding_leaves_the_value_unchanged():
    value = {"a": [(1, math.nan)], "\ud800": {1: [2]}}
    before = repr(value)
    encode(value)
    assert repr(value) == before


def test_only_immutable_scalars_are_atomic():
    atoms = ["x", 1, 1.0, True, None, b"x", 1j, Decimal(1), uuid.uuid4(), UTC, ZoneInfo("UTC")]
    atoms += [NEW_YEAR, date(2024, 1, 1), time(1), timedelta(1), os.SEEK_SET]
    assert all(map(is_atomic, [*atoms, re.IGNORECASE]))
    assert not any(map(is_atomic, [(), [], {}, set(), frozenset(), bytearray(), object(), str]))


# Refusal


class Picture:
    class Pixel:
        pass


def refusal(value, path="value"):
    with pytest.raises(NotEncodableError) as caught:
        encode(value, path=path)
    assert str(caught.value).startswith(f"{caught.value.path}: {caught.value.type_name} cannot")
    return caught.value


@pytest.mark.parametrize(
    ("value", "root", "path"),
    [
        ([0, 1, 2, {"image": Picture()}], "messages", "messages[3].image"),
        ({"items": {"a.b": Picture()}}, "report", 'report.items["a.b"]'),
        ({"items": Picture()}, "", "items"),
        ([Picture()], "", "[0]"),
        ({"t": ({1: [Picture()]},)}, "value", "value.t[0][1][0]"),
        ({-1: Picture()}, "value", "value[-1]"),
        ({None: Picture()}, "value", "value[None]"),
        ({2.5: Picture()}, "value", "value[2.5]"),
        ({True: Picture()}, "value", "value[True]"),
        ({(1, 2): Picture()}, "value", "value[...]"),
        ({10**5000: Picture()}, "value", "value[...]"),
        ({Picture(): 1}, "value", "value[...]"),
        ({(1, Picture()): 1}, "value", "value[...][1]"),
        ({"s": {Picture()}}, "value", "value.s[...]"),
        ({"k" * 100: Picture()}, "value", f'value["{"k" * 79}…"]'),
        (Picture(), "value", "value"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_refusal_names_the_path(value, root, path):
    error = refusal(value, root)
    assert error.path == path
    assert error.type_name == f"{__name__}.Picture"


def test_a_refusal_names_the_type_in_full_and_what_to_do():
    error = refusal({"image": Picture.Pixel()})
    assert error.type_name == f"{__name__}.Picture.Pixel"
    assert "rewind_nb.register(Pixel, encode, decode)" in str(error)
    assert isinstance(error, TypeError)


class Text(str):
    __slots__ = ()


class Count(int):
    pass


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        (Text("x"), f"{__name__}.Text"),
        (Count(1), f"{__name__}.Count"),
        (Point(1, 2), f"{__name__}.Point"),
        (collections.OrderedDict(a=1), "collections.OrderedDict"),
        (collections.defaultdict(list), "collections.defaultdict"),
        (collections.Counter("a"), "collections.Counter"),
        (collections.deque([1]), "collections.deque"),
        (lambda: 1, "function"),
        ((i for i in ()), "generator"),
        (open, "builtin_function_or_method"),
        (object(), "object"),
        (Picture, "type"),
        (Fraction(1, 2), "fractions.Fraction"),
        (range(3), "range"),
        (..., "ellipsis"),
        (memoryview(b"x"), "memoryview"),
        (ValueError("x"), "ValueError"),
        (threading.Lock(), "_thread.lock"),
        (re.compile("x"), "re.Pattern"),
        (types.SimpleNamespace(), "types.SimpleNamespace"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_what_would_lose_its_type_is_refused(value, type_name):
    assert refusal([value]).type_name == type_name
    assert refusal({"k": (value,)}).path == "value.k[0]"


def test_a_subclass_of_a_key_type_is_refused_too():
    assert refusal({Text("x"): 1}).path == "value[...]"


def test_a_zone_without_a_key_is_refused_with_the_path_of_the_zone():
    keyless = next(
        path
        for root in (
            "/usr/share/zoneinfo",
            str(Path(pytest.importorskip("tzdata").__file__).parent),
        )
        for path in Path(root).rglob("Berlin")
    )
    with keyless.open("rb") as file:
        zone = ZoneInfo.from_file(file)
    assert refusal([datetime(2024, 1, 1, tzinfo=zone)]).path == "value[0].tzinfo"


def test_a_moment_whose_zone_is_missing_here_is_unknown_but_readable():
    data = b'[{"$":"datetime","v":"2024-01-01T00:00:00","tz":{"$":"zone","v":"Mars/Olympus_Mons"}}]'
    with pytest.raises(UnknownTypeError, match="tzdata"):
        decode(data)
    assert decode(data, strict=False)[0].class_name == "Mars/Olympus_Mons"
    assert encode(decode(data, strict=False)) == data


@pytest.mark.parametrize("safe", uuid.SafeUUID)
def test_a_uuid_comes_back_with_how_safely_it_was_made(safe):
    assert decode(encode(uuid.UUID(int=1, is_safe=safe))).is_safe is safe


def test_a_class_that_forbids_storing_is_refused_with_its_own_reason():
    class Hidden:
        __rewind_refuse__ = "a Secret is never stored"

        def __repr__(self):
            raise AssertionError("a refusal never quotes the value")

    error = refusal({"key": Hidden()})
    assert "a Secret is never stored" in str(error)
    assert "register" not in str(error)


# Depth and cycles


def nested(levels, wrap, core=None):
    for _ in range(levels):
        core = wrap(core)
    return core


WRAPS = {
    "list": lambda inner: [inner],
    "dict": lambda inner: {"k": inner},
    "dict with other keys": lambda inner: {1: inner},
    "tuple": lambda inner: (inner,),
    "frozenset": lambda inner: frozenset([inner]),
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("core", [None, math.nan, Decimal(1)], ids=repr)
def test_two_hundred_levels_come_back(wrap, core):
    data = encode(nested(200, wrap, core))
    assert encode(decode(data)) == data


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("levels", [201, 1000, 100_000])
def test_more_than_two_hundred_levels_are_refused(wrap, levels):
    error = refusal(nested(levels, wrap))
    assert "nested deeper than 200 levels" in str(error)


@pytest.mark.parametrize("empty", [[], {}, (), set()], ids=repr)
def test_an_empty_container_is_a_level_too(empty):
    comes_back(nested(199, WRAPS["list"], empty))
    assert "200 levels" in str(refusal(nested(200, WRAPS["list"], empty)))


def test_a_cycle_is_refused_with_the_path_where_it_closes():
    loop = {"name": "a", "children": [{"name": "b"}]}
    loop["children"][0]["parent"] = loop
    error = refusal({"tree": loop}, "state")
    assert error.path == "state.tree.children[0].parent"
    assert "it is state.tree again, a cycle" in str(error)


def test_a_list_that_contains_itself_twice_is_refused_at_once():
    loop = []
    loop += [loop, loop]
    assert refusal(loop).path == "value[0]"


def test_a_cycle_through_a_tuple_and_a_key_is_refused():
    inner = []
    inner.append(({"k": inner},))
    assert refusal(inner).path == "value[0][0].k"


def test_a_full_call_stack_is_a_refusal_and_not_a_recursion_error():
    def descend(levels):
        return encode(nested(150, WRAPS["tuple"])) if levels == 0 else descend(levels - 1)

    with pytest.raises(NotEncodableError, match="call stack"):
        for levels in range(500, 1000, 10):
            descend(levels)


# Hostile bytes

MALFORMED = [
    b"", b"{", b"[1,]", b"nan", b"NaN", b"[Infinity]", b"\xff", b"\xef\xbb\xbf1", b"1 2", b'"\x00"',
    b'{"a":1', b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5000,
    b'{"$":"nothing"}', b'{"$":1}', b'{"$":null}', b'{"$":[]}', b'{"$":{}}', b'{"$":"tuple"}',
    b'{"$":"tuple","v":1}', b'{"$":"tuple","v":"ab"}', b'{"$":"tuple","v":{"a":1}}',
    b'{"$":"tuple","v":[],"more":1}', b'{"$":"tuple","v":[],"strict":1}', b'{"$":"tuple","_strict":0}',
    b'{"$":"set","v":[[]]}', b'{"$":"set","v":[{"$":"set","v":[]}]}', b'{"$":"dict","v":[[1]]}',
    b'{"$":"dict","v":["ab"]}', b'{"$":"dict","v":{"ab":1}}', b'{"$":"dict","v":[[[],1]]}',
    b'{"$":"float","v":"1.5"}', b'{"$":"float","v":[]}', b'{"$":"int","v":"xyz"}', b'{"$":"int","v":7}',
    b'{"$":"bytes","v":"???"}', b'{"$":"bytes","v":1}', b'{"$":"str","v":"/w=="}',
    b'{"$":"complex","v":[1]}', b'{"$":"decimal","v":"abc"}', b'{"$":"decimal","v":1.5}',
    b'{"$":"uuid","v":"1"}', b'{"$":"uuid","v":1}', b'{"$":"date","v":"2024-13-01"}',
    b'{"$":"datetime","v":"2024-01-01T00:00:00+01:00"}', b'{"$":"datetime","v":1}',
    b'{"$":"datetime","v":"2024-01-01","fold":2}', b'{"$":"datetime","v":"2024-01-01","tz":"UTC"}',
    b'{"$":"datetime","v":"2024-01-01","tz":{"$":"bytes","v":""}}',
    b'{"$":"timezone","v":1e30}', b'{"$":"timezone","v":86400000000}', b'{"$":"timezone","v":[]}',
    b'{"$":"zone","v":"../../etc/passwd"}', b'{"$":"zone","v":"/etc/passwd"}', b'{"$":"zone","v":"os.path/x"}',
    b'{"$":"timedelta","v":[1]}', b'{"$":"timedelta","v":[1e300,0,0]}',
    b'{"$":"enum","c":1,"v":"A"}', b'{"$":"dataclass","c":"x:y","v":[]}', b'{"$":"dataclass","c":"x:y"}',
    b'{"$":"dataclass","c":["x"],"v":{}}', b'{"$":"custom","c":{},"v":1}',
    b'{"$":"pydantic","c":"x:y","v":{}}', b'{"$":"pydantic","c":"x:y","v":{},"extra":1,"private":null,"set":[]}',
]  # fmt: skip


def test_an_escaped_tag_is_a_tag():
    assert decode(b'{"\\u0024":"tuple","v":[]}') == decode_node({"$": "tuple", "v": []}) == ()


@pytest.mark.parametrize("data", MALFORMED, ids=lambda data: ascii(data)[:50])
@pytest.mark.parametrize("strict", [True, False])
def test_malformed_bytes_are_corruption_and_nothing_else(data, strict):
    with pytest.raises(StoreCorruptError):
        decode(data, strict=strict)


def survives(data):
    with contextlib.suppress(StoreCorruptError, UnknownTypeError):
        decode(data)
    with contextlib.suppress(StoreCorruptError):
        decode(data, strict=False)


@thorough
@given(st.binary() | any_text.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_random_bytes_never_escape_as_another_error(data):
    survives(data)


@thorough
@given(anything, st.data())
def test_mutated_encodings_never_escape_as_another_error(value, data):
    mutated = bytearray(encode((value,)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        mutated[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.sampled_from([b"", b"[]", b'"', b"1", b"{}", b",", b"null", b"-1"])
        )
        mutated = mutated or bytearray(b"1")
    survives(bytes(mutated))


NAMES = ["c", "v", "tz", "fold", "set", "extra", "private", "absent", "name", "safe", "dtype"]
NAMES += ["shape", "index", "columns", "attrs", "unique", "freq", "levels", "codes", "names"]
NAMES += ["categories", "ordered", "left", "right", "closed", "mask", "storage", "na", "unit"]
WORDS = [
    "O",
    "=f8",
    "<M8[ns]",
    "=i8",
    "=U3",
    "D",
    "right",
    "Int64",
    "NA",
    "python",
    "ns",
    "AAAAAAAAAAA=",
]
WORDS += ["json:JSONDecoder", "codec_values:same", "re:RegexFlag", "2024-01-01", "0", "nan"]
hostile = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 300) | st.floats(width=16) | st.sampled_from(WORDS),
    lambda s: (
        st.lists(s, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES), s, max_size=3)
        | st.builds(
            lambda tag, rest: {"$": tag, **rest},
            st.sampled_from(TAGS),
            st.dictionaries(st.sampled_from(["v", "v", *NAMES]), s, max_size=5),
        )
    ),
    max_leaves=15,
)


@pytest.mark.thorough
@settings(thorough, max_examples=2000)
@given(hostile)
def test_hostile_trees_never_escape_as_another_error(tree):
    survives(json.dumps(tree).encode())


def test_a_digest_is_the_sha256_of_the_bytes():
    assert digest(b"[1]") == "080a9ed428559ef602668b4c00f114f1a11c3f6b02a435f0bdc154578e4d7f22"
