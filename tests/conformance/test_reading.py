"""Reading: one event, lists of them, the log, and the numbers of a queue."""

from typing import Any

import pytest

from eventhub.core.events import Status
from eventhub.core.lifecycle import Bury, Complete, Reason, Retry, State
from eventhub.store import Store
from eventhub.store.values import EventFilter, Report
from tests.conformance.hub_support import broadcast, plan
from tests.conformance.support import (
    MINUTE,
    START,
    at,
    bury,
    complete,
    fail,
    new,
    publish,
    publish_one,
    report,
    take,
    take_one,
)


async def one_of_each(store: Store) -> dict[str, int]:
    """An event in every state an event can be in."""
    names = ["completed", "dead", "with_errors", "retrying", "leased", "parked", "behind", "later", "ready"]
    details: dict[str, dict[str, Any]] = {
        "parked": {"key": "k", "park_when_dead": True},
        "behind": {"key": "k", "park_when_dead": True},
        "later": {"delay": MINUTE},
    }
    numbers = await publish(store, *(new(payload=name, **details.get(name, {})) for name in names))
    claims = {claim.event.payload: claim for claim in await take(store, 6)}
    await store.settle(
        [
            Report(claims["completed"].held, Complete()),
            Report(claims["dead"].held, Bury("bad")),
            Report(claims["with_errors"].held, Bury("partly", Reason.FINALIZED, Status.COMPLETED_WITH_ERRORS)),
            Report(claims["retrying"].held, Retry("later", MINUTE)),
            Report(claims["parked"].held, Bury("bad")),
        ],
        now=at(1),
    )
    return dict(zip(names, numbers, strict=True))


async def test_every_state_has_its_public_status(store: Store) -> None:
    numbers = await one_of_each(store)
    expected = {
        "completed": Status.COMPLETED,
        "dead": Status.FAILED,
        "with_errors": Status.COMPLETED_WITH_ERRORS,
        "retrying": Status.PENDING,
        "leased": Status.PROCESSING,
        "parked": Status.FAILED,
        "behind": Status.PENDING,
        "later": Status.PENDING,
        "ready": Status.PENDING,
    }
    events = {name: await store.event(number) for name, number in numbers.items()}
    assert {name: event and event.status for name, event in events.items()} == expected


async def test_the_states_inside_tell_more(store: Store) -> None:
    numbers = await one_of_each(store)
    current = await store.current(list(numbers.values()))
    states = {name: current[number].state for name, number in numbers.items() if number in current}
    assert states == {
        "retrying": State.WAITING,
        "leased": State.LEASED,
        "parked": State.PARKED,
        "behind": State.BEHIND,
        "later": State.WAITING,
        "ready": State.READY,
    }


async def test_an_unknown_event_is_none(store: Store) -> None:
    assert await store.event(999_999) is None
    assert await store.log(999_999) == []
    assert await store.current([999_999]) == {}
    assert await store.current([]) == {}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, ["ready", "later", "behind", "parked", "leased", "retrying", "with_errors", "dead", "completed"]),
        (Status.PENDING, ["ready", "later", "behind", "retrying"]),
        (Status.PROCESSING, ["leased"]),
        (Status.COMPLETED, ["completed"]),
        (Status.COMPLETED_WITH_ERRORS, ["with_errors"]),
        (Status.FAILED, ["parked", "dead"]),
    ],
)
async def test_events_are_listed_by_status_newest_first(
    store: Store, status: Status | None, expected: list[str]
) -> None:
    await one_of_each(store)
    events = await store.events(EventFilter(status=status))
    assert [event.payload for event in events] == expected
    for event in events:
        assert event == await store.event(event.id)


async def test_filters_are_strict_and(store: Store) -> None:
    await publish(store, new("a"), new("b"), new("a", queue="other"), new("a", completed=True))
    found = await store.events(EventFilter(type="a", queue="work", status=Status.PENDING))
    assert [(event.type, event.queue, event.status) for event in found] == [("a", "work", Status.PENDING)]
    assert await store.events(EventFilter(type="c")) == []
    assert await store.events(EventFilter(queue="none")) == []


async def test_lists_go_on_below_an_id_and_end_at_the_limit(store: Store) -> None:
    numbers = await publish(store, *(new(payload=n) for n in range(10)))
    first = await store.events(EventFilter(limit=4))
    assert [event.id for event in first] == numbers[:5:-1]
    rest = await store.events(EventFilter(limit=100, before_id=first[-1].id))
    assert [event.id for event in rest] == numbers[5::-1]


@pytest.mark.parametrize("metadata", ['{"k":"v"}', None], ids=["given", "none"])
async def test_the_metadata_of_an_event_is_its_own(store: Store, metadata: str | None) -> None:
    expected = {"k": "v"} if metadata else {}
    numbers = await publish(store, new(metadata=metadata), new(metadata=metadata))
    one, two = await take(store, 2)
    one.event.metadata["scribbled"] = "on"
    assert two.event.metadata == expected
    for number in numbers:
        read = await store.event(number)
        assert read is not None
        assert read.metadata == expected
        read.metadata["scribbled"] = "on"
    assert [event.metadata for event in await store.events(EventFilter())] == [expected, expected]
    await bury(store, one)
    await bury(store, two)
    (first, second) = (await store.dead()).events
    first.metadata["scribbled"] = "on"
    assert second.metadata == expected
    await store.retry_dead(numbers, by="anna", now=at(1))
    assert [claim.event.metadata for claim in await take(store, 2, now=at(1))] == [expected, expected]


