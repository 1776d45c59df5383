"""How long to wait before the next attempt, and when to give up."""

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.core.lifecycle import Bury, Retry
from eventhub.core.retry import RetryPolicy
from eventhub.errors import SettingsError

PLAIN = RetryPolicy(jitter=0)
POLICIES = st.builds(
    RetryPolicy,
    max_retries=st.none() | st.integers(0, 20),
    base_delay=st.floats(0, 1e6),
    max_delay=st.floats(0, 1e6),
    multiplier=st.floats(1, 1e3),
    jitter=st.floats(0, 1),
    delays=st.none() | st.lists(st.floats(0, 1e6), max_size=5).map(tuple),
)


def waits(policy: RetryPolicy, attempts: int, *, roll: float = 0.0) -> list[float]:
    return [policy.delay(n, roll=roll) for n in range(1, attempts + 1)]


def test_the_plain_numbers() -> None:
    assert waits(PLAIN, 9) == [0, 1, 2, 4, 8, 16, 30, 30, 30]


def test_another_base_multiplier_and_cap() -> None:
    policy = RetryPolicy(base_delay=0.5, multiplier=3, max_delay=10, jitter=0)
    assert waits(policy, 6) == [0, 0.5, 1.5, 4.5, 10, 10]


@pytest.mark.parametrize("attempt", [1, 0, -5])
def test_there_is_no_wait_before_the_first_attempt(attempt: int) -> None:
    assert PLAIN.delay(attempt) == 0
    assert RetryPolicy.listed([5]).delay(attempt, roll=1) == 0


def test_jitter_is_applied_after_the_cap() -> None:
    policy = RetryPolicy(jitter=0.1)
    assert policy.delay(50, roll=1) == pytest.approx(33)
    assert policy.delay(50, roll=-1) == pytest.approx(27)
    assert policy.delay(2, roll=1) == pytest.approx(1.1)
    assert policy.delay(2, roll=0.5) == pytest.approx(1.05)


@given(POLICIES, st.integers(2, 10_000), st.floats(-1, 1))
def test_a_wait_is_never_negative_never_endless_and_within_its_jitter(
    policy: RetryPolicy, attempt: int, roll: float
) -> None:
    plain = policy.delay(attempt)
    wait = policy.delay(attempt, roll=roll)
    assert 0 <= wait < math.inf
    rounding = 2 * math.ulp(plain)
    assert abs(wait - plain) <= plain * policy.jitter * (1 + 1e-9) + rounding
    if policy.delays is None:
        assert plain <= policy.max_delay


@given(POLICIES, st.integers(1, 500))
def test_waits_do_not_shrink(policy: RetryPolicy, attempt: int) -> None:
    if policy.delays is None:
        assert policy.delay(attempt) <= policy.delay(attempt + 1)


def test_a_list_of_waits_repeats_its_last() -> None:
    policy = RetryPolicy.listed([5, 30, 300], jitter=0)
    assert waits(policy, 6) == [0, 5, 30, 300, 300, 300]
    assert policy.max_attempts == 4


def test_an_empty_list_means_no_wait() -> None:
    policy = RetryPolicy.listed([], max_retries=5)
    assert waits(policy, 4, roll=1) == [0, 0, 0, 0]
    assert policy.max_attempts == 6
    assert RetryPolicy.listed([]).max_attempts == 1


def test_a_fixed_wait_is_a_list_of_one() -> None:
    assert waits(RetryPolicy.listed([300], max_retries=3, jitter=0), 4) == [0, 300, 300, 300]


@pytest.mark.parametrize("attempt", [100, 1025, 1026, 2000, 10**6])
def test_a_power_beyond_all_numbers_is_the_cap(attempt: int) -> None:
    assert PLAIN.delay(attempt) == 30
    assert RetryPolicy(multiplier=2, base_delay=1, jitter=0).delay(attempt) == 30
    assert RetryPolicy(base_delay=0, jitter=0).delay(attempt) == 0
    assert RetryPolicy(multiplier=1, base_delay=3, jitter=0).delay(attempt) == 3


def test_three_retries_are_four_attempts() -> None:
    assert PLAIN.max_attempts == 4
    outcomes = [PLAIN.after_failure(n, f"error {n}") for n in range(1, 5)]
    assert outcomes == [
        Retry("error 1", timedelta(seconds=1)),
        Retry("error 2", timedelta(seconds=2)),
        Retry("error 3", timedelta(seconds=4)),
        Bury("error 4", "retries_exhausted"),
    ]


