"""The live stream over a real connection: what arrives, who may watch, how it ends."""

import contextlib
import json
import signal
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from tests.http.conftest import Hub, MakeHub


class Stream:
    """An open stream, read event by event."""

    def __init__(self, hub: Hub, **headers: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", hub.port, timeout=20)
        sent = {"Authorization": f"Bearer {hub.key}"} if hub.key else {}
        self._connection.request("GET", "/live", headers=sent | headers)
        self.response: HTTPResponse = self._connection.getresponse()

    def events(self) -> Iterator[tuple[str, Any]]:
        """Names and data, until the stream ends; comments are passed over."""
        name, data = "", ""
        while line := self.response.readline().decode():
            field, _, value = line.rstrip("\n").partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                data = value
            elif not field and name:
                yield name, json.loads(data)
                name, data = "", ""

    def until(self, name: str, wanted: Any) -> Any:
        for found, data in self.events():
            if found == name and wanted(data):
                return data
        raise AssertionError("the stream has ended")

    def close(self) -> None:
        self.response.close()
        self._connection.close()


@contextlib.contextmanager
def watching(hub: Hub, number: int = 1) -> Iterator[list[Stream]]:
    streams = [Stream(hub) for _ in range(number)]
    try:
        yield streams
    finally:
        for stream in streams:
            stream.close()


def test_what_happens_is_told_as_it_happens(hub: Hub, tag: str) -> None:
    with watching(hub) as (stream,):
        assert stream.response.status == 200
        assert stream.response.headers["content-type"] == "text/event-stream"
        assert stream.response.headers["cache-control"] == "no-store"
        first = stream.until("overview", lambda _: True)
        assert first.keys() == hub.get("/overview").json.keys()
        event = hub.publish(title="x", tags=tag, event_type=f"order.{tag}")
        told = stream.until("log", lambda data: any(e["event_id"] == event["id"] for e in data["entries"]))
        (entry,) = [entry for entry in told["entries"] if entry["event_id"] == event["id"]]
        assert (entry["action"], entry["type"], entry["worker"]) == ("PUBLISHED", f"order.{tag}", None)
        hub.taken(tag, worker="watched")
        told = stream.until("log", lambda data: any(e["worker"] == "watched" for e in data["entries"]))
        assert [entry["attempt"] for entry in told["entries"] if entry["worker"] == "watched"] == [1]


def test_whoever_comes_later_sees_what_was_last(hub: Hub, tag: str) -> None:
    with watching(hub) as (first,):
        event = hub.publish(title="x", tags=tag)
        first.until("log", lambda data: any(e["event_id"] == event["id"] for e in data["entries"]))
        with watching(hub) as (second,):
            second.until("log", lambda data: any(e["event_id"] == event["id"] for e in data["entries"]))


def test_a_stream_may_be_short(sqlite_hub: Hub) -> None:
    started = time.monotonic()
    answer = sqlite_hub.get("/live", seconds=0.2)
    assert answer.raw.startswith(b"retry: 2000\n\n")
    assert time.monotonic() - started < 5
    assert sqlite_hub.get("/live", seconds=0).status == 400
    assert sqlite_hub("HEAD", "/live").status == 405
    assert sqlite_hub("GET", "/live", headers={"Accept": "application/json"}).status == 406


def test_streams_end_at_once_when_the_server_stops(make_hub: MakeHub) -> None:
    hub = make_hub("sqlite", "--workers", "2")
    with watching(hub, 6) as streams:
        for stream in streams:
            stream.until("overview", lambda _: True)
        started = time.monotonic()
        hub.server.send(signal.SIGTERM)
        for stream in streams:
            assert [name for name, _ in stream.events() if name not in ("overview", "log")] == []
        assert hub.server.wait() == 0
        assert time.monotonic() - started < 5
    assert "Traceback" not in hub.server.log()


def test_a_hundred_may_watch_a_process(make_hub: MakeHub) -> None:
    hub = make_hub()
    with watching(hub, 100) as streams:
        refused = hub.get("/live", seconds=0.01)
        assert (refused.status, refused.kind) == (503, "too-many-watchers")
        assert int(refused.headers["retry-after"]) >= 1
        assert hub.get("/overview").status == 200
        streams.pop().close()
        hub.until("/session", lambda _: hub.get("/live", seconds=0.01).status == 200)


def test_a_page_from_elsewhere_may_not_watch(sqlite_hub: Hub) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert sqlite_hub("GET", "/live", headers=headers).status == 403
