"""Patterns, tags, filters and subscribers: as slow oracles say, in linear time, and never an accident."""

import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eventhub.core.filters import Filter
from eventhub.core.matching import Pattern, check_name, parse_tags
from eventhub.core.paths import Path
from eventhub.core.subscribers import Subscriber
from eventhub.errors import InvalidEventError, InvalidPatternError, InvalidSubscriberError
from tests.fuzz.effort import effort
from tests.fuzz.mangling import ODD, VALUES, changed

SEGMENTS = st.sampled_from(["*", "", "a", "b", "ab", "a*", "**", "?", "[a]", "a+", "é"])
DOTTED = st.lists(SEGMENTS, min_size=1, max_size=6).map(".".join)
LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-")


def wants(pattern: list[str], segments: list[str]) -> bool:
    """One segment after the other, by recursion: a star is exactly one that is not empty."""
    if not pattern or not segments:
        return not pattern and not segments
    fits = bool(segments[0]) if pattern[0] == "*" else pattern[0] == segments[0]
    return fits and wants(pattern[1:], segments[1:])


@given(DOTTED, DOTTED)
@example("*", "a.b.c")
@example("*", "")
@example("a.*", "a.")
@example("a.*", "a.*")
@example("*.*", "*.")
@example("cre*", "created")
@effort(100)
def test_a_pattern_matches_what_the_oracle_says(pattern: str, event_type: str) -> None:
    try:
        compiled = Pattern(pattern)
    except InvalidPatternError:
        assert pattern == "" or pattern.split(".").count("*") > 8
        return
    literally = pattern == event_type
    assert compiled.matches(event_type) == (
        pattern == "*" or literally or wants(pattern.split("."), event_type.split("."))
    )


def steps_of(pattern: Pattern, event_type: str) -> int:
    """Lines of Python that run, those of its own generators included."""
    count = 0

    def traced(_: FrameType, event: str, __: Any) -> Any:
        nonlocal count
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        pattern.matches(event_type)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("text", ["*.*.*.*.*.*.*.*", "a.*.a.*.a.*.a.*", "*.a.a.a.a.a.a.b", "aaaa.*"])
def test_the_work_of_matching_grows_with_the_text_and_no_faster(text: str) -> None:
    pattern = Pattern(text)
    for piece in ("a.", "a", ".", "*."):
        small, large = steps_of(pattern, piece * 50), steps_of(pattern, piece * 800)
        assert large <= 16 * small + 20


@given(
    st.text(st.sampled_from([*"ab,.:-_ \t\n*é\x00\u2003"]), max_size=20)
    | st.lists(st.text(st.sampled_from([*"ab, é"]), max_size=5) | ODD, max_size=4)
)
@example(", ,")
@example(["a", " a "])
@example("a" * 129)
@effort(100)
def test_tags_are_read_as_the_oracle_reads_them(tags: Any) -> None:
    parts = tags.split(",") if isinstance(tags, str) else tags
    stripped = [part.strip() if isinstance(part, str) else part for part in parts]
    wanted = [part for part in stripped if part != ""]
    good = all(isinstance(part, str) and len(part) <= 128 and set(part) <= LETTERS for part in wanted)
    try:
        found = parse_tags(tags)
    except InvalidEventError:
        assert not good, tags
        return
    assert good, tags
    assert found == tuple(sorted(set(wanted)))
    assert parse_tags(",".join(found)) == found
    assert all(check_name("The tag", tag) == tag for tag in found)


PATHS = (
    "payload payload.a payload.a.0 payload.a.b payload.00 metadata.a metadata.a.b type ordering_key type.a metadata x"
)
TESTS = "eq ne in prefix exists gt gte lt lte x"
CONDITIONS = st.dictionaries(
    st.sampled_from(PATHS.split(" ")) | st.text(max_size=6),
    ODD | st.dictionaries(st.sampled_from(TESTS.split(" ")), ODD | st.lists(ODD, max_size=3), max_size=2),
    max_size=3,
)


@given(CONDITIONS, VALUES, st.none() | st.dictionaries(st.sampled_from(["a", "a.b"]), st.text(max_size=3)))
@effort(100)
def test_a_filter_is_refused_with_its_words_or_answers_for_every_event(
    conditions: Any, payload: Any, metadata: dict[str, str] | None
) -> None:
    try:
        found = Filter.parse(conditions)
    except InvalidSubscriberError:
        return
    for given_payload in (payload, {"a": payload}, {"a": [payload]}, {"a": {"b": payload}}, [payload], None):
        assert found.matches("a.b", given_payload, metadata, "k") in (True, False)


@given(st.text(st.sampled_from([*"payloadmetadatatypeordering_key.0123 é\x00"]), max_size=20) | ODD, VALUES)
@effort(150)
def test_a_path_is_refused_or_leads_somewhere_or_nowhere(text: Any, payload: Any) -> None:
    try:
        path = Path.parse(text)
    except ValueError:
        return
    path.read("a.b", payload, {"a": "b"}, "key")
    path.read("a.b", payload, None, None)


WHOLE = {
    "name": "shipping", "url": "https://example.com/hooks", "event_type": "order.*",
    "filter": {"payload.a": {"in": [1]}}, "headers": {"X-Shop": "1"}, "format": "raw", "ordering_key": "payload.a",
    "on_dead": "park", "retry_backoff_seconds": [1, 2.5], "retry_on": ["5xx", "timeout"],
    "connect_timeout_seconds": 1.0, "timeout_seconds": 5, "rate_per_second": 10, "max_in_flight": 3,
    "guarantee": "at_least_once", "description": "d",
}  # fmt: skip


@given(changed(WHOLE))
@example({**WHOLE, "format": "\ud800"})
@example({**WHOLE, "\ud800": 1})
@effort(100)
def test_a_subscriber_is_refused_with_its_field_or_can_be_used(document: Any) -> None:
    try:
        found = Subscriber.parse(document)
    except InvalidSubscriberError:
        return
    assert found.max_attempts >= 1
    assert found.policy.max_attempts == found.max_attempts
    assert found.lease.total_seconds() > found.timeout_seconds
    found.pattern.matches("order.placed")
