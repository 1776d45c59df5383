"""What follows an answer: the table of the rules, and what holds for every answer."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.core.lifecycle import Bury, Complete, Reason, Retry
from eventhub.core.subscribers import Subscriber
from eventhub.core.verdicts import Answer, judge


def subscriber(**fields: Any) -> Subscriber:
    return Subscriber(**{"name": "a", "url": "https://example.com/", **fields})


PLAIN = subscriber()


def fate(answer: Answer, who: Subscriber = PLAIN, attempts: int = 1) -> str:
    outcome = judge(answer, who, attempts=attempts).outcome
    return "delivered" if isinstance(outcome, Complete) else "retry" if isinstance(outcome, Retry) else outcome.reason


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([200, 201, 202, 204, 299], "delivered"),
        ([429, 500, 502, 503, 504, 599, "timeout", "network"], "retry"),
        ([410], Reason.GONE),
        ([101, 300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 405, 408, 409, 413, 422, 499, 999], Reason.REJECTED),
        (["blocked-destination"], Reason.BLOCKED),
        (["something else"], Reason.REJECTED),
    ],
)
def test_the_rules(answers: list[int | str], expected: str):
    for each in answers:
        answer = Answer(failure=each) if isinstance(each, str) else Answer(status=each)
        assert fate(answer) == expected, each


def test_a_failure_counts_more_than_a_status():
    assert fate(Answer(status=200, failure="timeout")) == "retry"


@pytest.mark.parametrize(
    ("retry_on", "answer", "expected"),
    [
        (["404"], 404, "retry"),
        (["404"], 500, Reason.REJECTED),
        (["404"], "timeout", Reason.REJECTED),
        (["4xx"], 404, "retry"),
        (["4xx"], 410, Reason.GONE),
        (["4xx", "410"], 410, "retry"),
        (["3xx"], 302, "retry"),
        (["timeout"], "timeout", "retry"),
        (["timeout"], "network", Reason.REJECTED),
        ([], 503, Reason.REJECTED),
        ([], 204, "delivered"),
        (["5xx", "network"], "blocked-destination", Reason.BLOCKED),
    ],
)
def test_a_subscriber_says_what_is_tried_again(retry_on: list[str], answer: int | str, expected: str):
    who = subscriber(retry_on=retry_on)
    assert fate(Answer(failure=answer) if isinstance(answer, str) else Answer(status=answer), who) == expected


def test_only_410_without_a_wish_for_it_disables():
    assert judge(Answer(status=410), PLAIN, attempts=1).disables
    assert not judge(Answer(status=410), subscriber(retry_on=["410"]), attempts=1).disables
    assert not judge(Answer(status=404), PLAIN, attempts=1).disables
    assert not judge(Answer(failure="network", status=410), PLAIN, attempts=1).disables


def test_the_waits_are_those_of_the_list_and_the_fourth_failure_is_the_last():
    outcomes = [judge(Answer(status=500), PLAIN, attempts=attempt).outcome for attempt in (1, 2, 3, 4)]
    assert [outcome.delay.total_seconds() for outcome in outcomes if isinstance(outcome, Retry)] == [5, 30, 300]
    assert isinstance(outcomes[3], Bury)
    assert outcomes[3].reason == Reason.EXHAUSTED


def test_at_most_once_is_buried_at_the_first_failure():
    outcome = judge(Answer(failure="timeout"), subscriber(guarantee="at_most_once"), attempts=1).outcome
    assert isinstance(outcome, Bury)
    assert outcome.reason == Reason.EXHAUSTED


@pytest.mark.parametrize(
    ("asked", "attempts", "wait"),
    [
        (None, 1, 5),
        (0, 1, 5),
        (2, 1, 5),
        (60, 1, 60),
        (1e12, 1, 300),
        (301, 2, 300),
        (-5, 1, 5),
        (float("inf"), 1, 300),
    ],
)
def test_retry_after_is_a_floor_and_the_longest_backoff_its_cap(asked: float | None, attempts: int, wait: float):
    outcome = judge(Answer(status=429, retry_after=asked), PLAIN, attempts=attempts).outcome
    assert isinstance(outcome, Retry)
    assert outcome.delay == timedelta(seconds=wait)


def test_the_outcome_has_what_the_log_tells():
    delivered = judge(Answer(status=204, total_ms=12.6), PLAIN, attempts=1).outcome
    assert delivered == Complete(execution_ms=13, status_code=204)
    failed = judge(Answer(status=503, total_ms=7), PLAIN, attempts=1).outcome
    assert failed == Retry("HTTP 503 Service Unavailable", timedelta(seconds=5), execution_ms=7, status_code=503)
    lost = judge(Answer(failure="network", error="refused"), PLAIN, attempts=1).outcome
    assert lost == Retry("refused", timedelta(seconds=5), execution_ms=0)
    moved = judge(Answer(status=301), PLAIN, attempts=1).outcome
    assert isinstance(moved, Bury)
    assert "redirects are not followed" in (moved.error or "")


@given(
    st.integers(0, 1000) | st.sampled_from(["timeout", "network", "blocked-destination"]),
    st.integers(1, 60),
    st.floats(-1, 1),
    st.none() | st.floats(allow_nan=False),
    st.lists(st.floats(0, 604_800), max_size=5),
)
def test_there_is_a_verdict_on_everything(
    given_answer: int | str, attempts: int, roll: float, asked: float | None, waits: list[float]
):
    kind = {"failure": given_answer} if isinstance(given_answer, str) else {"status": given_answer}
    who = subscriber(retry_backoff_seconds=waits)
    verdict = judge(Answer(**kind, retry_after=asked), who, attempts=attempts, roll=roll)
    assert verdict.delivered is (isinstance(given_answer, int) and 200 <= given_answer < 300)
    if isinstance(verdict.outcome, Retry):
        assert attempts < who.max_attempts
        assert timedelta(0) <= verdict.outcome.delay <= timedelta(seconds=max(waits) * 1.1 + 1)
