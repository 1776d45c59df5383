"""Texts of JSON as strangers send them: right ones that were damaged, and values that are nearly right."""

import json
from typing import Any

from hypothesis import strategies as st

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SMALL = st.none() | st.booleans() | st.integers(-(2**66), 2**66) | st.floats(allow_nan=False) | TEXTS
VALUES: st.SearchStrategy[Any] = st.recursive(
    SMALL, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=5
)
WHOLE = [
    b"null", b'"text"', b"[]", b"{}", b"[1,-2.5e3,0,true,null]", b'{"a":1,"b":[{"c":"d"},{"c":"e"}],"f":{"g":{}}}',
    b'{ "a" : [ 1 ,\n 2 ] , "b" : "x:y,z" }', b'{"t":"\\n\\u00e9\\ud83d\\ude00\\\\","u":"\xc3\xa9\xf0\x9f\x92\xa5"}',
    b"[18446744073709551615,-9223372036854775808,1.7976931348623157e308,5e-324]", b'[[[[[["deep"]]]]]]',
    b'{"events":[{"payload":{"a":{"b":[1,2,{"c":null}]}},"tags":"a, b"},{"payload":"x"}]}',
]  # fmt: skip
PIECES = [
    b"NaN", b"Infinity", b"-Infinity", b"-0", b"-0.0", b"1e999", b"-1e999", b"1e-999", b"01", b"+1", b".5", b"1.",
    b"18446744073709551615", b"18446744073709551616", b"-9223372036854775809", b"9" * 400, b"1" + b"0" * 30 + b".0",
    b"123456789012345678901234567890e-10", b"\\u0000", b"\x00", b"\\ud800", b"\\udc00", b"\\ud83d\\ude00", b"\\uD83D",
    b"\xed\xa0\x80", b"\xc0\xaf", b"\xff", b"\xef\xbb\xbf", b"\\x41", b"\\u00e", b"\\", b'"', b"'", b",", b",,", b":",
    b"::", b"[", b"]", b"{", b"}", b"[[", b"{}", b"[]", b"null", b"true", b"nul", b"//", b"/*", b" ", b"\n", b"\t",
    b"\x0b", b"\x0c", b"\xc2\xa0", b"\xe2\x80\xa8", b'"a":1', b'"a":1,"a":1', b'"\\u0061":1,"a":2', b"[" * 63,
    b"[" * 64, b"[" * 65, b"]" * 64, b'{"a":' * 66,
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A text of JSON with some of its bytes changed, or not."""
    raw = draw(st.sampled_from(WHOLE))
    for place, cut, piece in draw(st.lists(_DAMAGE, max_size=3)):
        at = place % (len(raw) + 1)
        raw = raw[:at] + piece + raw[at + cut :]
    return raw


_DAMAGE = st.tuples(st.integers(0, 200), st.integers(0, 3), st.sampled_from(PIECES) | st.binary(max_size=2))


ODD: st.SearchStrategy[Any] = (
    st.sampled_from(
        [
            None, True, False, 0, -1, 1, 1.5, 1e308, -1e308, 5e-324, 2**31, 2**63 - 1, 2**63, -(2**63), 10**25, "",
            " ", "*", "null", "\x00", "\ud800", "a" * 256, "é", "💥", "2026-01-31T12:00:00Z",
            "9999-12-31T23:59:59-23:59",
            "0001-01-01T00:00:00+23:59", "1e400", "http://[::1", "http://a:99999/", "http://１２７.0.0.1/", "hub",
            [], {}, [[]], {"": ""}, {"a": {"b": []}}, ["a"] * 101, [None], "a," * 200, "payload." + "a." * 20, "*.*",
        ]
    )
    | SMALL
)  # fmt: skip


@st.composite
def changed(draw: st.DrawFn, body: Any) -> Any:
    """A body that is right but for a few places: a value of another kind, a member too few, or one too many."""
    value = json.loads(json.dumps(body))
    for _ in range(draw(st.integers(1, 3))):
        value = draw(_changed_once(value))
    return value


@st.composite
def _changed_once(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict) and value and draw(st.integers(0, 3)):
        name = draw(st.sampled_from(sorted(value)))
        if not draw(st.integers(0, 4)):
            return {other: value[other] for other in value if other != name}
        return {**value, name: draw(_changed_once(value[name]))}
    if isinstance(value, dict):
        return {**value, draw(st.sampled_from(NAMES) | TEXTS): draw(ODD)}
    if isinstance(value, list) and value and draw(st.booleans()):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], draw(_changed_once(value[place])), *value[place + 1 :]]
    return draw(ODD)


NAMES = [
    "title", "description", "tags", "event_type", "type", "payload", "metadata", "ordering_key", "idempotency_key",
    "deliver_at", "delay_seconds", "priority", "worker_id", "limit", "lease_seconds", "fence", "execution_time_ms",
    "status_code", "error_message", "result", "reports", "events", "name", "url", "filter", "headers", "format",
    "on_dead", "retry_backoff_seconds", "retry_on", "connect_timeout_seconds", "timeout_seconds", "rate_per_second",
    "max_in_flight", "guarantee", "secret", "overlap_seconds", "subscribers", "ids", "dry_run", "scopes",
    "expires_at", "key", "reason", "since", "until", "error", "fingerprint", "queue", "subscriber", "event_id",
    "retry_after_seconds", "permanent",
]  # fmt: skip
