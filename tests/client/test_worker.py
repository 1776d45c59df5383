"""The worker against a real hub: every event handled, leases kept, claims lost, an end in good order."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from opentelemetry import context, trace

from eventhub import Client, PermanentError, Status, Success, TransientError, Worker, blocking
from eventhub.client import ClaimedEvent, EventDetails
from eventhub.core.events import Action
from eventhub.errors import Forbidden, RemoteError, SettingsError, Unauthorized
from tests.client.support import Hub, refusing_port, until


async def settled(client: Client, event_id: int, status: Status = Status.COMPLETED) -> EventDetails:
    async def found() -> EventDetails | None:
        event = await client.event(event_id, logs=True)
        return event if event.status is status else None

    event: EventDetails = await until(found, f"event {event_id} {status}")
    return event


def actions(event: EventDetails) -> list[Action]:
    return [row.action for row in event.logs]


@asynccontextmanager
async def working(hub: Hub, tag: str, handler: Callable[[ClaimedEvent], Any], **settings: Any):
    async with Worker(hub.url, tag, handler, **settings) as worker:
        yield worker


# ------------------------------------------------------------------- handlers


async def test_async_and_plain_handlers_do_the_work(hub: Hub, client: Client, tag: str):
    await client.publish_many({"tags": tag, "payload": n} for n in range(200))
    seen: list[Any] = []
    threads: set[str] = set()

    async def on_the_loop(event: ClaimedEvent) -> None:
        seen.append(event.payload)

    def in_a_thread(event: ClaimedEvent) -> Success:
        threads.add(threading.current_thread().name)
        seen.append(event.payload)
        return Success()

    async with working(hub, tag, on_the_loop) as one, working(hub, tag, in_a_thread, concurrency=3) as two:
        await until(lambda: one.numbers.completed + two.numbers.completed == 200, "all events completed")
        assert one.worker_id != two.worker_id
    assert sorted(seen) == list(range(200))
    assert one.numbers.taken + two.numbers.taken == 200
    assert threads <= {"eventhub-handler"}
    assert (await client.events(tags=tag, status=Status.COMPLETED)).total == 200


async def test_who_is_told_to_stop_says_what_he_waits_for(hub: Hub, client: Client, tag: str):
    published = await client.publish(tags=tag, payload=1)
    begun = asyncio.Event()

    async def hang(_: ClaimedEvent) -> None:
        begun.set()
        await asyncio.Event().wait()

    worker = Worker(hub.url, tag, hang)
    with structlog.testing.capture_logs() as records:
        running = asyncio.create_task(worker.run(signals=False))
        await asyncio.wait_for(begun.wait(), 30)
        worker.stop()
        await until(lambda: [each for each in records if each["event"] == "waiting for handlers"], "it says so")
        (record,) = [each for each in records if each["event"] == "waiting for handlers"]
        assert record["running"][0].startswith(f"event {published.id} for ")
        assert "second Ctrl-C" in record["hint"]
        worker.stop()
        await asyncio.wait_for(running, 30)
    assert worker.numbers.released == 1


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_handler_that_hangs_has_failed_after_its_time_limit(hub: Hub, client: Client, tag: str, kind: str):
    published = await client.publish(tags=tag, payload=1)
    told = threading.Event()

    async def hang(_: ClaimedEvent) -> None:
        await asyncio.Event().wait()

    def hang_in_a_thread(_: ClaimedEvent) -> None:
        told.wait(60)

    async def failed() -> list[str | None]:
        logs = (await client.event(published.id, logs=True)).logs
        return [row.error_message for row in logs if row.action is Action.FAILED]

    try:
        async with working(hub, tag, hang_in_a_thread if kind == "plain" else hang, handler_timeout=0.2) as worker:
            assert await until(failed, "the attempt has failed") == ["Handler timeout after 200ms"]
            await until(lambda: worker.numbers.failed == 1, "the worker knows")
    finally:
        told.set()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (TransientError("mailer", "busy"), "mailer: busy"),
        (ValueError("broken \x00 \ud800"), "ValueError: broken \\x00 \\ud800"),
        (asyncio.CancelledError(), "CancelledError: the handler cancelled itself"),
        (SystemExit(3), "SystemExit: 3"),
        (RuntimeError("x" * 20_000), "RuntimeError: " + "x" * 9_985 + "…"),
    ],
    ids=["transient", "raised", "cancelled", "exit", "endless"],
)
async def test_whatever_a_handler_does_is_reported(hub: Hub, client: Client, tag: str, answer: Any, error: str):
    async def handler(event: ClaimedEvent) -> Any:
        if event.attempt > 1:
            return None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    event_id = (await client.publish(tags=tag)).id
    async with working(hub, tag, handler) as worker:
        done = await settled(client, event_id)
    assert (done.retry_count, worker.numbers.failed, worker.numbers.completed) == (1, 1, 1)
    failed = next(row for row in done.logs if row.action is Action.FAILED)
    assert (failed.worker_id, failed.attempt, failed.error_message) == (worker.worker_id, 1, error)
    assert failed.execution_time_ms is not None


async def test_any_other_answer_is_a_success(hub: Hub, client: Client, tag: str):
    event_id = (await client.publish(tags=tag)).id
    async with working(hub, tag, lambda _: 42) as worker:
        done = await settled(client, event_id)
    assert (done.status, done.retry_count, worker.numbers.completed) == (Status.COMPLETED, 0, 1)


def test_a_generator_function_is_refused_since_nothing_of_it_would_run():
    def generator(event: ClaimedEvent) -> Any:
        yield event

    with pytest.raises(SettingsError, match="generator function"):
        Worker("http://127.0.0.1:1", "a", generator)


async def test_a_permanent_error_is_not_tried_again(hub: Hub, client: Client, tag: str):
    async def handler(_: ClaimedEvent) -> PermanentError:
        return PermanentError("mailer", "no such address")

    event_id = (await client.publish(tags=tag)).id
    async with working(hub, tag, handler) as worker:
        dead = await settled(client, event_id, Status.FAILED)
    assert (dead.retry_count, worker.numbers.failed, worker.numbers.lost) == (1, 1, 0)
    assert [row.error_message for row in dead.logs if row.action is Action.FAILED] == ["mailer: no such address"]


async def test_a_worker_takes_no_more_than_it_has_hands_for(hub: Hub, client: Client, tag: str):
    await client.publish_many([{"tags": tag}] * 20)
    running, most, go = 0, 0, asyncio.Event()

    async def handler(event: ClaimedEvent) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1

    async with working(hub, tag, handler, concurrency=4) as worker:
        await until(lambda: running == 4, "four handlers at work")
        assert len(await client.take(tag, "other", limit=100)) == 16
        go.set()
        await until(lambda: worker.numbers.completed == 4, "the four are done")
    assert (most, worker.numbers.taken) == (4, 4)


async def test_the_trace_of_the_publisher_is_current_in_the_handler(hub: Hub, client: Client, tag: str):
    span = trace.SpanContext(trace_id=0xF00D, span_id=0xBEEF, is_remote=False, trace_flags=trace.TraceFlags(1))
    seen: list[int] = []

    async def published_within(span: trace.SpanContext) -> int:
        token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(span)))
        try:
            return (await client.publish(tags=tag)).id
        finally:
            context.detach(token)

    async def on_the_loop(event: ClaimedEvent) -> None:
        seen.append(trace.get_current_span().get_span_context().trace_id)

    def in_a_thread(event: ClaimedEvent) -> None:
        seen.append(trace.get_current_span().get_span_context().trace_id)

    for handler in (on_the_loop, in_a_thread):
        event_id = await published_within(span)
        async with working(hub, tag, handler):
            await settled(client, event_id)
    assert seen == [0xF00D, 0xF00D]


# --------------------------------------------------------------------- leases


async def test_a_lease_is_extended_while_the_handler_runs(hub: Hub, client: Client, tag: str):
    event_id = (await client.publish(tags=tag)).id
    others: list[Any] = []

    async def slow(event: ClaimedEvent) -> None:  # for three leases
        others.extend(await client.take(tag, "other", wait=3))

    async with working(hub, tag, slow, lease=1):
        done = await settled(client, event_id)
    assert others == []
    assert actions(done) == [Action.PUBLISHED, Action.PICKED, Action.COMPLETED]


async def test_a_handler_that_blocks_the_event_loop_keeps_its_event(hub: Hub, client: Client, tag: str):
    event_id = (await client.publish(tags=tag)).id
    others: list[Any] = []

    async def rude(event: ClaimedEvent) -> None:
        with blocking.Client(hub.url) as blocked:
            others.extend(blocked.take(tag, "other", wait=3))

    async with working(hub, tag, rude, lease=1):
        done = await settled(client, event_id)
    assert others == []
    assert actions(done) == [Action.PUBLISHED, Action.PICKED, Action.COMPLETED]


async def test_a_lost_claim_cancels_the_handler_and_its_result_does_not_count(hub: Hub, client: Client, tag: str):
    event_id = (await client.publish(tags=tag)).id
    cancelled, started = asyncio.Event(), asyncio.Event()

    async def handler(event: ClaimedEvent) -> None:
        if event.attempt == 1:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

    async with working(hub, tag, handler, lease=1, concurrency=1) as worker:
        await started.wait()
        await client.reset(event_id, reason="test")
        await asyncio.wait_for(cancelled.wait(), 30)
        done = await settled(client, event_id)
    assert actions(done) == [Action.PUBLISHED, Action.PICKED, Action.RESET, Action.PICKED, Action.COMPLETED]
    assert (worker.numbers.lost, worker.numbers.completed, worker.numbers.failed) == (1, 1, 0)


async def test_the_result_of_a_thread_that_lost_its_claim_does_not_count(hub: Hub, client: Client, tag: str):
    event_id = (await client.publish(tags=tag)).id
    started, go_on = threading.Event(), threading.Event()

    def handler(event: ClaimedEvent) -> None:
        if event.attempt == 1:
            started.set()
            go_on.wait(60)
            raise ValueError("nobody wants to know")

    async with working(hub, tag, handler, lease=1, concurrency=1) as worker:
        await until(started.is_set, "the handler runs")
        await client.reset(event_id, reason="test")
        done = await settled(client, event_id)
        go_on.set()
    assert Action.FAILED not in actions(done)
    assert (worker.numbers.lost, worker.numbers.completed) == (1, 1)


# ---------------------------------------------------------------------- ending


async def test_a_stopped_worker_lets_its_handlers_end_and_takes_no_more(hub: Hub, client: Client, tag: str):
    first = (await client.publish(tags=tag)).id
    started, go_on = asyncio.Event(), asyncio.Event()

    async def handler(event: ClaimedEvent) -> None:
        started.set()
        await go_on.wait()

    worker = Worker(hub.url, tag, handler)
    running = asyncio.create_task(worker.run())
    await started.wait()
    worker.stop()
    second = (await client.publish(tags=tag)).id
    go_on.set()
    await asyncio.wait_for(running, 30)
    assert not worker.running
    assert (await client.event(first)).status is Status.COMPLETED
    await settled(client, second, Status.PENDING)
    assert worker.numbers.completed == 1


async def test_what_is_given_to_a_worker_as_it_stops_is_given_back(hub: Hub, client: Client, tag: str):
    for _ in range(20):
        worker = Worker(hub.url, tag, lambda event: None, concurrency=1)
        running = asyncio.create_task(worker.run())
        await settled(client, (await client.publish(tags=tag)).id)
        worker.stop()
        late = (await client.publish(tags=tag)).id
        await asyncio.wait_for(running, 30)
        assert (await settled(client, late, Status.PENDING)).retry_count == 0
        for event in await client.take(tag, "cleaner", limit=10):
            await client.complete(event, "cleaner")


async def test_what_does_not_end_in_time_is_given_back_uncharged(hub: Hub, client: Client, tag: str):
    created = await client.publish_many([{"tags": tag}] * 3)
    started = 0

    async def endless(event: ClaimedEvent) -> None:
        nonlocal started
        started += 1
        await asyncio.Event().wait()

    async with working(hub, tag, endless, concurrency=3, shutdown_timeout=0.0) as worker:
        await until(lambda: started == 3, "all three run")
    assert worker.numbers.released == 3
    for each in created:
        found = await client.event(each.id, logs=True)
        assert (found.status, found.retry_count) == (Status.PENDING, 0)
        assert actions(found) == [Action.PUBLISHED, Action.PICKED, Action.RELEASED]


async def test_told_to_stop_twice_it_waits_no_longer(hub: Hub, client: Client, tag: str):
    event_id = (await client.publish(tags=tag)).id
    started = asyncio.Event()

    async def endless(event: ClaimedEvent) -> None:
        started.set()
        await asyncio.Event().wait()

    worker = Worker(hub.url, tag, endless, shutdown_timeout=600)
    running = asyncio.create_task(worker.run())
    await started.wait()
    worker.stop()
    worker.stop()
    await asyncio.wait_for(running, 30)
    await settled(client, event_id, Status.PENDING)


async def test_cancelling_run_gives_back_too(hub: Hub, client: Client, tag: str):
    event_id = (await client.publish(tags=tag)).id
    started = asyncio.Event()

    async def endless(event: ClaimedEvent) -> None:
        started.set()
        await asyncio.Event().wait()

    worker = Worker(hub.url, tag, endless, shutdown_timeout=0)
    running = asyncio.create_task(worker.run())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await settled(client, event_id, Status.PENDING)


PROGRAM = """
import asyncio, sys
from eventhub import Worker

