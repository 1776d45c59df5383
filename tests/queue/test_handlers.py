"""What handlers answer and what becomes of the event: results, retries, permanent errors, nobody at all."""

import asyncio
import threading
from functools import partial

import pytest
import structlog

from eventhub.core.events import Action, Status
from eventhub.core.outcomes import PermanentError, Success, TransientError
from eventhub.errors import HandlerExistsError, InvalidPatternError, SettingsError
from eventhub.queue import EventManager
from tests.queue.support import until


@pytest.fixture
def manager(queue):
    return EventManager(queue)


@pytest.fixture
def logged():
    with structlog.testing.capture_logs() as records:
        yield records


async def status(queue, event):
    return (await queue.store.event(event.id)).status


@pytest.mark.parametrize("answer", [None, Success()])
async def test_a_handler_that_succeeds_completes_the_event(queue, manager, answer):
    event = await queue.publish("invoice.paid", {"n": 1})
    seen = []

    async def mail(event):
        seen.append(event)
        return answer

    manager.register("mailer", "invoice.paid", mail)
    await manager.run_until_empty()
    assert [(e.id, e.payload, e.attempts, e.fence, e.status) for e in seen] == [
        (event.id, {"n": 1}, 1, 1, Status.PROCESSING)
    ]
    assert await status(queue, event) is Status.COMPLETED


async def test_a_plain_handler_runs_in_a_thread_and_an_inline_one_does_not(queue, manager):
    ran: dict[str, threading.Thread] = {}
    manager.register("plain", "a", lambda event: ran.update(plain=threading.current_thread()))
    manager.register("inline", "a", lambda event: ran.update(inline=threading.current_thread()), inline=True)
    event = await queue.publish("a", 1)
    await manager.run_until_empty()
    assert await status(queue, event) is Status.COMPLETED
    assert ran["plain"] is not threading.main_thread()
    assert ran["inline"] is threading.main_thread()


async def test_an_object_with_an_async_call_is_a_handler_too(queue, manager):
    class Mailer:
        sent = 0

        async def __call__(self, event):
            Mailer.sent += 1

    manager.register("mailer", "a", Mailer())
    await queue.publish("a", 1)
    await manager.run_until_empty()
    assert Mailer.sent == 1


async def test_handlers_are_chosen_by_type_or_pattern(queue, manager):
    calls = []
    for name, pattern in {
        "exact": "invoice.paid",
        "any": "*",
        "one": "invoice.*",
        "other": "order.*",
    }.items():
        manager.register(name, pattern, lambda event, name=name: calls.append(name), inline=True)
    await queue.publish("invoice.paid", 1)
    await manager.run_until_empty()
    assert calls == ["exact", "any", "one"]


async def test_the_decorator_registers_under_the_functions_name(manager, queue):
    @manager.on("a")
    async def ship(event):
        return Success()

    @manager.on("a", handler_id="other")
    def pack(event):
        return None

    await queue.publish("a", 1)
    await manager.run_until_empty()
    ship_id = ship.__qualname__
    assert manager.numbers.results[ship_id]["success"] == manager.numbers.results["other"]["success"] == 1


def test_a_handler_id_is_taken_once(manager):
    manager.register("mailer", "a", print)
    with pytest.raises(HandlerExistsError, match=r"^Handler with id 'mailer' is already registered$"):
        manager.register("mailer", "b", print)
    assert manager.unregister("mailer")
    assert not manager.unregister("mailer")
    manager.register("mailer", "b", print)


def test_what_cannot_be_a_handler_is_refused(manager):
    with pytest.raises(InvalidPatternError):
        manager.register("a", "", print)
    with pytest.raises(SettingsError, match="give a function"):
        manager.register("a", "a", 7)
    with pytest.raises(SettingsError, match="handler id"):
        manager.register("", "a", print)


