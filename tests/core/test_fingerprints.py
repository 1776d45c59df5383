"""Errors that differ in details have one fingerprint, others have not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.core.fingerprints import LONGEST, fingerprint

SAME = [
    ("timeout after 30 s", "timeout after 5 s"),
    ("no user 'anna'", "no user ''"),
    ('key "a" is missing', 'key "b c" is missing'),
    ("at 0xdeadBEEF", "at 0x1"),
    ("order 123e4567-e89b-12d3-a456-426614174000 failed", "order 00000000-0000-0000-0000-000000000000 failed"),
    ("digest 0123456789abcdef", "digest fedcba987654"),
    ("Abandoned: host-1:23 did not report", "Abandoned: another did not report"),
]
OTHER = [("timeout", "refused"), ("a 1", "b 1"), ("abc", "ABC"), ("", "x"), ("Abandoned: a did", "Abandoned: b did")]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_details_do_not_count(one: str, other: str) -> None:
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_everything_else_does(one: str, other: str) -> None:
    assert fingerprint(one) != fingerprint(other)


@given(st.text())
def test_every_text_has_sixteen_digits(error: str) -> None:
    made = fingerprint(error.encode("utf-8", "replace").decode())
    assert len(made) == 16
    assert set(made) <= set("0123456789abcdef")


def test_what_stands_far_behind_does_not_count() -> None:
    start = "x" * LONGEST
    assert fingerprint(start + "a") == fingerprint(start + "b")
    assert fingerprint(start[1:] + "a") != fingerprint(start[1:] + "b")
