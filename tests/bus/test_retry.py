"""Retries: when, how often, what is kept of each failure, and what others are told."""

import asyncio
import io
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from eventhub.bus import BreakerSettings, EventBus
from eventhub.bus.counters import OTHER, TypeCounters
from eventhub.clock import ManualClock
from eventhub.core.retry import RetryPolicy
from eventhub.store import open_store
from tests.bus.support import LIVELY, NEVER_AGAIN, QUICK, Recorder, until


async def test_after_max_retries_the_event_is_dead_with_one_error_per_attempt_in_order(bus, dlq) -> None:
    attempts = 0

    async def failing(event: Any) -> None:
        nonlocal attempts
        attempts += 1
        raise ValueError(f"boom {attempts}")

    bus.subscribe("*", failing)
    event_id = await bus.publish("a", {"x": 1}, metadata={"m": "n"})
    assert attempts == 4
    dead = await dlq.get(event_id)
    assert dead.errors == [f"ValueError: boom {number}" for number in (1, 2, 3, 4)]
    assert (dead.type, dead.payload, dead.metadata) == ("a", {"x": 1}, {"m": "n"})
    assert (dead.status, dead.reason, dead.retry_count, dead.attempts) == (
        "FAILED",
        "retries_exhausted",
        4,
        4,
    )
    assert dead.dead_at >= dead.created_at


async def test_no_retries_means_one_attempt(make_bus, dlq) -> None:
    bus = await make_bus(retry=NEVER_AGAIN).start()
    handler = Recorder(failures=9)
    bus.subscribe("*", handler)
    event_id = await bus.publish("a", 1)
    assert len(handler.events) == 1
    assert (await dlq.get(event_id)).errors == ["RuntimeError: boom"]


async def test_a_subscription_has_its_own_number_of_retries(bus) -> None:
    handler = Recorder(failures=99)
    bus.subscribe("*", handler, retry={"max_retries": 5, "base_delay": 0.001})
    await bus.publish("a", 1)
    assert len(handler.events) == 6


async def test_each_retry_comes_exactly_when_it_is_due(make_bus, store) -> None:
    clock = ManualClock()
    policy = RetryPolicy(max_retries=3, base_delay=1.0, max_delay=3.0, multiplier=2.0, jitter=0)
    bus = await make_bus(clock=clock, retry=policy).start()
    handler = Recorder(failures=99)
    bus.subscribe("*", handler)
    publisher = asyncio.create_task(bus.publish("a", 1))
    for number, wait in enumerate([1.0, 2.0, 3.0], start=1):  # 1, 2, then 4 capped to 3
        await until(lambda: bus.counters["a"].retries == number)  # noqa: B023
        event = await store.event(handler.events[0].id)
        assert event.status == "PENDING", "waiting for a retry is never shown as failed"
        assert event.next_retry_at == clock.now() + timedelta(seconds=wait)
        assert event.retry_count == number
        clock.advance(timedelta(seconds=wait) - timedelta(microseconds=1))
        await _rounds(bus)
        assert len(handler.events) == number, "not due yet"
        clock.advance(timedelta(microseconds=1))
        await until(lambda: len(handler.events) == number + 1)  # noqa: B023
    await publisher


async def _rounds(bus: Any) -> None:
    """Let the dispatcher look twice."""
    for _ in range(2):
        bus._dispatcher.wake()
        await until(lambda: bus.store.wakeups.waiting)


async def test_all_handlers_run_in_every_attempt_even_when_an_earlier_one_failed(bus, dlq) -> None:
    calls: list[str] = []
    bus.subscribe("*", Recorder(failures=99, error="one", name="bad", into=calls))
    bus.subscribe("*", Recorder(name="good", into=calls))
    bus.subscribe("*", Recorder(failures=99, error="two", name="worse", into=calls))
    event_id = await bus.publish("a", 1)
    assert calls == ["bad", "good", "worse"] * 4
    errors = (await dlq.get(event_id)).errors
    assert errors == ["RuntimeError: one; RuntimeError: two"] * 4, "one entry per failed attempt"


