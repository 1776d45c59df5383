"""The client against a real hub: typed answers, our own errors, and retries that never double."""

import asyncio
import json
import math
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from opentelemetry import context, trace

from eventhub import Client, Status, blocking
from eventhub.client import Report
from eventhub.client.answers import LogRow
from eventhub.core.events import Action
from eventhub.errors import (
    AlreadyReported,
    ClaimLost,
    EventNotFound,
    Forbidden,
    IdempotencyConflict,
    InvalidEventError,
    InvalidPayloadError,
    NotProcessing,
    PayloadTooLargeError,
    RemoteError,
    ServerUnavailable,
    SettingsError,
    Unauthorized,
)
from eventhub.http.bodies.events import LogBody
from tests.client.support import Hub, Network, refusing_port


async def total(client: Client, tag: str) -> int | None:
    return (await client.events(tags=tag, limit=1)).total


# ---------------------------------------------------------------- publishing


async def test_an_event_comes_back_as_it_was_published(client: Client, tag: str):
    published = await client.publish(
        title="Welcome",
        description="A first mail",
        tags=f"{tag}, other",
        event_type="user.created",
        payload={"user": 7, "names": ["Ada", "Ünï"]},
        metadata={"source": "signup"},
        ordering_key="user-7",
        priority=5,
    )
    found = await client.event(published.id)
    assert (found.title, found.description, found.tags) == ("Welcome", "A first mail", f"{tag}, other")
    assert (found.event_type, found.payload) == ("user.created", {"user": 7, "names": ["Ada", "Ünï"]})
    assert (found.metadata, found.ordering_key) == ({"source": "signup"}, "user-7")
    assert (found.status, found.retry_count, found.max_retries) == (Status.PENDING, 0, 3)
    assert published.status is Status.PENDING
    assert datetime.now(UTC) - timedelta(minutes=5) < found.created_at <= found.updated_at


async def test_later_means_not_yet(client: Client, tag: str):
    await client.publish(tags=[tag], delay=timedelta(hours=1))
    await client.publish(tags=[tag], deliver_at=datetime.now(UTC) + timedelta(hours=1))
    assert await client.take(tag, "w", limit=10) == []
    ready = await client.publish(tags=[tag])
    assert [event.id for event in await client.take([tag], "w", limit=10)] == [ready.id]


async def test_many_events_are_published_at_once(client: Client, tag: str):
    created = await client.publish_many({"tags": tag, "payload": n, "type": "n.counted"} for n in range(1000))
    assert len({event.id for event in created}) == 1000
    assert not any(event.duplicate for event in created)
    assert await total(client, tag) == 1000
    assert await client.publish_many([]) == []
    with pytest.raises(InvalidEventError, match=r"1,001 events are too many"):
        await client.publish_many([{"tags": tag}] * 1001)


async def test_a_batch_is_all_or_nothing(client: Client, tag: str):
    with pytest.raises(InvalidEventError, match="Event 1"):
        await client.publish_many([{"tags": tag}, {"tags": "no good!"}])
    assert await total(client, tag) == 0


@pytest.mark.parametrize("payload", [math.nan, {"at": datetime.now(UTC)}, {1: 2}, "\ud800", {"a": {1, 2}}])
async def test_what_json_cannot_say_is_refused_before_it_is_sent(client: Client, tag: str, payload: object):
    with pytest.raises(InvalidPayloadError):
        await client.publish(tags=tag, payload=payload)
    with pytest.raises(InvalidPayloadError):
        await client.publish_many([{"tags": tag, "payload": payload}])
    assert await total(client, tag) == 0


async def test_a_payload_has_its_limit(client: Client, tag: str):
    with pytest.raises(PayloadTooLargeError):
        await client.publish(tags=tag, payload="x" * 1_048_575)
    await client.publish(tags=tag, payload="x" * 1_048_574)


async def test_what_the_hub_refuses_is_our_own_error(client: Client, tag: str):
    with pytest.raises(InvalidEventError):
        await client.publish(title="neither tags nor a type")
    with pytest.raises(InvalidEventError, match="no field 'tag'"):
        await client.publish(tag=tag)  # type: ignore[call-arg]
    with pytest.raises(RemoteError) as caught:
        await client.publish(tags=tag, priority=5000)
    assert caught.value.status == 422
    assert "priority" in str(caught.value)