async def test_a_later_pass_runs_only_handlers_that_are_not_settled(queue, manager, clock):
    calls = {"first": 0, "second": 0, "flaky": 0}

    def counting(name, answers):
        async def handler(event):
            calls[name] += 1
            return answers(calls[name])

        return handler

    manager.register("first", "a", counting("first", lambda n: Success()))
    manager.register("flaky", "a", counting("flaky", lambda n: TransientError("flaky", "not yet") if n == 1 else None))
    manager.register("second", "a", counting("second", lambda n: None))
    event = await queue.publish("a", 1)
    await manager.run_until_empty()
    assert calls == {"first": 1, "second": 1, "flaky": 1}
    assert await status(queue, event) is Status.PENDING
    clock.advance(60)
    await manager.run_until_empty()
    assert calls == {"first": 1, "second": 1, "flaky": 2}
    assert await status(queue, event) is Status.COMPLETED


async def test_each_result_is_stored_before_the_next_handler_runs(queue, manager):
    stored = {}

    async def first(event):
        return Success()

    async def second(event):
        stored.update(await queue.store.handler_results([event.id]))
        return TransientError("second", "later")

    async def third(event):
        stored["then"] = await queue.store.handler_results([event.id])

    for handler in (first, second, third):
        manager.register(handler.__name__, "a", handler)
    event = await queue.publish("a", 1)
    await manager.run_until_empty()
    assert stored[event.id] == {"first": ("success", None)}
    assert stored["then"][event.id]["second"] == ("transient", "second: later")


async def test_settled_handlers_stay_settled_when_the_worker_dies_before_the_end(queue, make_queue, clock):
    ran = []

    async def first(event):
        ran.append("first")
        return PermanentError("first", "never: ever")

    async def dies(event):
        ran.append("dies")
        await asyncio.Event().wait()

    manager = EventManager(queue, shutdown_timeout=0)
    manager.register("first", "a", first)
    manager.register("second", "a", dies)
    event = await queue.publish("a", 1)
    async with manager:
        await until(lambda: ran == ["first", "dies"])
    successor = EventManager(make_queue())
    successor.register("first", "a", first)
    successor.register("second", "a", lambda event: ran.append("second"), inline=True)
    await successor.run_until_empty()
    assert ran == ["first", "dies", "second"]
    assert (await queue.store.dead_event(event.id)).errors == ["first: never: ever"]


async def test_a_permanent_error_ends_the_event_but_the_others_still_run(queue, manager):
    ran = []

    async def broken(event):
        return PermanentError("broken", "no such customer")

    async def unlucky(event):
        ran.append("unlucky")
        return TransientError("unlucky", "try later")

    async def fine(event):
        ran.append("fine")

    for handler in (broken, unlucky, fine):
        manager.register(handler.__name__, "a", handler)
    event = await queue.publish("a", 1)
    await manager.run_until_empty()
    assert ran == ["unlucky", "fine"]
    assert await status(queue, event) is Status.COMPLETED_WITH_ERRORS
    dead = await queue.store.dead_event(event.id)
    assert (dead.errors, dead.reason) == (["broken: no such customer"], "finalized")


async def test_an_exception_is_a_transient_error_and_the_loop_survives_it(queue, manager, clock, logged):
    async def fragile(event):
        if event.payload == "bad" and event.attempts == 1:
            raise KeyError("customer")

    manager.register("fragile", "a", fragile)
    bad = await queue.publish("a", "bad")
    good = await queue.publish("a", "good")
    await manager.run_until_empty()
    assert await status(queue, good) is Status.COMPLETED
    waiting = await queue.store.event(bad.id)
    assert (waiting.status, waiting.errors) == (Status.PENDING, ("fragile: KeyError: 'customer'",))
    assert abs((waiting.next_retry_at - clock.now()).total_seconds() - 5) <= 0.5
    (record,) = [r for r in logged if r["event"] == "attempt failed"]
    assert (record["event_id"], record["event_type"], record["attempt"]) == (bad.id, "a", 1)
    assert record["max_attempts"] == 20
    assert 4500 <= record["delay_ms"] <= 5500
    assert record["error"] == "fragile: KeyError: 'customer'"
    clock.advance(60)
    await manager.run_until_empty()
    assert await status(queue, bad) is Status.COMPLETED