def test_beyond_the_limit_it_stays_over() -> None:
    assert isinstance(PLAIN.after_failure(99, "x"), Bury)


def test_no_retries_is_one_attempt() -> None:
    assert RetryPolicy(max_retries=0).after_failure(1, "x") == Bury("x", "retries_exhausted")


def test_without_a_limit_it_is_never_over() -> None:
    policy = RetryPolicy(max_retries=None, jitter=0)
    assert policy.max_attempts is None
    assert policy.after_failure(10**6, "x") == Retry("x", timedelta(seconds=30))


def test_the_wait_after_a_failure_is_spread_by_the_roll() -> None:
    outcome = RetryPolicy(jitter=0.5).after_failure(1, "x", roll=1)
    assert outcome == Retry("x", timedelta(seconds=1.5))


def test_a_subscription_may_override_some() -> None:
    changed = PLAIN.override({"max_retries": 7, "base_delay": 0.1})
    assert (changed.max_retries, changed.base_delay) == (7, 0.1)
    assert (changed.max_delay, changed.multiplier, changed.jitter) == (30, 2, 0)
    assert PLAIN.override(None) is PLAIN
    assert PLAIN.override(RetryPolicy(max_retries=1)) == RetryPolicy(max_retries=1)
    assert PLAIN.override({}) == PLAIN


def test_an_unknown_override_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match=r"retry has no delay, retries; it takes max_retries, base_delay"):
        PLAIN.override({"retries": 3, "delay": 1})


@pytest.mark.parametrize(
    "bad",
    [
        {"max_retries": -1},
        {"base_delay": -0.1},
        {"base_delay": math.inf},
        {"base_delay": math.nan},
        {"max_delay": -1},
        {"max_delay": math.inf},
        {"multiplier": 0.5},
        {"multiplier": math.inf},
        {"multiplier": math.nan},
        {"jitter": -0.1},
        {"jitter": 1.5},
        {"jitter": math.nan},
        {"delays": (1, -1)},
        {"delays": (math.inf,)},
    ],
)
def test_what_cannot_work_is_refused(bad: dict[str, float]) -> None:
    (name,) = bad
    with pytest.raises(SettingsError, match=name):
        RetryPolicy(**bad)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=name):
        PLAIN.override(bad)


def test_the_most_permissive_of_several() -> None:
    merged = RetryPolicy.most_permissive(
        [
            RetryPolicy(max_retries=5, base_delay=2, max_delay=10, multiplier=2, jitter=0),
            RetryPolicy(max_retries=1, base_delay=0.5, max_delay=60, multiplier=3, jitter=0.2),
        ]
    )
    assert merged == RetryPolicy(max_retries=5, base_delay=0.5, max_delay=60, multiplier=3, jitter=0.2)


def test_one_policy_is_its_own_merge() -> None:
    policy = RetryPolicy.listed([5, 30])
    assert RetryPolicy.most_permissive([policy]) is policy


def test_unlimited_is_the_most_retries() -> None:
    merged = RetryPolicy.most_permissive([RetryPolicy(max_retries=9), RetryPolicy(max_retries=None)])
    assert merged.max_attempts is None


@given(st.lists(POLICIES, min_size=1, max_size=5))
def test_a_merge_allows_as_many_attempts_as_any_of_them(policies: list[RetryPolicy]) -> None:
    merged = RetryPolicy.most_permissive(policies)
    assert merged == RetryPolicy.most_permissive(policies)
    for policy in policies:
        assert merged.max_retries is None or (
            policy.max_retries is not None and merged.max_retries >= policy.max_retries
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_retries": 2.5},
        {"max_retries": True},
        {"max_retries": "3"},
        {"base_delay": "1"},
        {"base_delay": None},
        {"max_delay": float("nan")},
        {"multiplier": "2"},
        {"jitter": True},
        {"delays": 5},
        {"delays": "55"},
        {"delays": (1, "2")},
    ],
    ids=repr,
)
def test_what_is_no_number_is_refused_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(SettingsError, match=name):
        RetryPolicy(**wrong)
    with pytest.raises(SettingsError, match=name):
        RetryPolicy().override(wrong)


def test_an_override_is_a_policy_or_a_mapping() -> None:
    with pytest.raises(SettingsError, match="give a RetryPolicy, or a mapping"):
        RetryPolicy().override(5)  # type: ignore[arg-type]
