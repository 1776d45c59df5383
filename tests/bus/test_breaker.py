"""The circuit breaker as a machine: tables of what happens, with time as an argument."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.bus.breaker import Breaker, BreakerSettings, BreakerState
from eventhub.errors import SettingsError

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN


def fed(results: str, *, start: int = 1) -> Breaker:
    """A breaker after events that failed (x) or succeeded (.), one a second."""
    breaker = Breaker(BreakerSettings())
    for number, result in enumerate(results, start):
        breaker.record(number, failed=result == "x", now=float(number))
    return breaker


@pytest.mark.parametrize(
    ("results", "state"),
    [
        ("", CLOSED),
        ("xxx", CLOSED),  # fewer than four events say nothing
        ("xxxx", OPEN),
        ("..xx", CLOSED),  # exactly half is not more than half
        (".xxx", OPEN),
        ("xxx.", OPEN),
        ("..xxx", OPEN),
        ("...xxx", CLOSED),
        ("...xxxx", OPEN),
        ("....", CLOSED),
    ],
)
def test_it_opens_when_more_than_half_of_at_least_four_events_failed(results: str, state: BreakerState) -> None:
    assert fed(results).state is state


def test_an_event_counts_once_however_often_it_is_tried() -> None:
    breaker = Breaker(BreakerSettings())
    for attempt in range(50):
        breaker.record(7, failed=True, now=float(attempt))
    assert breaker.state is CLOSED


def test_an_event_counts_by_its_latest_attempt() -> None:
    breaker = fed("xxx")
    for number in (1, 2, 3):
        breaker.record(number, failed=False, now=5.0)
    breaker.record(4, failed=True, now=6.0)
    assert breaker.state is CLOSED


def test_results_older_than_the_window_no_longer_count() -> None:
    breaker = Breaker(BreakerSettings())
    for number in (1, 2, 3):
        breaker.record(number, failed=True, now=0.0)
    breaker.record(4, failed=True, now=60.0)  # exactly 60 s later the first three are out
    assert breaker.state is CLOSED


def test_results_within_the_window_count() -> None:
    breaker = Breaker(BreakerSettings())
    for number in (1, 2, 3):
        breaker.record(number, failed=True, now=0.0)
    breaker.record(4, failed=True, now=59.999)
    assert breaker.state is OPEN


def test_it_stays_open_for_thirty_seconds_and_then_admits_one_probe() -> None:
    breaker = fed("xxxx")  # opened at 4
    assert breaker.wait(4.0) == 30.0
    assert breaker.wait(33.0) == pytest.approx(1.0)
    assert breaker.wait(34.0) == 0.0
    breaker.admit(9)
    assert breaker.state is HALF_OPEN
    assert breaker.wait(34.0) > 0, "a second event waits for the probe's result"


def test_a_good_probe_closes_it_with_a_clean_slate() -> None:
    breaker = fed("xxxx")
    breaker.admit(9)
    breaker.record(9, failed=False, now=35.0)
    assert breaker.state is CLOSED
    for number in (10, 11, 12):
        breaker.record(number, failed=True, now=36.0)
    assert breaker.state is CLOSED, "what failed before it opened is forgotten"


def test_a_bad_probe_opens_it_for_another_thirty_seconds() -> None:
    breaker = fed("xxxx")
    breaker.admit(9)
    breaker.record(9, failed=True, now=40.0)
    assert breaker.state is OPEN
    assert breaker.wait(40.0) == 30.0


def test_a_probe_without_a_result_makes_room_for_another() -> None:
    breaker = fed("xxxx")
    breaker.admit(9)
    breaker.withdraw(8)
    assert breaker.state is HALF_OPEN, "only the probe itself can withdraw"
    breaker.withdraw(9)
    assert breaker.wait(34.0) == 0.0


def test_late_results_from_before_it_opened_change_nothing() -> None:
    breaker = fed("xxxx")
    breaker.record(99, failed=False, now=10.0)
    assert breaker.state is OPEN
    breaker.admit(9)
    breaker.record(98, failed=False, now=35.0)
    assert breaker.state is HALF_OPEN


def test_admitting_while_closed_makes_no_probe() -> None:
    breaker = fed("...")
    breaker.admit(9)
    assert breaker.state is CLOSED


@pytest.mark.parametrize(
    "wrong",
    [{"failure_share": 1.0}, {"failure_share": -0.1}, {"min_events": 0}, {"window": 0}, {"open_for": -1}],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        BreakerSettings(**wrong)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(1, 8), st.booleans(), st.floats(0, 30)), max_size=60))
def test_it_agrees_with_counting_by_hand(steps: list[tuple[int, bool, float]]) -> None:
    breaker, seen, now = Breaker(BreakerSettings()), dict[int, tuple[float, bool]](), 0.0
    for event_id, failed, passed in steps:
        now += passed
        breaker.record(event_id, failed=failed, now=now)
        seen[event_id] = (now, failed)
        recent = [bad for when, bad in seen.values() if now - when < 60.0]
        opened = len(recent) >= 4 and sum(recent) > len(recent) / 2
        assert (breaker.state is OPEN) == opened
        if opened:
            break
