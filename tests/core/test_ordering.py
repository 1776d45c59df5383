"""Ordering keys: read from the event by the subscriber's path."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.core.ordering import LONGEST_KEY, key_path, ordering_key_of

PAYLOAD = {"customer": {"id": 17, "name": "Ada", "vip": True, "share": 1.5, "none": None, "list": [4], "text": ""}}


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (None, None),
        ("ordering_key", "own"),
        ("payload.customer.id", "17"),
        ("payload.customer.name", "Ada"),
        ("payload.customer.vip", "true"),
        ("payload.customer.share", "1.5"),
        ("payload.customer.none", None),
        ("payload.customer.text", None),
        ("payload.customer.list", None),
        ("payload.customer.list.0", "4"),
        ("payload.customer", None),
        ("payload.nobody", None),
        ("metadata.tenant", "t1"),
        ("metadata.nobody", None),
        ("type", "order.placed"),
    ],
)
def test_a_scalar_is_a_key_and_all_else_is_none(path: str | None, key: str | None):
    assert ordering_key_of(path, "own", PAYLOAD, {"tenant": "t1"}, "order.placed") == key


def test_without_a_key_of_its_own_an_event_is_not_ordered():
    assert ordering_key_of("ordering_key", None, PAYLOAD, None) is None
    assert ordering_key_of("metadata.tenant", None, PAYLOAD, None) is None


@pytest.mark.parametrize("path", ["payload", "customer.id", "", "payload..x"])
def test_a_path_that_cannot_be_a_keys_is_refused(path: str):
    with pytest.raises(ValueError, match=r"payload|segment"):
        key_path(path)


@given(st.text(max_size=600))
def test_a_key_is_never_too_long_and_different_texts_stay_different(text: str):
    key = ordering_key_of("payload.k", None, {"k": text}, None)
    assert key is None if not text else key is not None and len(key) <= LONGEST_KEY
    other = ordering_key_of("payload.k", None, {"k": text + "x"}, None)
    assert key != other


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(), st.lists
    )
)
def test_any_payload_can_be_asked_for_a_key(value: Any):
    assert isinstance(ordering_key_of("payload.0", None, value, None), str | None)
