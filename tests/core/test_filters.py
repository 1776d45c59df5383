"""Filters: a table for each rule, and Hypothesis for what must hold whatever is compared."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.core.filters import Filter
from eventhub.errors import InvalidSubscriberError

PAYLOAD: dict[str, Any] = {
    "customer": {"country": "NO", "tags": ["a", "b"], "7": "seven", "vip": True, "since": "2024-05-01"},
    "total": 100,
    "share": 1.0,
    "coupon": None,
    "lines": [{"sku": "x"}, {"sku": "y"}],
    "a.b": "dotted",
}
METADATA = {"region": "eu-north", "x.y": "z"}

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=8)

ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({}, True),
        ({"payload.customer.country": "NO"}, True),
        ({"payload.customer.country": "SE"}, False),
        ({"payload.total": 100}, True),
        ({"payload.total": 100.0}, True),
        ({"payload.total": "100"}, False),
        ({"payload.share": 1}, True),
        ({"payload.share": True}, False),
        ({"payload.customer.vip": True}, True),
        ({"payload.customer.vip": 1}, False),
        ({"payload.coupon": None}, True),
        ({"payload.nothing": None}, False),
        ({"payload.lines.1.sku": "y"}, True),
        ({"payload.lines.2.sku": "y"}, False),
        ({"payload.lines.01.sku": "y"}, False),
        ({"payload.lines.-1.sku": "y"}, False),
        ({"payload.lines.sku": "y"}, False),
        ({"payload.customer.7": "seven"}, True),
        ({"payload.customer.country.x": "NO"}, False),
        ({"payload.total": {"eq": 100, "ne": 99}}, True),
        ({"payload.total": {"ne": 100}}, False),
        ({"payload.nothing": {"ne": 100}}, True),
        ({"payload.customer": {"ne": 100}}, True),
        ({"payload.customer.country": {"in": ["SE", "NO"]}}, True),
        ({"payload.customer.vip": {"in": [1]}}, False),
        ({"payload.customer.vip": {"in": [True]}}, True),
        ({"payload.share": {"in": [True]}}, False),
        ({"payload.share": {"in": [1]}}, True),
        ({"payload.coupon": {"in": [None]}}, True),
        ({"payload.nothing": {"in": [None]}}, False),
        ({"payload.lines": {"in": ["x"]}}, False),
        ({"payload.customer.country": {"prefix": "N"}}, True),
        ({"payload.customer.country": {"prefix": ""}}, True),
        ({"payload.total": {"prefix": "1"}}, False),
        ({"payload.nothing": {"prefix": ""}}, False),
        ({"payload.coupon": {"exists": True}}, True),
        ({"payload.coupon": {"exists": False}}, False),
        ({"payload.nothing": {"exists": False}}, True),
        ({"payload.nothing": {"exists": True}}, False),
        ({"payload": {"exists": True}}, True),
        ({"payload.total": {"gt": 99, "lt": 101}}, True),
        ({"payload.total": {"gte": 100, "lte": 100}}, True),
        ({"payload.total": {"gt": 100}}, False),
        ({"payload.total": {"lt": 100}}, False),
        ({"payload.total": {"gt": "1"}}, False),
        ({"payload.customer.vip": {"gte": 0}}, False),
        ({"payload.nothing": {"lt": 5}}, False),
        ({"payload.customer.since": {"gte": "2024-01-01", "lt": "2025-01-01"}}, True),
        ({"type": "order.placed"}, True),
        ({"type": {"prefix": "order."}}, True),
        ({"metadata.region": {"prefix": "eu-"}}, True),
        ({"metadata.x.y": "z"}, True),
        ({"metadata.nothing": {"exists": False}}, True),
        ({"ordering_key": "k"}, True),
        ({"payload.total": 100, "payload.customer.country": "SE"}, False),
    ],
)
def test_an_event_matches_when_all_conditions_hold(condition: dict[str, Any], *, holds: bool):
    assert Filter.parse(condition).matches("order.placed", PAYLOAD, METADATA, "k") is holds


@pytest.mark.parametrize("payload", [None, 5, "text", [], [1], True])
def test_a_payload_of_any_shape_can_be_asked(payload: object):
    asked = Filter.parse({"payload.a": {"exists": False}, "metadata.b": {"exists": False}})
    assert asked.matches("t", payload)
    assert not Filter.parse({"payload.a": 1}).matches("t", payload)


@pytest.mark.parametrize(
    "bad",
    [
        {"customer.country": "NO"},
        {"": 1},
        {"payload.": 1},
        {"payload..a": 1},
        {"metadata": 1},
        {"type.x": 1},
        {7: 1},
        {"payload.a": {}},
        {"payload.a": {"like": "x"}},
        {"payload.a": {7: "x"}},
        {"payload.a": [1, 2]},
        {"payload.a": {"eq": [1]}},
        {"payload.a": {"ne": {"b": 1}}},
        {"payload.a": {"in": "abc"}},
        {"payload.a": {"in": []}},
        {"payload.a": {"in": [[1]]}},
        {"payload.a": {"in": list(range(101))}},
        {"payload.a": {"exists": 1}},
        {"payload.a": {"prefix": 1}},
        {"payload.a": {"gt": True}},
        {"payload.a": {"gt": None}},
        {"payload.a": {"lt": [1]}},
        {"payload." + "a" * 249: 1},
        {"payload" + ".a" * 17: 1},
        {f"payload.a{number}": 1 for number in range(33)},
        {"payload.a": {"gt": 1, "lt": 2}, **{f"payload.b{number}": 1 for number in range(31)}},
        [],
        None,
    ],
)
def test_a_filter_that_means_nothing_is_refused(bad: object):
    with pytest.raises(InvalidSubscriberError) as caught:
        Filter.parse(bad)
    assert caught.value.field.startswith("filter")


def test_the_largest_filter_is_taken():
    Filter.parse({f"payload.a{number}": 1 for number in range(32)})
    Filter.parse({"payload" + ".a" * 16: {"in": list(range(100))}})
    Filter.parse({"payload." + "a" * 248: 1})


def test_it_is_known_what_a_filter_looks_at():
    assert Filter.parse({"payload.a": 1}).needs_payload
    assert not Filter.parse({"payload.a": 1}).needs_metadata
    plain = Filter.parse({"type": "x", "metadata.a": "b", "ordering_key": "c"})
    assert plain.needs_metadata
    assert not plain.needs_payload


@given(SCALARS, SCALARS)
def test_equal_means_equal_as_json(wanted: Any, found: Any):
    same = isinstance(wanted, bool) is isinstance(found, bool) and wanted == found
    event = {"a": found}
    assert Filter.parse({"payload.a": wanted}).matches("t", event) is same
    assert Filter.parse({"payload.a": {"ne": wanted}}).matches("t", event) is not same
    assert Filter.parse({"payload.a": {"in": [wanted, "other than any"]}}).matches("t", event) is same


@given(st.integers() | st.floats(allow_nan=False) | st.text(max_size=4), SCALARS)
def test_the_four_comparisons_agree(wanted: Any, found: Any):
    def holds(name: str) -> bool:
        return Filter.parse({"payload.a": {name: wanted}}).matches("t", {"a": found})

    number = isinstance(found, int | float) and not isinstance(found, bool)
    comparable = isinstance(found, str) if isinstance(wanted, str) else number
    assert (holds("gt") or holds("lte")) is comparable
    assert (holds("lt") or holds("gte")) is comparable
    assert not (holds("gt") and holds("lt"))


@given(st.dictionaries(st.text(max_size=12) | st.just("payload.a"), ANYTHING, max_size=4))
def test_whatever_is_given_it_is_a_filter_or_refused(mapping: dict[str, Any]):
    with contextlib.suppress(InvalidSubscriberError):
        Filter.parse(mapping).matches("t", mapping)