async def test_stop_on_first_failure_skips_the_later_handlers(make_bus) -> None:
    bus = await make_bus(stop_on_first_failure=True).start()
    calls: list[str] = []
    bus.subscribe("*", Recorder(name="good", into=calls))
    bus.subscribe("*", Recorder(failures=1, name="bad", into=calls))
    bus.subscribe("*", Recorder(name="last", into=calls))
    await bus.publish("a", 1)
    assert calls == ["good", "bad", "good", "bad", "last"]


async def test_retry_scope_handler_runs_only_those_again_that_failed(make_bus, status) -> None:
    bus = await make_bus(retry_scope="handler").start()
    calls: list[str] = []
    for failures, name in [(0, "good"), (2, "bad"), (1, "mixed")]:
        bus.subscribe("*", Recorder(failures=failures, name=name, into=calls))
    event_id = await bus.publish("a", 1)
    assert calls == ["good", "bad", "mixed", "bad", "mixed", "bad"]
    assert await status(event_id) == "COMPLETED"


async def test_what_a_handler_has_done_is_remembered_by_the_next_process_too(make_bus) -> None:
    calls: list[str] = []
    first = await make_bus(retry_scope="handler", retry=RetryPolicy(base_delay=0.2, jitter=0)).start()
    first.subscribe("*", Recorder(name="good", into=calls), name="good")
    first.subscribe("*", Recorder(failures=1, name="bad", into=calls), name="bad")
    await first.publish("a", 1, wait=False)
    await until(lambda: first.counters["a"].retries)
    await first.shutdown()
    second = make_bus(retry_scope="handler")
    second.subscribe("*", Recorder(name="good", into=calls), name="good")
    second.subscribe("*", Recorder(name="bad", into=calls), name="bad")
    await second.start()
    await until(lambda: len(calls) == 3)
    assert calls == ["good", "bad", "bad"]


async def test_a_first_claim_asks_for_no_results_in_any_incarnation(store_url, monkeypatch) -> None:
    async with open_store(store_url):
        pass
    closed = open_store(store_url)
    await closed.begin_incarnation()
    await closed.close()
    asked: list[int] = []
    async with open_store(store_url) as store:
        handler_results = store.handler_results

        async def ask(ids: Sequence[int]) -> Any:
            asked.extend(ids)
            return await handler_results(ids)

        monkeypatch.setattr(store, "handler_results", ask)
        calls: list[str] = []
        bus = await EventBus(store, retry=QUICK, tuning=LIVELY, retry_scope="handler").start()
        bus.subscribe("*", Recorder(name="good", into=calls))
        bus.subscribe("*", Recorder(failures=1, name="bad", into=calls))
        later = await bus.publish("a", 1, delay=0.001, wait=False)
        await until(lambda: len(calls) == 3)
        assert calls == ["good", "bad", "bad"]
        assert asked == [later], "for the second claim, not for the first"
        await bus.destroy()


async def test_which_closure_of_a_function_succeeded_is_known_to_its_own_process_only(make_bus) -> None:
    calls: list[str] = []
    first = await make_bus(retry_scope="handler", retry=RetryPolicy(base_delay=0.2, jitter=0)).start()
    first.subscribe("*", Recorder(name="good", into=calls))
    first.subscribe("*", Recorder(failures=1, name="bad", into=calls))
    await first.publish("a", 1, wait=False)
    await until(lambda: first.counters["a"].retries)
    await first.shutdown()
    second = make_bus(retry_scope="handler")
    second.subscribe("*", Recorder(name="bad", into=calls))
    second.subscribe("*", Recorder(name="good", into=calls))
    await second.start()
    await until(lambda: len(calls) == 4)
    assert calls == ["good", "bad", "bad", "good"], "in the other order, neither is skipped for the other"