async def test_an_idempotency_key_stands_for_one_event(client: Client, tag: str):
    first = await client.publish(tags=tag, payload=1, idempotency_key=f"{tag}-key")
    assert (await client.publish(tags=tag, payload=1, idempotency_key=f"{tag}-key")).id == first.id
    with pytest.raises(IdempotencyConflict):
        await client.publish(tags=tag, payload=2, idempotency_key=f"{tag}-key")
    (again,) = await client.publish_many([{"tags": tag, "payload": 1, "idempotency_key": f"{tag}-key"}])
    assert (again.id, again.duplicate) == (first.id, True)


# ------------------------------------------------------- answers that get lost


async def test_a_lost_answer_never_doubles_an_event(hub: Hub, client: Client, tag: str):
    async with Network(hub.url).opened() as network, Client(network.url) as far:
        network.lose = 2
        event = await far.publish(tags=tag, payload=1)
        network.lose = 1
        created = await far.publish_many([{"tags": tag}, {"tags": tag}])
        assert network.lost == 3
    assert await total(client, tag) == 3
    found = await client.events(tags=tag)
    assert sorted(each.id for each in found.events) == [event.id, *(each.id for each in created)]


async def test_a_report_is_repeated_until_it_is_answered(hub: Hub, client: Client, tag: str):
    await client.publish_many([{"tags": tag}] * 3)
    one, two, three = await client.take(tag, "w", limit=3)
    async with Network(hub.url).opened() as network, Client(network.url) as far:
        network.lose = 1
        assert (await far.complete(one, "w", status_code=7)).status_code == 7
        network.lose = 1
        assert (await far.fail(two, "w", "broken")).retry_scheduled
        network.lose = 1
        (outcome,) = await far.complete_many([Report(event_id=three.id, worker_id="w", fence=three.fence)])
        assert outcome.accepted
        assert network.lost == 3
    actions = [row.action for row in (await client.event(one.id, logs=True)).logs]
    assert actions == [Action.PUBLISHED, Action.PICKED, Action.COMPLETED]
    assert (await client.event(two.id)).retry_count == 1


async def test_a_take_whose_answer_got_lost_is_not_repeated(hub: Hub, client: Client, tag: str):
    await client.publish_many([{"tags": tag}] * 2)
    async with Network(hub.url).opened() as network, Client(network.url) as far:
        network.lose = 1
        with pytest.raises(ServerUnavailable):
            await far.take(tag, "w")
        assert network.requests == 1
    assert len(await client.take(tag, "other", limit=10)) == 1


async def test_without_retries_a_call_is_made_once(hub: Hub, tag: str):
    async with Network(hub.url).opened() as network, Client(network.url, retries=False) as far:
        network.lose = 1
        with pytest.raises(ServerUnavailable, match="does not answer"):
            await far.publish(tags=tag)
        assert network.requests == 1


async def test_a_hub_that_comes_up_in_time_is_reached(mortal: Hub, tag: str):
    async with Client(mortal.url, timeout=60) as client:
        publishing = asyncio.create_task(client.publish(tags=tag))
        taking = asyncio.create_task(client.take(tag, "w", wait=5))
        await asyncio.to_thread(mortal.start)
        event = await publishing
        assert [each.id for each in await taking] == [event.id]


async def test_a_hub_that_stays_away_is_given_up_in_time():
    async with Client(f"http://127.0.0.1:{refusing_port()}", timeout=0.5) as client:
        for call in (client.stats(), client.publish(tags="a"), client.take("a", "w"), client.event(1)):
            with pytest.raises(ServerUnavailable, match="Check its address"):
                await call


async def test_a_rate_limit_is_waited_for(tmp_path: Path):
    with Hub(tmp_path, "hub.db", "--rate-per-second", "2", "--rate-burst", "1") as slow:
        async with Client(slow.url, timeout=30) as client:
            assert len({(await client.publish(tags="a")).id for _ in range(3)}) == 3
        async with Client(slow.url, retries=False) as hasty:
            with pytest.raises(ServerUnavailable, match="Slow down") as caught:
                await asyncio.gather(*(hasty.stats() for _ in range(10)))
            assert caught.value.retry_after is not None


# -------------------------------------------------------------------- working