class Odd:
    def __repr__(self) -> str:
        return "an oddity"


@pytest.mark.parametrize(
    "answer",
    [True, False, 0, "ok", {"success": False}, Odd(), ValueError("returned")],
    ids=["true", "false", "zero", "text", "mapping", "object", "exception"],
)
async def test_any_other_answer_is_a_success_with_that_result(queue, manager, answer):
    async def handler(event):
        return answer

    async def fails(event):
        return TransientError("other", "busy")

    manager.register("h", "a", handler)
    event = await queue.publish("a", 1)
    await manager.run_until_empty()
    assert await status(queue, event) is Status.COMPLETED
    manager.register("other", "a", fails)
    event = await queue.publish("a", 1)
    await manager.run_until_empty()
    results = (await queue.store.handler_results([event.id]))[event.id]
    assert results["h"] == ("success", repr(answer))


async def test_transient_results_are_stored_also_those_of_the_last_handler(queue, manager):
    manager.register("only", "a", lambda event: TransientError("only", "busy"))
    manager.register("first", "b", lambda event: TransientError("first", "busy"))
    manager.register("last", "b", lambda event: TransientError("last", "busy"))
    one, two = await queue.publish("a", 1), await queue.publish("b", 1)
    await manager.run_until_empty()
    assert await queue.store.handler_results([one.id, two.id]) == {
        one.id: {"only": ("transient", "only: busy")},
        two.id: {"first": ("transient", "first: busy"), "last": ("transient", "last: busy")},
    }
    (stats,) = await queue.store.stats(queue.name)
    assert stats.handler_results == {"transient": 3}


async def test_what_a_handler_changes_in_its_event_no_other_sees(queue, manager):
    seen = []

    def changes(event):
        seen.append(dict(event.payload))
        event.payload["changed"] = True
        event.metadata["changed"] = "yes"
        assert event.metadata == {"k": "v", "changed": "yes"}

    for name in ("one", "two", "three"):
        manager.register(name, "a", changes)
    event = await queue.publish("a", {"n": 1}, metadata={"k": "v"})
    await manager.run_until_empty()
    assert seen == [{"n": 1}] * 3
    assert await status(queue, event) is Status.COMPLETED


FAILURES = [SystemExit(3), StopIteration(), BaseException("odd"), GeneratorExit("odd"), KeyboardInterrupt("mine")]


@pytest.mark.parametrize("error", FAILURES, ids=repr)
async def test_a_thread_may_fail_in_any_way(queue, manager, error):
    def handler(event):
        raise error

    manager.register("h", "a", handler)
    event = await queue.publish("a", 1)
    await manager.run_until_empty()
    (text,) = (await queue.store.event(event.id)).errors
    assert type(error).__name__ in text


@pytest.mark.parametrize("error", [SystemExit(3), BaseException("odd"), GeneratorExit("odd")], ids=repr)
async def test_an_async_handler_may_fail_in_any_way_but_by_the_users_interrupt(queue, manager, error):
    async def handler(event):
        raise error

    manager.register("h", "a", handler)
    event = await queue.publish("a", 1)
    await manager.run_until_empty()
    (text,) = (await queue.store.event(event.id)).errors
    assert type(error).__name__ in text


def generator(event):
    yield event


async def async_generator(event):
    yield event


@pytest.mark.parametrize("handler", [generator, async_generator, partial(generator)], ids=["plain", "async", "partial"])
async def test_generator_functions_are_refused_since_nothing_of_them_would_run(manager, handler):
    with pytest.raises(SettingsError, match="generator function"):
        manager.register("h", "a", handler)
    with pytest.raises(SettingsError, match="generator function"):
        manager.on("a")(handler)


async def test_the_decorator_without_parentheses_is_refused(manager):
    with pytest.raises(SettingsError, match=r"@manager\.on\('order\.paid'\)"):

        @manager.on
        async def ship(event): ...


