"""SIGTERM: nobody is left waiting, what is under way is finished, a second one ends it at once."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.http.api import Wire, head
from tests.http.conftest import Hub, MakeHub
from tests.http.server import until_refused


def begin_to_publish(hub: Hub, body: bytes) -> Wire:
    """A request that is under way: its headers and the first half of its body are there."""
    wire = Wire(hub.port)
    lines = ("Content-Type: application/json", f"Content-Length: {len(body)}", "Expect: 100-continue")
    wire.send(head("POST", "/events", hub.port, *lines))
    assert wire.line() == b"HTTP/1.1 100 Continue"  # so it is being read now
    assert wire.line() == b""
    wire.send(body[: len(body) // 2])
    return wire


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], scope="function")
def test_waiting_workers_are_told_that_there_is_nothing_and_the_process_exits_with_0(
    make_hub: MakeHub, engine: str, tag: str
):
    hub = make_hub(engine)
    with ThreadPoolExecutor(20) as pool:
        waiting = [
            pool.submit(
                hub.get, "/events/subscribe", tags=tag, worker_id=f"w{n}", wait=60, **({"limit": 5} if n % 2 else {})
            )
            for n in range(20)
        ]
        hub.until_waiting(20)
        started = time.monotonic()
        hub.server.send(signal.SIGTERM)
        answers = [each.result(timeout=10) for each in waiting]
        assert hub.server.wait(10) == 0
        assert time.monotonic() - started < 8
    assert [answer.status for answer in answers] == [200 if n % 2 else 204 for n in range(20)]
    assert all(answer.json == {"events": []} for answer in answers[1::2])


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], scope="function")
def test_a_request_under_way_is_finished(make_hub: MakeHub, engine: str, tag: str):
    hub = make_hub(engine)
    body = b'{"tags": "%s", "payload": "the last one"}' % tag.encode()
    with begin_to_publish(hub, body) as wire:
        hub.server.send(signal.SIGTERM)
        until_refused(hub.port)
        wire.send(body[len(body) // 2 :])
        answer = wire.answer()
    assert answer.status == 201
    assert hub.server.wait(10) == 0
    hub.server.start()
    assert hub.event(answer.json["id"])["payload"] == "the last one"


def test_a_second_signal_ends_it_at_once(make_hub: MakeHub, tag: str):
    hub = make_hub("sqlite")
    body = b'{"tags": "%s"}' % tag.encode()
    with begin_to_publish(hub, body):
        hub.server.send(signal.SIGTERM)
        until_refused(hub.port)
        started = time.monotonic()
        hub.server.send(signal.SIGTERM)
        assert hub.server.wait(5) != 0
        assert time.monotonic() - started < 4


def test_an_unfinished_request_holds_it_no_longer_than_it_may(make_hub: MakeHub, tag: str):
    hub = make_hub("sqlite", "--shutdown-seconds", "1")
    with begin_to_publish(hub, b'{"tags": "%s"}' % tag.encode()):
        hub.server.send(signal.SIGTERM)
        hub.server.wait(10)
    hub.server.start()
    assert hub.get("/events", tags=tag).json["total"] == 0


def test_an_idle_connection_does_not_hold_it(make_hub: MakeHub):
    hub = make_hub("sqlite")
    with Wire(hub.port) as idle, Wire(hub.port) as used:
        used.send(head("GET", "/health", hub.port))
        assert used.answer().status == 200
        hub.server.send(signal.SIGTERM)
        assert hub.server.wait(5) == 0
        idle.hang_up()


def test_two_processes_share_a_port_and_end_together(make_hub: MakeHub, tag: str):
    hub = make_hub("sqlite", "--workers", "2")
    ids = [hub.publish(tags=tag)["id"] for _ in range(10)]
    for _ in ids:
        hub.complete(hub.taken(tag, "w")["id"], "w")
    assert hub.get("/events", tags=tag, status="COMPLETED").json["total"] == 10
    hub.server.send(signal.SIGTERM)
    assert hub.server.wait(15) == 0
    until_refused(hub.port)
