"""Strict JSON: what is a payload, what is not and why, and that it comes back as it was."""

import datetime as dt
import decimal
import enum
import http
import math
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eventhub.core.strict_json import MAX_BYTES, decode, dump, dump_many, dump_metadata, load, ready_texts
from eventhub.errors import InvalidPayloadError, PayloadTooLargeError


class Colour(enum.Enum):
    RED = "red"
    MIXED = ({"red": 1}, None)
    STRANGE = object()
    NO_NUMBER = math.nan


class Size(enum.StrEnum):
    LARGE = "large"


class Weight(str, enum.Enum):  # noqa: UP042 - StrEnum is another
    """As they were made before there was StrEnum: its str() is not its value."""

    HEAVY = "heavy"


class Walked(float):
    """What only the slow way takes."""


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.dates()
    | st.decimals()
    | st.uuids()
    | st.sampled_from([*Colour, *Size, *Weight]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.none(), inner, max_size=4)
    ),
    max_leaves=15,
)


def same(one: Any, other: Any) -> bool:
    """Equal with the types of JSON: True is not 1, and 1 is not 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and bool(one == other)


@given(VALUES)
@example("a string")
@example('{"looks": "like JSON"}')
@example("\\u0000 written out")
@example([-0.0, 5e-324, 1.7976931348623157e308, 2**64 - 1, -(2**63)])
def test_what_is_stored_comes_back(value: Any) -> None:
    assert same(load(dump(value)), value)
    assert same(decode(dump(value)), value)
    assert dump(load(dump(value))) == dump(value)


@given(ANYTHING)
def test_either_it_is_json_or_it_is_refused(value: Any) -> None:
    try:
        text = dump(value)
    except InvalidPayloadError:
        return
    assert dump(load(text)) == text


@given(VALUES)
def test_both_ways_write_the_same(value: Any) -> None:
    assert dump([value, Walked(0.5)]) == f"[{dump(value)},0.5]"


@given(st.lists(ANYTHING, max_size=6))
def test_many_at_once_are_the_same_texts_as_one_by_one(values: list[Any]) -> None:
    texts = dump_many(values)
    assert len(texts) == len(values)
    for value, text in zip(values, texts, strict=True):
        if text is not None:
            assert text == dump(value)


def test_many_plain_payloads_are_done_together_and_only_a_doubtful_one_is_left_to_the_single_form() -> None:
    plain = [{"n": n, "text": "line\nbreak é"} for n in range(200)]
    assert dump_many(plain) == [dump(payload) for payload in plain]
    deep, wide = nested(65, lambda inner: [inner]), "x" * MAX_BYTES
    assert dump_many([*plain[:2], deep, wide, *plain[2:4]]) == [
        *map(dump, plain[:2]),
        None,
        None,
        *map(dump, plain[2:4]),
    ]
    assert dump_many([deep, deep]) == [None, None]
    assert dump_many([wide, "y" * MAX_BYTES]) == [None, None]
    almost, flat = nested(64, lambda inner: [inner]), {"n": [1], "m": {}}
    for together in ([almost, almost], [flat, flat], [flat, almost], [almost, flat], [flat, 1], [1, flat], [1, 2]):
        assert dump_many(together) == [*map(dump, together)]
    fragment = orjson.Fragment(b"1\n2")
    for bad in (
        math.nan,
        2**64,
        "\x00",
        object(),
        {1: 2},
        cycle(),
        "\ud800",
        nested(5000, lambda inner: [inner]),
        fragment,
    ):
        assert dump_many([bad]) == [None]
        assert dump_many([None, bad]) == [None, None]
    assert dump_many([]) == []


def nested(levels: int, make: Callable[[Any], Any]) -> Any:
    value: Any = "deep"
    for _ in range(levels):
        value = make(value)
    return value


def cycle() -> list[Any]:
    value: list[Any] = [1]
    value.append({"again": value})
    return value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (math.nan, r"payload is nan; JSON has no NaN or Infinity"),
        ([1, math.inf], r"payload\[1\] is inf"),
        ({"a": {"b": -math.inf}}, r"payload\.a\.b is -inf"),
        (cycle(), r"payload\[1\]\.again contains itself; break the cycle"),
        ({1: "a"}, r"payload has the key 1, a int; JSON keys are strings"),
        ({"a": {None: 1}}, r"payload\.a has the key None"),
        ({(1, 2): 1}, r"has the key \(1, 2\), a tuple"),
        ("a\ud800b", r"contains a lone surrogate; send well-formed Unicode"),
        ({"\udfff": 1}, r"payload key contains a lone surrogate"),
        ("a\x00b", r"payload contains a NUL character; remove it"),
        ({"a\x00": 1}, r"payload key contains a NUL character"),
        (["\\u0000", "\x00"], r"payload\[1\] contains a NUL"),
        (nested(65, lambda inner: [inner]), r"is nested more than 64 levels deep; flatten it"),
        (nested(65, lambda inner: {"k": inner}), r"is nested more than 64 levels deep"),
        (nested(5000, lambda inner: [inner]), r"is nested more than 64 levels deep"),
        (nested(65, lambda inner: (inner,)), r"is nested more than 64 levels deep"),
        (2**64, r"payload is an integer beyond 64 bits; send it as a string"),
        ([-(2**63) - 1], r"payload\[0\] is an integer beyond 64 bits"),
        (10**30, r"beyond 64 bits"),
        (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), r"payload is a datetime; convert it to a string"),
        ({"day": dt.date(2026, 1, 1)}, r"payload\.day is a date"),
        (dt.timedelta(1), r"is a timedelta"),
        (decimal.Decimal("1.5"), r"is a Decimal"),
        (b"bytes", r"is a bytes"),
        (bytearray(b"bytes"), r"is a bytearray"),
        ({1, 2}, r"is a set"),
        (object(), r"is a object"),
        ([Colour.STRANGE], r"payload\[0\] is a object"),
        (Colour.NO_NUMBER, r"payload is nan"),
        ([1, [2, {"x": range(3)}]], r"payload\[1\]\[1\]\.x is a range"),
        (msgspec.UNSET, r"is a UnsetType"),
        (complex(1, 2), r"is a complex"),
        ({"a": orjson.Fragment(b"1")}, r"payload\.a is a Fragment"),
        (orjson.Fragment(b"NaN"), r"payload is a Fragment"),
    ],
)
def test_what_json_cannot_say_is_refused_with_the_place_and_the_remedy(value: Any, why: str) -> None:
    with pytest.raises(InvalidPayloadError, match=why):
        dump(value)


def test_dataclasses_and_structs_are_no_payloads() -> None:
    class Point(msgspec.Struct):
        x: int = 1

    with pytest.raises(InvalidPayloadError, match="is a Point"):
        dump(Point())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ("", '""'),
        ([], "[]"),
        ({}, "{}"),
        ((1, (2, "x")), '[1,[2,"x"]]'),
        ({"b": 1, "a": 2}, '{"b":1,"a":2}'),
        (OrderedDict(b=1), '{"b":1}'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        ([Colour.RED, Colour.MIXED], '["red",[{"red":1},null]]'),
        ({Size.LARGE: [Size.LARGE, Weight.HEAVY], Weight.HEAVY: None}, '{"large":["large","heavy"],"heavy":null}'),
        ((Size.LARGE, Weight.HEAVY, Colour.RED, http.HTTPStatus.OK, None), '["large","heavy","red",200,null]'),
        (1.0, "1.0"),
        ("é€😀", '"é€😀"'),
        (2**64 - 1, "18446744073709551615"),
        (-(2**63), "-9223372036854775808"),
    ],
)
def test_the_text_is_the_shortest_there_is(value: Any, text: str) -> None:
    assert dump(value) == text


@pytest.mark.parametrize("make", [lambda inner: [inner], lambda inner: {"k": inner}, lambda inner: (inner,)])
def test_sixty_four_levels_are_fine(make: Callable[[Any], Any]) -> None:
    text = dump(nested(64, make))
    assert dump(load(text)) == text


def test_many_brackets_side_by_side_are_not_deep() -> None:
    value: list[Any] = [[] for _ in range(1000)]
    assert load(dump(value)) == value
    assert load(dump("[" * 1000)) == "[" * 1000


def test_the_same_part_twice_is_no_cycle() -> None:
    part = {"a": [1]}
    assert load(dump([part, part, (part,)])) == [part, part, [part]]


def test_exactly_the_limit_is_accepted_and_one_byte_more_is_not() -> None:
    assert MAX_BYTES == 1_048_576
    fits = "x" * (MAX_BYTES - 2)
    assert len(dump(fits)) == MAX_BYTES
    assert load(dump(fits)) == fits
    with pytest.raises(PayloadTooLargeError, match=r"payload has 1,048,577 bytes; at most 1,048,576"):
        dump(fits + "x")
    with pytest.raises(PayloadTooLargeError):
        load(dump(fits).encode() + b" ")


def test_the_limit_counts_bytes_and_not_characters() -> None:
    fits = "é" * (MAX_BYTES // 2 - 1)
    assert load(dump(fits)) == fits
    with pytest.raises(PayloadTooLargeError):
        dump(fits + "é")
    with pytest.raises(PayloadTooLargeError):
        load('"' + fits + 'é"')
    with pytest.raises(PayloadTooLargeError):
        load(('"' + fits + 'é"').encode())


def test_the_limit_also_counts_where_the_slow_way_is_taken() -> None:
    fits = ("x" * (MAX_BYTES - 4),)
    assert len(dump(fits)) == MAX_BYTES
    with pytest.raises(PayloadTooLargeError):
        dump(("x" * (MAX_BYTES - 3),))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', r"payload has the key 'a' twice in one object; keep one"),
        ('[{"x": {"b": 1, "c": 2, "b": 1}}]', "the key 'b' twice"),
        ("NaN", "contains NaN"),
        ("[Infinity]", "contains Infinity"),
        ('{"a": -Infinity}', "contains -Infinity"),
        ("1e400", "is inf"),
        ('"\\ud800"', "lone surrogate"),
        ('"\\u0000"', "NUL"),
        ('{"\\u0000": 1}', "NUL"),
        ("18446744073709551616", "beyond 64 bits"),
        ("9" * 5000, "payload"),
        ("[" * 65 + "]" * 65, "more than 64 levels"),
        ("[" * 100_000, "payload"),
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("{'a': 1}", "is not JSON"),
        ("[1,]", "is not JSON"),
        ("01", "is not JSON"),
        ("nul", "is not JSON"),
        ("\ufeff1", "is not JSON"),
        ("1 2", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b'"\xed\xa0\x80"', "is not JSON"),
        ('"a\nb"', "is not JSON"),
    ],
)
def test_json_from_outside_is_read_as_strictly(text: str | bytes, why: str) -> None:
    with pytest.raises(InvalidPayloadError, match=why):
        load(text)


def test_nothing_is_paid_for_the_place_of_what_is_right() -> None:
    value = {"k" * 1_000_000: [1] * 100_000 + [2**64 - 1]}  # a number for which it is walked
    started = time.perf_counter()
    assert load(dump(value, max_bytes=2**24), max_bytes=2**24) == value
    assert time.perf_counter() - started < 2


def test_the_place_in_an_error_is_kept_short() -> None:
    with pytest.raises(InvalidPayloadError) as caught:
        dump({"k" * 1_000_000: [{"a\nb": [1, "\x00"]}]})
    assert str(caught.value) == f"payload.{'k' * 191}… contains a NUL character; remove it."
    with pytest.raises(InvalidPayloadError, match=r"^payload\[0\]\.a b\[1\] contains a NUL"):
        dump([{"a\nb": [1, "\x00"]}])


@given(VALUES)
def test_bytes_and_text_are_read_alike(value: Any) -> None:
    assert same(load(dump(value).encode()), load(dump(value)))


@pytest.mark.parametrize(("metadata", "text"), [(None, None), ({}, None), ({"a": "b"}, '{"a":"b"}')])
def test_metadata_is_a_flat_mapping(metadata: Any, text: str | None) -> None:
    assert dump_metadata(metadata) == text


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"a": 1}, r"metadata\['a'\] is 1; both the key and the value must be strings"),
        ({1: "a"}, r"metadata\[1\] is 'a'"),
        ({"a": None}, r"metadata\['a'\] is None"),
        ({"a": {"b": "c"}}, "must be strings"),
        (["a"], "metadata is a list; give a mapping"),
        ("text", "metadata is a str"),
        ({"a": "\x00"}, r"metadata\.a contains a NUL"),
        ({"a": "\ud800"}, r"metadata\.a contains a lone surrogate"),
    ],
)
def test_other_metadata_is_refused(metadata: Any, why: str) -> None:
    with pytest.raises(InvalidPayloadError, match=why):
        dump_metadata(metadata)


@given(st.lists(VALUES, max_size=5))
def test_texts_of_our_own_are_ready(values: list[Any]) -> None:
    texts = [dump(value) for value in values]
    assert all(ready in (text, None) for ready, text in zip(ready_texts(texts), texts, strict=True))
    plain = [dump({"n": number, "texts": ["a", "ä\n"], "half": number / 2}) for number in range(100)]
    assert ready_texts([*plain, *texts])[:64] == plain[:64]


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a": 1}',
        "[1,\n2]",
        "1\n2",
        "",
        "NaN",
        "1e400",
        '"\\u0000"',
        "123456789012345678901234567890",
        "[" * 65 + "]" * 65,
        '"\ud800"',
        "1.0E10",
        '"' + "x" * 1_048_576 + '"',
    ],
)
def test_texts_that_say_it_otherwise_are_not_ready_nor_do_they_harm_others(text: str) -> None:
    assert ready_texts([text]) == [None]
    assert ready_texts(["1", text, "{}"])[1] is None
    assert ready_texts(["1", "{}"]) == ["1", "{}"]