async def handler(event):
    print("working", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

asyncio.run(Worker(sys.argv[1], sys.argv[2], handler, shutdown_timeout=60, concurrency=1).run())
print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_the_process(hub: Hub, client: Client, tag: str, number: signal.Signals):
    event_id = (await client.publish(tags=tag)).id
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", PROGRAM, hub.url, tag, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert await process.stdout.readline() == b"working\n"
    process.send_signal(number)
    second = (await client.publish(tags=tag)).id
    process.stdin.write(b"go on\n")
    assert await process.stdout.readline() == b"ended\n"
    assert await process.wait() == 0
    assert (await client.event(event_id)).status is Status.COMPLETED
    assert (await client.event(second)).status is Status.PENDING


async def test_signal_handlers_are_left_as_they_were(hub: Hub, tag: str):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    worker = Worker(hub.url, tag, lambda event: None)
    running = asyncio.create_task(worker.run())
    await until(lambda: signal.getsignal(signal.SIGTERM) is not before[0], "the signal is taken")
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 30)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


# ------------------------------------------------------------------- beginning


async def test_a_worker_waits_for_a_hub_that_is_not_there_yet(mortal: Hub, tag: str):
    async with working(mortal, tag, lambda event: None) as worker:
        await asyncio.to_thread(mortal.start)
        async with Client(mortal.url) as client:
            await settled(client, (await client.publish(tags=tag)).id)
    assert worker.numbers.completed == 1