async def test_a_handler_that_cancels_itself_has_failed(queue, manager):
    async def handler(event):
        raise asyncio.CancelledError

    manager.register("h", "a", handler)
    event = await queue.publish("a", 1)
    await manager.run_until_empty()
    assert "CancelledError" in (await queue.store.event(event.id)).errors[0]


async def test_attempts_run_out_when_a_limit_is_set(make_queue, clock):
    queue = make_queue(max_attempts=2)
    manager = EventManager(queue)

    async def never(event):
        return TransientError("never", f"attempt {event.attempts}")

    manager.register("never", "a", never)
    event = await queue.publish("a", 1)
    for _ in range(3):
        await manager.run_until_empty()
        clock.advance(60)
    dead = await queue.store.dead_event(event.id)
    assert dead.reason == "retries_exhausted"
    assert dead.errors == ["never: attempt 1", "never: attempt 2"]
    assert manager.numbers.dead == 1


async def test_nobodys_event_is_left_for_others_untouched_and_unlogged(queue, manager, make_queue, clock, logged):
    event = await queue.publish("unknown", 1)
    for _ in range(3):
        await manager.run_until_empty()
        left = await queue.store.event(event.id)
        assert (left.status, left.attempts, left.next_retry_at) == (Status.PENDING, 0, None)
        assert [entry.action for entry in await queue.store.log(event.id)] == [Action.PUBLISHED]
        assert not logged
        clock.advance(60)
    other = EventManager(make_queue())
    other.register("other", "unknown", lambda event: None)
    await other.run_until_empty()
    assert await status(queue, event) is Status.COMPLETED


async def test_a_type_that_nobody_has_handled_for_long_is_reported_once(queue, manager, clock, logged):
    manager.register("h", "a", lambda event: None)
    event = await queue.publish("unknown", 1)
    await queue.publish("a", 1)
    for _ in range(4):
        await manager.run_until_empty()
        clock.advance(100)
    await manager.run_until_empty()
    (record,) = logged
    assert (record["event_type"], record["event_id"], record["seconds"]) == ("unknown", event.id, 300)
    assert await status(queue, event) is Status.PENDING


async def test_a_type_that_somebody_handles_slowly_is_not_reported(queue, manager, make_queue, clock, logged):
    for payload in range(5):
        await queue.publish("slow", payload)
    other = make_queue()
    for _ in range(4):
        await manager.run_until_empty()
        await other.finalize(await other.poll())
        clock.advance(200)
    assert not logged


async def test_what_waits_for_a_busy_handler_is_neither_completed_nor_reported(queue, make_queue, clock, logged):
    manager = EventManager(queue, on_unmatched="complete", unmatched_after=60)
    manager.register("mine", "a", lambda event: None)
    waiting = [await queue.publish("slow", payload) for payload in range(3)]
    busy = make_queue(abandoned_after=3600)
    held = await busy.poll()
    for _ in range(4):
        await manager.run_until_empty()
        clock.advance(100)
    await manager.run_until_empty()
    assert await status(queue, waiting[0]) is Status.PROCESSING
    assert {await status(queue, event) for event in waiting[1:]} == {Status.PENDING}
    assert not logged
    await busy.finalize(held)
    await manager.run_until_empty()
    clock.advance(59)
    await manager.run_until_empty()
    assert {await status(queue, event) for event in waiting[1:]} == {Status.PENDING}, "counted since the claim ended"
    clock.advance(1)
    await manager.run_until_empty()
    assert {await status(queue, event) for event in waiting} == {Status.COMPLETED}


async def test_nobodys_event_may_be_completed_instead_when_it_has_waited(queue, clock):
    manager = EventManager(queue, on_unmatched="complete", unmatched_after=60)
    manager.register("mine", "a", lambda event: None)
    events = [await queue.publish("unknown", payload) for payload in range(3)]
    await manager.run_until_empty()
    clock.advance(59)
    await manager.run_until_empty()
    assert {await status(queue, event) for event in events} == {Status.PENDING}
    clock.advance(1)
    await manager.run_until_empty()
    assert {await status(queue, event) for event in events} == {Status.COMPLETED}


