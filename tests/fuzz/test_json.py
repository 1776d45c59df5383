"""Whatever bytes come in, they are strict JSON or refused, as an oracle says that knows only the standard library."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given

from eventhub.core.strict_json import MAX_DEPTH, dump, dump_many, load, ready_texts
from eventhub.errors import InvalidPayloadError
from eventhub.http.problems import Problem
from eventhub.http.reading import ENVELOPE, parse_json
from tests.fuzz.effort import effort
from tests.fuzz.mangling import damaged


class NotStrictError(Exception):
    """By the oracle."""


def oracle(raw: bytes, depth: int = MAX_DEPTH) -> Any:
    """The value of strict JSON, by the json module and the rules one by one."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in found]
        if len(names) != len(set(names)):
            raise NotStrictError("a name twice")
        return dict(found)

    def constant(name: str) -> None:
        raise NotStrictError(name)

    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise NotStrictError(str(error)) from None
    _walk(value, depth)
    return value


def _walk(value: Any, left: int) -> None:
    if isinstance(value, str) and ("\x00" in value or any("\ud800" <= character <= "\udfff" for character in value)):
        raise NotStrictError("a text")
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        raise NotStrictError("an integer")
    if isinstance(value, float) and not math.isfinite(value):
        raise NotStrictError("a float")
    if isinstance(value, dict | list):
        if left == 0:
            raise NotStrictError("too deep")
        for item in [*value.keys(), *value.values()] if isinstance(value, dict) else value:
            _walk(item, left - 1)


def same(one: Any, other: Any) -> bool:
    """Equal with the types of JSON: True is not 1, 1 is not 1.0, and 0.0 is not -0.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and repr(one) == repr(other)


def expected(raw: bytes, depth: int = MAX_DEPTH) -> Any:
    try:
        return oracle(raw, depth)
    except NotStrictError:
        return NotStrictError


def loaded(raw: bytes | str) -> Any:
    try:
        return load(raw)
    except InvalidPayloadError:
        return NotStrictError


@given(damaged())
@example(b"1e999")
@example(b"18446744073709551616")
@example(b"[-9223372036854775809]")
@example(b"-0")
@example(b"123456789012345678901234567890e-10")
@example(b'"\\ud83d\\ude00"')
@example(b'"\\ud83d"')
@example(b'{"a":1,"\\u0061":1}')
@example(b"\xef\xbb\xbf1")
@example(b"[" * 64 + b"]" * 64)
@example(b"[" * 65 + b"]" * 65)
@example(b"[" * 100_000)
@example(b"9" * 5_000)
@effort(150)
def test_a_text_is_read_as_the_oracle_reads_it_or_refused(raw: bytes) -> None:
    assert same(loaded(raw), expected(raw)), raw


@given(damaged())
@example(b'{"payload": 18446744073709551616}')
@example(b'{"payload": 1e999}')
@example(b'{"a:":1,"a":2}')
@example(b'{"a":1,"a":":"}')
@example(b"[1.0, 1e2, -0.0, 12345678901234567890123]")
@effort(150)
def test_the_quick_reader_of_bodies_never_takes_what_the_oracle_refuses(raw: bytes) -> None:
    """A body is checked in two steps: what is doubtful inside its payload is found when that is written again."""
    try:
        value = parse_json(raw)
        text = dump(value)
    except (Problem, InvalidPayloadError):
        if expected(raw) is not NotStrictError:
            pytest.fail(f"{raw!r} is strict JSON, and was refused")
        return
    wanted = expected(raw, MAX_DEPTH + ENVELOPE)
    assert wanted is not NotStrictError, raw
    assert same(value, wanted), raw
    assert same(json.loads(text), wanted), raw


@given(damaged())
@effort(150)
def test_what_was_written_once_is_written_the_same_again(raw: bytes) -> None:
    value = expected(raw)
    if value is NotStrictError:
        return
    text = dump(value)
    assert same(loaded(text), value)
    assert dump(loaded(text)) == text
    assert dump_many([value, value]) == [text, text] or None in dump_many([value, value])
    (ready,) = ready_texts([text])
    assert ready in (text, None)
    assert ready_texts([raw.decode()])[0] in (text, None)