async def test_the_log_tells_a_life_in_order(store: Store) -> None:
    number = await publish_one(store, max_attempts=3)
    await fail(store, await take_one(store, at(1)), "one", now=at(2))
    await take_one(store, at(3), worker="worker-b")
    claim = await take_one(store, at(100), worker="worker-c")
    await bury(store, claim, "three", now=at(101))
    await store.retry_dead([number], by="anna", now=at(102))
    claim = await take_one(store, at(103))
    await report(store, claim, Complete(7, 200), now=at(104))
    told = [(e.action, e.worker, e.attempt, e.fence, e.error, e.created_at) for e in await store.log(number)]
    lost = "Abandoned: worker-b did not report before its lease ended."
    assert told == [
        ("PUBLISHED", None, None, None, None, START),
        ("PICKED", "worker-a", 1, 1, None, at(1)),
        ("FAILED", "worker-a", 1, 1, "one", at(2)),
        ("PICKED", "worker-b", 2, 2, None, at(3)),
        ("ABANDONED", "worker-b", 2, 2, lost, at(100)),
        ("PICKED", "worker-c", 3, 3, None, at(100)),
        ("FAILED", "worker-c", 3, 3, "three", at(101)),
        ("DEAD", "worker-c", 3, 3, "retries_exhausted", at(101)),
        ("RETRIED", "anna", 0, 3, None, at(102)),
        ("PICKED", "worker-a", 1, 4, None, at(103)),
        ("COMPLETED", "worker-a", 1, 4, None, at(104)),
    ]
    assert len({entry.id for entry in await store.log(number)}) == 11


async def test_numbers_tell_the_depth_by_status(store: Store) -> None:
    await one_of_each(store)
    (stats,) = await store.stats()
    assert stats.queue == "work"
    assert stats.depth == {
        Status.PENDING: 4,
        Status.PROCESSING: 1,
        Status.COMPLETED: 1,
        Status.COMPLETED_WITH_ERRORS: 1,
        Status.FAILED: 2,
    }
    assert stats.waiting_for_retry == 2
    assert sum(stats.ages.values()) == sum(stats.attempts.values()) == 5


async def test_numbers_are_told_by_queue(store: Store) -> None:
    await publish(store, new(), new(queue="other"), new(queue="other"))
    found = {stats.queue: stats.depth[Status.PENDING] for stats in await store.stats()}
    assert found == {"work": 1, "other": 2}
    (stats,) = await store.stats("other")
    assert (stats.queue, stats.depth[Status.PENDING]) == ("other", 2)
    (stats,) = await store.stats("nobody")
    assert sum(stats.depth.values()) == 0


async def test_numbers_tell_attempts_ages_latency_and_failure_rate(store: Store) -> None:
    await publish(store, *(new() for _ in range(4)), now=None)
    claims = await take(store, 4, now=None)
    await complete(store, claims[0], None)
    await complete(store, claims[1], None)
    await fail(store, claims[2], now=None)
    await store.record_results(claims[3].held, [("h", "success", None), ("g", "transient", "x")])
    (stats,) = await store.stats("work")
    assert stats.attempts == {1: 2}
    assert sum(stats.ages.values()) == 2
    assert stats.oldest_pending_seconds is not None
    assert 0 <= stats.oldest_pending_seconds < 100
    assert stats.failure_rate == pytest.approx(1 / 3)
    assert stats.latency_p50_seconds is not None
    assert stats.latency_p99_seconds is not None
    assert 0 <= stats.latency_p50_seconds <= stats.latency_p99_seconds < 100
    assert stats.handler_results == {"success": 1, "transient": 1}


async def test_an_empty_store_has_no_numbers(store: Store) -> None:
    assert await store.stats() == []


async def test_a_store_describes_itself(store: Store) -> None:
    facts = await store.describe()
    assert facts["engine"] == {"sqlite": "SQLite", "postgres": "PostgreSQL"}[store.engine]
    assert facts["schema"] == await store.schema_version() >= 1
    assert {"version", "driver", "location", "size_bytes"} <= set(facts)
    assert facts["size_bytes"] > 0


async def test_the_tags_of_many_events_are_one_question(store: Store) -> None:
    first, second, third = await publish(store, new(tags=("a", "b")), new(), new(tags=("c",)))
    await complete(store, await take_one(store))
    assert await store.event_tags([third, first, second, 10**12]) == {first: ("a", "b"), second: (), third: ("c",)}
    assert await store.event_tags([]) == {}


async def test_what_nobody_attempted_is_no_success_in_the_failure_rate(store: Store) -> None:
    """A broadcast without a subscriber is complete at once, and says nothing about how work goes."""
    await publish(store, new(), now=None)
    (claim,) = await take(store, 1, now=None)
    await fail(store, claim, now=None)
    await broadcast(store, *["{}"] * 9)
    assert (await store.fan_out(await plan(store))).events == 9
    (stats,) = await store.stats("work")
    assert stats.depth[Status.COMPLETED] == 9
    assert (stats.failure_rate, stats.latency_p50_seconds) == (1.0, None)
