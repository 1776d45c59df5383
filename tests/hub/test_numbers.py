"""The hub's own counters."""

import pytest

from eventhub.core.lifecycle import Reason
from eventhub.hub.numbers import LATENCY, Distribution, Numbers


def test_a_value_on_a_bound_is_counted_below_it_and_one_beyond_all_in_the_last_place() -> None:
    found = Distribution((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        found.add(value)
    assert found.counts == [2, 2, 1]
    assert found.sum == 7.5


@pytest.mark.parametrize(
    ("status", "failure", "result"),
    [
        (200, None, "2xx"),
        (204, None, "2xx"),
        (301, None, "3xx"),
        (404, None, "4xx"),
        (429, None, "429"),
        (599, None, "5xx"),
        (None, "timeout", "timeout"),
        (None, None, "unknown"),
    ],
)
def test_a_request_ends_in_one_of_a_few_words(status: int | None, failure: str | None, result: str) -> None:
    numbers = Numbers()
    numbers.attempted(status, failure, 0.02)
    assert numbers.attempts == {result: 1}
    assert numbers.latency.counts[LATENCY.index(0.025)] == 1


def test_what_became_of_messages_is_counted() -> None:
    numbers = Numbers()
    numbers.fanned_out(2, 5)
    numbers.fanned_out(1, 0)
    numbers.arrived(0.2)
    numbers.died(Reason.GONE)
    numbers.died("gone")
    assert (numbers.fanned_out_events, numbers.fanned_out_messages) == (3, 5)
    assert numbers.delivered == sum(numbers.waited.counts) == 1
    assert numbers.dead == {"gone": 2}
    assert {type(reason) for reason in numbers.dead} == {str}
