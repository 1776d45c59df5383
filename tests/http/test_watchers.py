"""The parts of the live stream: buffers that stay small, a reader that rests, keys that end, slow clients."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from eventhub.config import Settings
from eventhub.core.events import Action
from eventhub.errors import StoreUnavailable
from eventhub.http import endpoint
from eventhub.http.answers import Answer
from eventhub.http.bodies.live import LiveEntry
from eventhub.http.bodies.overview import Overview
from eventhub.http.dashboard import live
from eventhub.http.dashboard.live import MAX_WATCHERS_OF_KEY, Live, Watcher
from eventhub.http.dashboard.overseer import Overseer
from eventhub.http.endpoint import send_stream
from eventhub.http.limits import DiskReserve
from eventhub.http.problems import Problem
from eventhub.keys import KeyRing
from eventhub.store import Store, open_store
from eventhub.store.values import NewEvent, Route

AT = datetime(2026, 1, 1, tzinfo=UTC)


def entry(number: int) -> LiveEntry:
    return LiveEntry(
        id=number, event_id=number, delivery_id=None, action=Action.PUBLISHED, type="a", worker=None,
        subscriber_id=None, attempt=None, error=None, created_at=AT,
    )  # fmt: skip


def events(sent: bytes) -> Iterator[tuple[str, Any]]:
    for block in sent.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in lines:
            yield lines["event"], json.loads(lines["data"])


async def welcome() -> bool:
    return True


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store(":memory:") as opened:
        yield opened


@pytest.fixture
async def watched(store: Store) -> AsyncIterator[Live]:
    overseer = Overseer(store, Settings(), DiskReserve(None, 0))
    made = Live(store, overseer)
    yield made
    made.stop()
    await overseer.close()


async def publish(store: Store, number: int) -> None:
    await store.publish([NewEvent(type="a", payload="{}", route=Route("work")) for _ in range(number)])


def test_the_oldest_rows_go_when_nobody_takes_them() -> None:
    watcher = Watcher()
    for start in range(0, 1000, 50):
        watcher.tell([entry(number) for number in range(start, start + 50)], 3)
    ((name, told),) = events(watcher.take())
    assert name == "log"
    assert [each["id"] for each in told["entries"]] == list(range(900, 1000))
    assert told["missed"] == 900 + 20 * 3
    assert watcher.take() == b""


def test_of_the_overview_only_the_latest_waits() -> None:
    watcher = Watcher()
    watcher.show(b'{"n":1}')
    watcher.show(b'{"n":2}')
    assert list(events(watcher.take())) == [("overview", {"n": 2})]


async def test_nobody_reads_while_nobody_watches(watched: Live) -> None:
    first, second = watched.join(), watched.join()
    reading = watched._reading
    assert reading is not None
    watched.leave(first)
    assert watched._reading is reading
    watched.leave(second)
    await asyncio.wait([reading])
    assert reading.cancelled()
    assert (vars(watched)["_reading"], len(watched)) == (None, 0)


async def test_whoever_joins_within_a_round_sees_the_rows_that_it_has_told_already(
    store: Store, watched: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, may_look = watched._overseer.look, asyncio.Event()

    async def held() -> Overview:
        await may_look.wait()
        return await look()

    monkeypatch.setattr(watched._overseer, "look", held)
    await publish(store, 1)
    first = watched.join()
    await first.wait(10)
    ((_, told),) = events(first.take())
    second = watched.join()
    assert list(events(second.take())) == [("log", told)]
    may_look.set()
    await second.wait(10)
    assert [name for name, _ in events(second.take())] == ["overview"]


async def test_one_more_than_a_hundred_is_refused_and_none_after_the_stop(watched: Live) -> None:
    watchers = [watched.join() for _ in range(100)]
    with pytest.raises(Problem, match="100 streams") as refused:
        watched.join()
    assert (refused.value.status, refused.value.retry_after) == (503, 30)
    watched.leave(watchers[0])
    watched.join()
    watched.stop()
    watched.leave(watchers[1])
    with pytest.raises(Problem, match="shutting down"):
        watched.join()


async def test_a_client_that_does_not_read_misses_rows_and_holds_up_nobody(
    store: Store, watched: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "READ_EVERY", 0.01)
    monkeypatch.setattr(live, "READ_SHARE", 0)
    may_go_on, sent = asyncio.Event(), bytearray()

    async def send(message: Any) -> None:
        sent.extend(message.get("body", b""))
        if b"event: overview" in sent:
            await may_go_on.wait()

    async def receive() -> Any:
        return await asyncio.get_running_loop().create_future()

    slow, quick = watched.join(), watched.join()
    stream = watched.stream(slow, welcome, None)
    answer = Answer(200, content_type=b"text/event-stream", stream=stream, ended=lambda: watched.leave(slow))
    sending = asyncio.create_task(send_stream(answer, stream, receive, send))
    read = 0
    for _ in range(30):  # more than any buffer holds
        await publish(store, 50)
        seen = 0
        while seen < 50:
            await quick.wait(5)
            seen += sum(len(told["entries"]) + told["missed"] for name, told in events(quick.take()) if name == "log")
        read += seen
    assert read == 1500
    assert len(slow._entries) == 100
    may_go_on.set()
    slow.end()
    await asyncio.wait_for(sending, 30)
    assert len(watched) == 1


async def test_rows_that_were_lost_on_the_way_are_counted(store: Store, watched: Live) -> None:
    watcher = watched.join()
    await watcher.wait(5)
    watcher.take()
    await publish(store, 250)
    told: list[Any] = []
    while not told:
        await watcher.wait(5)
        told = [data for name, data in events(watcher.take()) if name == "log"]
    assert (len(told[0]["entries"]), told[0]["missed"]) == (100, 150)


async def test_a_stream_ends_when_its_key_does(store: Store, watched: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "ALIVE_EVERY", 0.02)
    ring = KeyRing(store, b"s" * 32)
    key, _ = await ring.create("anna", ["read"])

    async def is_welcome() -> bool:
        return await ring.named(key.id) is not None

    pieces = watched.stream(watched.join(), is_welcome, None)
    for _ in range(20):
        await anext(pieces)
    await ring.revoke(key.id)
    async with asyncio.timeout(30):
        async for _ in pieces:
            pass
    await ring.close()


async def test_a_client_that_hangs_up_leaves(watched: Live) -> None:
    watcher = watched.join()
    told = asyncio.Event()

    async def send(_: Any) -> None:
        told.set()

    async def receive() -> Any:
        await told.wait()
        return {"type": "http.disconnect"}

    stream = watched.stream(watcher, welcome, None)
    answer = Answer(200, content_type=b"text/event-stream", stream=stream, ended=lambda: watched.leave(watcher))
    await asyncio.wait_for(send_stream(answer, stream, receive, send), 5)
    assert len(watched) == 0


async def never(_: Any = None) -> Any:
    return await asyncio.get_running_loop().create_future()


def stalled(watched: Live) -> Answer:
    """The stream of a client that takes nothing of it."""
    watcher = watched.join()
    stream = watched.stream(watcher, welcome, None)
    return Answer(
        200, content_type=b"text/event-stream", stream=stream, stop=watcher.over, ended=lambda: watched.leave(watcher)
    )


async def test_a_client_that_takes_nothing_for_long_loses_its_place(
    watched: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "STALLED_SECONDS", 0.01)
    answer, begun = stalled(watched), asyncio.Event()
    assert answer.stream is not None

    async def send(message: Any) -> None:
        if begun.is_set():  # the head gets through, nothing else does
            await never()
        begun.set()

    await asyncio.wait_for(endpoint.send_stream(answer, answer.stream, never, send), 5)
    assert len(watched) == 0


async def test_a_client_that_takes_nothing_does_not_hold_up_the_end_of_the_server(
    watched: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "LAST_SECONDS", 0.01)
    answer = stalled(watched)
    assert answer.stream is not None
    sending = asyncio.create_task(endpoint.send_stream(answer, answer.stream, never, never))
    await asyncio.sleep(0)
    watched.stop()
    await asyncio.wait_for(sending, 30)
    assert len(watched) == 0


async def test_while_the_database_is_away_a_stream_goes_on(watched: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "ALIVE_EVERY", 0.01)
    asked = 0

    async def nobody_knows() -> bool:
        nonlocal asked
        asked += 1
        raise StoreUnavailable("away")

    pieces = watched.stream(watched.join(), nobody_knows, None)
    async with asyncio.timeout(30):
        while asked < 3:
            await anext(pieces)
    await pieces.aclose()


async def test_a_key_has_a_limited_number_of_streams(watched: Live):
    mine = [watched.join("key") for _ in range(MAX_WATCHERS_OF_KEY)]
    with pytest.raises(Problem) as caught:
        watched.join("key")
    assert (caught.value.status, caught.value.kind) == (429, "too-many-watchers")
    watched.join("other")
    watched.leave(mine[0])
    watched.join("key")