async def test_work_is_taken_and_completed(client: Client, tag: str):
    published = await client.publish(title="T", tags=tag, payload=[1], event_type="a.b", metadata={"m": "1"})
    (event,) = await client.take(tag, "host:1", lease=30)
    assert (event.id, event.title, event.tags, event.payload) == (published.id, "T", tag, [1])
    assert (event.type, event.event_type, event.metadata) == ("a.b", "a.b", {"m": "1"})
    assert (event.status, event.attempt, event.attempts) == (Status.PROCESSING, 1, 1)
    assert event.fence >= 1
    left = (event.lease_expires_at - datetime.now(UTC)).total_seconds()
    assert 20 < left <= 31
    started = await client.start(event, "host:1", lease=timedelta(seconds=60))
    extended = await client.heartbeat(event, "host:1", lease=90)
    assert event.lease_expires_at < started.lease_expires_at < extended.lease_expires_at
    recorded = await client.complete(event, "host:1", status_code=200, execution_time_ms=12)
    assert (recorded.action, recorded.worker_id, recorded.execution_time_ms) == (Action.COMPLETED, "host:1", 12)
    assert not recorded.final
    found = await client.event(event.id, logs=True)
    assert found.status is Status.COMPLETED
    actions = [row.action for row in found.logs]
    assert actions == [Action.PUBLISHED, Action.PICKED, Action.STARTED, Action.COMPLETED]
    assert found.logs[-1].status_code == 200


async def test_a_wait_ends_when_work_arrives(client: Client, tag: str):
    waiting = asyncio.create_task(client.take(tag, "w", wait=30))
    event = await client.publish(tags=tag)
    assert [each.id for each in await waiting] == [event.id]


async def test_failures_are_counted_until_the_last_is_final(client: Client, tag: str):
    event_id = (await client.publish(tags=tag)).id
    for attempt in (1, 2, 3):
        (event,) = await client.take(tag, "w", wait=10)
        assert (event.id, event.attempt, event.retry_count) == (event_id, attempt, attempt - 1)
        recorded = await client.fail(event, "w", f"broken {attempt}", status_code=500, execution_time_ms=3)
        assert recorded.final is (attempt == 3)
        assert recorded.error_message == f"broken {attempt}"
        repeated = await client.fail(event, "w", f"broken {attempt}", status_code=500, execution_time_ms=3)
        assert repeated.final is (attempt == 3)
    found = await client.event(event_id)
    assert (found.status, found.errors) == (Status.FAILED, ("broken 1", "broken 2", "broken 3"))


async def test_who_has_lost_the_claim_is_told(client: Client, tag: str):
    event_id = (await client.publish(tags=tag)).id
    (event,) = await client.take(tag, "slow")
    assert (await client.reset(event_id, reason="too slow")).status is Status.PENDING
    with pytest.raises(NotProcessing):
        await client.reset(event_id)
    (again,) = await client.take(tag, "quick")
    for call in (
        client.complete(event, "slow"),
        client.fail(event, "slow", "late"),
        client.heartbeat(event, "slow"),
        client.start(event, "slow"),
        client.release(event, "slow"),
    ):
        with pytest.raises(ClaimLost):
            await call
    await client.complete(again, "quick")
    with pytest.raises(AlreadyReported):
        await client.fail(again, "quick", "after all")


async def test_no_such_event(client: Client):
    for call in (client.event(4711_0000), client.complete(4711_0000, "w"), client.heartbeat(4711_0000, "w")):
        with pytest.raises(EventNotFound):
            await call


async def test_what_is_released_was_never_charged(client: Client, tag: str):
    await client.publish(tags=tag)
    (event,) = await client.take(tag, "w")
    await client.release(event, "w")
    found = await client.event(event.id)
    assert (found.status, found.retry_count) == (Status.PENDING, 0)
    assert [each.id for each in await client.take(tag, "other")] == [event.id]


async def test_each_report_of_many_has_an_outcome(client: Client, tag: str):
    created = await client.publish_many([{"tags": tag}] * 3)
    taken = {event.id: event for event in await client.take(tag, "w", limit=3)}
    assert taken.keys() == {event.id for event in created}
    one, two, three = taken.values()
    outcomes = await client.complete_many(
        [
            Report(event_id=one.id, worker_id="w", fence=one.fence, execution_time_ms=1),
            Report(event_id=two.id, worker_id="stranger"),
            Report(event_id=4711_0000, worker_id="w"),
        ]
    )
    assert [(each.event_id, each.accepted) for each in outcomes] == [
        (one.id, True),
        (two.id, False),
        (4711_0000, False),
    ]
    assert [each.status for each in outcomes] == [200, 409, 404]
    for place in range(3):
        (outcome,) = await client.fail_many(
            [Report(event_id=three.id, worker_id="w", fence=three.fence, error_message=f"no {place}")]
        )
        assert outcome.accepted
        taken_again = await client.take(tag, "w", limit=3, wait=10 if place < 2 else 0)
        three = next((event for event in taken_again if event.id == three.id), three)
    assert (await client.event(three.id)).status is Status.FAILED
    assert await client.complete_many([]) == []


# -------------------------------------------------------------------- looking