async def test_it_may_be_completed_at_once(queue):
    manager = EventManager(queue, on_unmatched="complete", unmatched_after=0)
    event = await queue.publish("unknown", 1)
    await manager.run_until_empty()
    assert await status(queue, event) is Status.COMPLETED


async def test_a_handler_has_twenty_attempts_with_growing_waits(queue, manager, clock):
    manager.register("h", "a", lambda event: TransientError("h", "not yet"))
    event = await queue.publish("a", 1)
    waits = []
    for _ in range(19):
        await manager.run_until_empty()
        left = await queue.store.event(event.id)
        waits.append((left.next_retry_at - clock.now()).total_seconds())
        clock.advance(waits[-1])
    plain = [min(5 * 2**n, 3600) for n in range(19)]
    assert all(abs(wait - expected) <= expected / 10 for wait, expected in zip(waits, plain, strict=True))
    await manager.run_until_empty()
    assert await status(queue, event) is Status.FAILED


async def test_no_limit_must_be_asked_for_by_name(make_queue, clock):
    queue = make_queue(max_attempts=None, retry_after=1)
    manager = EventManager(queue)
    manager.register("h", "a", lambda event: TransientError("h", "not yet"))
    event = await queue.publish("a", 1)
    for _ in range(30):
        await manager.run_until_empty()
        clock.advance(1)
    found = await queue.store.event(event.id)
    assert (found.status, found.retry_count) == (Status.PENDING, 30)


async def test_an_event_that_kills_every_worker_ends_after_twenty_of_them(queue, manager, clock):
    calls: list[object] = []
    manager.register("h", "a", calls.append)
    event = await queue.publish("a", 1)
    for _ in range(20):
        assert await queue.poll() is not None
        clock.advance(61)
    await manager.run_until_empty()
    assert (calls, await status(queue, event)) == ([], Status.FAILED)
    assert (await queue.store.dead_event(event.id)).reason == "worker_lost"


async def test_whoever_polls_has_no_limit(queue, clock):
    event = await queue.publish("a", 1)
    for _ in range(25):
        assert await queue.fail(await queue.poll(), "not yet")
        clock.advance(61)
    assert await status(queue, event) is Status.PENDING


async def test_a_dead_event_that_is_retried_runs_every_handler_again(queue, manager, clock):
    calls = []

    async def one(event):
        calls.append("one")

    async def two(event):
        calls.append("two")
        return PermanentError("two", "no") if len(calls) < 3 else TransientError("two", "not yet")

    manager.register("one", "a", one)
    manager.register("two", "a", two)
    event = await queue.publish("a", 1)
    await manager.run_until_empty()
    await queue.store.retry_dead([event.id], by="operator", now=clock.now())
    await manager.run_until_empty()
    assert calls == ["one", "two", "one", "two"]
    assert (await queue.store.event(event.id)).status is Status.PENDING


async def test_the_log_tells_how_long_the_handlers_took(queue, manager):
    async def handler(event):
        await asyncio.sleep(0.02)

    manager.register("h", "a", handler)
    event = await queue.publish("a", 1)
    await manager.run_until_empty()
    (completed,) = [entry for entry in await queue.store.log(event.id) if entry.action is Action.COMPLETED]
    assert completed.execution_ms >= 20


async def test_numbers_count_what_happened(queue, manager):
    answers = {"good": None, "later": TransientError("h", "x"), "never": PermanentError("h", "y")}

    async def handler(event):
        return answers[event.payload]

    manager.register("h", "a", handler)
    for payload in answers:
        await queue.publish("a", payload)
    await queue.publish("unknown", 1)
    await manager.run_until_empty()
    numbers = manager.numbers
    assert numbers.results == {"h": {"success": 1, "transient": 1, "permanent": 1}}
    assert (numbers.claimed, numbers.handled, numbers.completed) == (3, 3, 1)
    assert (numbers.failed, numbers.dead, numbers.released) == (2, 1, 0)
    assert numbers.failure_rate == pytest.approx(2 / 3)
    assert numbers.latency.count == 3
    assert numbers.latency.share(0.99) is not None