async def test_a_retry_from_the_dead_letters_is_a_full_reset(bus, dlq, store, status) -> None:
    handler = Recorder(failures=4)
    bus.subscribe("*", handler)
    event_id = await bus.publish("a", 1)
    assert await status(event_id) == "FAILED"
    await dlq.retry(event_id)
    await until(lambda: len(handler.events) == 5)
    assert handler.events[-1].attempts == 1
    assert handler.events[-1].fence == 5, "the fence goes on growing"
    await until(lambda: _completed(status, event_id))
    assert (await store.event(event_id)).errors == ()


async def _completed(status: Any, event_id: int) -> bool:
    return bool(await status(event_id) == "COMPLETED")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (KeyError("k"), "KeyError: 'k'"),
        (StopIteration("x"), "RuntimeError: coroutine raised StopIteration"),
        (RuntimeError("a\x00b\ud800"), "RuntimeError: a\\x00b\\ud800"),
        (Unspeakable(), "Unspeakable: (its message cannot be read: RuntimeError)"),
        (asyncio.CancelledError(), "CancelledError: the handler was cancelled, but not by the bus"),
        (TimeoutError("mine"), "TimeoutError: mine"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_any_error_of_a_handler_is_a_failure_with_words_the_store_takes(make_bus, dlq, error, words) -> None:
    bus = await make_bus(retry=NEVER_AGAIN).start()

    @bus.on("async")
    async def fail(event: Any) -> None:
        raise error

    assert (await dlq.get(await bus.publish("async", 1))).errors == [words]


async def test_plain_functions_fail_in_the_same_words(make_bus, dlq) -> None:
    bus = await make_bus(retry=NEVER_AGAIN).start()
    errors = iter([ValueError("boom"), StopIteration("x"), SystemExit(3)])

    @bus.on("plain")
    def fail(event: Any) -> None:
        raise next(errors)

    @bus.on("wrong")
    async def takes_none() -> None: ...

    found = [(await dlq.get(await bus.publish("plain", 1))).errors for _ in range(3)]
    assert found == [["ValueError: boom"], ["StopIteration: x"], ["SystemExit: 3"]]
    (error,) = (await dlq.get(await bus.publish("wrong", 1))).errors
    assert error.startswith("TypeError: ")


async def test_an_endless_message_is_cut(make_bus, dlq) -> None:
    bus = await make_bus(retry=NEVER_AGAIN).start()
    bus.subscribe("*", Recorder(failures=1, error="x" * 1_000_000))
    (error,) = (await dlq.get(await bus.publish("a", 1))).errors
    assert len(error) == 10_001


async def test_every_failed_attempt_writes_one_log_record_the_last_one_included(make_bus) -> None:
    bus = await make_bus(retry=RetryPolicy(max_retries=2, base_delay=0.001, jitter=0)).start()
    first = bus.subscribe("*", Recorder(failures=99, error="one"))
    second = bus.subscribe("*", Recorder(failures=1, error="two"))
    with capture_logs() as logs:
        event_id = await bus.publish("user.created", 1)
    records = [record for record in logs if record["event"] == "handler_failed"]
    assert [record["attempt"] for record in records] == [1, 2, 3]
    assert [record["delay_ms"] for record in records] == [1, 2, None]
    for record in records:
        assert (record["event_id"], record["event_type"]) == (event_id, "user.created")
        assert (record["subscription_id"], record["max_attempts"]) == (first, 3)
        assert record["error"].startswith("RuntimeError: one")
    assert records[0]["error"] == "RuntimeError: one; RuntimeError: two"
    assert [failure["subscription_id"] for failure in records[0]["failures"]] == [first, second]
    assert [record["log_level"] for record in records] == ["warning", "warning", "error"]


async def test_a_success_writes_no_failure(bus) -> None:
    bus.subscribe("*", Recorder())
    with capture_logs() as logs:
        await bus.publish("a", 1)
    assert logs == []


async def test_counters_tell_each_types_story(bus) -> None:
    bus.subscribe("bad", Recorder(failures=99))
    bus.subscribe("shaky", Recorder(failures=2))
    bus.subscribe("good", Recorder())
    for event_type in ("bad", "shaky", "good", "good", "unwanted"):
        await bus.publish(event_type, 1)
    assert _numbers(bus, "bad") == (1, 3, 0, 1)
    assert _numbers(bus, "shaky") == (1, 2, 1, 0)
    assert _numbers(bus, "good") == (2, 0, 0, 0)
    assert _numbers(bus, "unwanted") == (1, 0, 0, 0)
    assert _numbers(bus, "never seen") == (0, 0, 0, 0)
    assert set(bus.counters) == {"bad", "shaky", "good", "unwanted"}


def _numbers(bus: Any, event_type: str) -> tuple[int, int, int, int]:
    counters = bus.counters[event_type]
    return counters.total, counters.retries, counters.success_after_retry, counters.dlq


def test_the_number_of_counted_types_is_bounded() -> None:
    counters = TypeCounters(max_types=2)
    for event_type in ("a", "b", "c", "d", "a"):
        counters.of(event_type).total += 1
    assert {name: count.total for name, count in counters.items()} == {"a": 2, "b": 1, OTHER: 2}


async def test_an_open_breaker_defers_events_unharmed_and_a_good_probe_lets_them_through(
    make_bus, store, status
) -> None:
    clock = ManualClock()
    bus = await make_bus(clock=clock, retry=NEVER_AGAIN, breaker=BreakerSettings()).start()
    handler = Recorder(failures=4)
    bus.subscribe("*", handler)
    for _ in range(4):
        await bus.publish("a", "fails")
    deferred = [await bus.publish("a", number, wait=False) for number in range(3)]
    await until(lambda: _all_waiting(store, deferred))
    assert len(handler.events) == 4, "nothing is tried while it is open"
    for event_id in deferred:
        event = await store.event(event_id)
        assert (event.status, event.attempts, event.retry_count) == ("PENDING", 0, 0), "nothing is charged"
    clock.advance(29)
    await _rounds(bus)
    assert len(handler.events) == 4
    clock.advance(1)
    await until(lambda: len(handler.events) >= 5)
    await until(lambda: _advance(clock) and len(handler.events) == 7)
    assert sorted(handler.payloads[4:]) == [0, 1, 2]
    for event_id in deferred:
        await until(lambda: _completed(status, event_id))  # noqa: B023


def _advance(clock: ManualClock) -> bool:
    """While a probe runs the others look again each second."""
    clock.advance(0.1)
    return True


async def _all_waiting(store: Any, ids: list[int]) -> bool:
    return all([(await store.event(event_id)).next_retry_at is not None for event_id in ids])


async def test_a_bad_probe_keeps_it_open(make_bus, store, dlq) -> None:
    clock = ManualClock()
    bus = await make_bus(clock=clock, retry=NEVER_AGAIN).start()
    handler = Recorder(failures=99)
    bus.subscribe("*", handler, breaker=BreakerSettings(open_for=30))
    for _ in range(4):
        await bus.publish("a", 1)
    waiting = [await bus.publish("a", 1, wait=False) for _ in range(2)]
    await until(lambda: _all_waiting(store, waiting))
    clock.advance(30)
    await until(lambda: len(handler.events) == 5)
    await until(lambda: bus.counters["a"].dlq == 5)
    clock.advance(5)
    await _rounds(bus)
    assert len(handler.events) == 5, "one probe, not more"
    assert (await dlq.list()).total == 5


async def test_a_breaker_of_one_subscription_leaves_other_types_alone(make_bus) -> None:
    bus = await make_bus(retry=NEVER_AGAIN, breaker=BreakerSettings()).start()
    bus.subscribe("bad", Recorder(failures=99))
    good = Recorder()
    bus.subscribe("good", good)
    for _ in range(4):
        await bus.publish("bad", 1)
    await bus.publish("good", 1)
    assert len(good.events) == 1


async def test_a_log_that_cannot_be_written_does_not_stop_the_work(make_bus, status) -> None:
    closed = io.StringIO()
    closed.close()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(closed))
    bus = await make_bus().start()
    bus.subscribe("*", Recorder(failures=2))
    assert await status(await bus.publish("a", 1)) == "COMPLETED"