async def test_events_are_listed_by_page_and_all(client: Client, tag: str):
    created = await client.publish_many([{"tags": tag, "type": "page.turned"}] * 25)
    newest_first = [event.id for event in reversed(created)]
    page = await client.events(tags=tag, limit=10, offset=5)
    assert ([each.id for each in page.events], page.total, page.offset) == (newest_first[5:15], 25, 5)
    assert [each.id async for each in client.every_event(tags=[tag], page=10)] == newest_first
    assert [each.id async for each in client.every_event(tags=tag, page=25)] == newest_first
    assert [each async for each in client.every_event(tags=tag, status=Status.FAILED)] == []
    found = await client.events(tags=tag, status="PENDING", event_type="page.turned")
    assert (found.total, found.events[0].event_type) == (25, "page.turned")
    with pytest.raises(RemoteError, match=r"invalid-query|invalid-request"):
        await client.events(status="SLEEPING")


async def test_operators_see_workers_and_queues(client: Client, tag: str):
    await client.publish(tags=tag)
    await client.take(tag, f"{tag}:1")
    (seen,) = [worker for worker in await client.workers() if worker.worker_id == f"{tag}:1"]
    assert (seen.open_claims, seen.stale) == (1, False)
    assert "work" in {numbers.queue for numbers in await client.stats()}
    assert all(orphan.attempt for orphan in await client.orphans())


# ----------------------------------------------------------------------- keys


async def test_keys_and_scopes(tmp_path: Path):
    with Hub(tmp_path, "hub.db") as locked:
        made = locked.command.json("keys", "create", "mailer", "--scopes", "publish", "--db", "hub.db")
        async with Client(locked.url) as nobody:
            with pytest.raises(Unauthorized) as caught:
                await nobody.publish(tags="a")
            assert caught.value.status == 401
        async with Client(locked.url, key=made["key"]) as mailer:
            await mailer.publish(tags="a")
            with pytest.raises(Forbidden):
                await mailer.take("a", "w")


# -------------------------------------------------------------------- tracing


def span(number: int) -> trace.SpanContext:
    return trace.SpanContext(trace_id=number, span_id=number, is_remote=False, trace_flags=trace.TraceFlags(1))


async def test_the_current_span_goes_with_the_event(client: Client, tag: str):
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(span(0xABC))))
    try:
        event = await client.publish(tags=tag, metadata={"own": "1"}, idempotency_key=f"{tag}-traced")
    finally:
        context.detach(token)
    found = await client.event(event.id)
    assert found.metadata == {"own": "1", "traceparent": f"00-{0xABC:032x}-{0xABC:016x}-01"}
    assert (await client.publish(tags=tag, metadata={"own": "1"}, idempotency_key=f"{tag}-traced")).id == event.id


# --------------------------------------------------------------- wrong addresses


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:8080", "ftp://host", "http://", "http://user:secret@host", "http://host:port", "http://h?a=1"],
)
def test_an_address_that_cannot_work_is_said_at_once(url: str):
    with pytest.raises(SettingsError, match=r"http://127.0.0.1:8080") as caught:
        Client(url)
    assert "secret" not in str(caught.value)


def test_a_key_that_cannot_be_one_is_not_shown():
    with pytest.raises(SettingsError) as caught:
        Client(key="eh_1_two\nlines")
    assert "two" not in str(caught.value)
    with pytest.raises(SettingsError, match="timeout"):
        Client(timeout=0)


async def test_something_else_at_that_address_is_recognised():
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\nconnection: close\r\n\r\n<h1>Hello</h1")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/base/") as client:
        with pytest.raises(RemoteError, match="Check the address"):
            await client.stats()


def test_without_aiohttp_the_error_names_the_package(tmp_path: Path):
    (tmp_path / "aiohttp.py").write_text("raise ImportError('not installed')")
    script = "from eventhub import Client; Client()"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pip install 'eventhub[client]'" in done.stderr


# ------------------------------------------------------------------- blocking


def test_the_blocking_client(hub: Hub, tag: str):
    with blocking.Client(hub.url) as client:
        event = client.publish(tags=tag, payload={"n": 1})
        assert json.dumps(client.event(event.id).payload) == '{"n": 1}'
        assert [each.id for each in client.every_event(tags=tag)] == [event.id]
        (taken,) = client.take(tag, "w")
        assert client.complete(taken, "w").action is Action.COMPLETED
        with pytest.raises(EventNotFound):
            client.event(4711_0000)


def test_a_row_of_the_log_has_all_that_the_hub_tells():
    assert set(LogRow.__struct_fields__) == set(LogBody.__struct_fields__)