async def test_a_worker_that_the_hub_refuses_says_so(tmp_path: Path, tag: str):
    with Hub(tmp_path, "hub.db") as locked:
        made = locked.command.json("keys", "create", "publisher", "--scopes", "publish", "--db", "hub.db")
        with pytest.raises(Unauthorized):
            await Worker(locked.url, tag, print).run()
        with pytest.raises(Forbidden):
            await Worker(locked.url, tag, print, key=made["key"]).run()


async def test_a_worker_runs_once_at_a_time(hub: Hub, tag: str):
    async with working(hub, tag, print) as worker:
        with pytest.raises(RuntimeError, match="runs already"):
            await worker.run()
    worker.stop()


@pytest.mark.parametrize(
    "wrong",
    [
        {"tags": " , "},
        {"concurrency": 0},
        {"lease": 0.5},
        {"worker_id": ""},
        {"worker_id": "w" * 201},
        {"batch": 0},
        {"batch": 1001},
        {"wait": 61},
        {"shutdown_timeout": -1},
        {"handler": None},
        {"url": "localhost"},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]):
    arguments: dict[str, Any] = {"url": f"http://127.0.0.1:{refusing_port()}", "tags": "a", "handler": print, **wrong}
    with pytest.raises(SettingsError):
        Worker(**arguments)


def test_a_worker_shows_what_it_is_without_its_key():
    worker = Worker("http://127.0.0.1:1", ["b", "a"], print, key="eh_1_secret", worker_id="me")
    assert repr(worker) == "Worker('http://127.0.0.1:1', 'a,b', worker_id='me')"
    assert issubclass(Unauthorized, RemoteError)


# -------------------------------------------------------------------- blocking


def test_the_blocking_worker(hub: Hub, tag: str):
    handled = threading.Event()
    with blocking.Client(hub.url) as client:

        def handler(event: ClaimedEvent) -> None:
            client.publish(tags=f"{tag}-next", payload=event.payload)
            handled.set()

        with blocking.Worker(hub.url, tag, handler) as worker:
            client.publish(tags=tag, payload=7)
            assert handled.wait(30)
        assert worker.numbers.completed == 1
        assert [event.payload for event in client.take(f"{tag}-next", "w")] == [7]
