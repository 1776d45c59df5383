"""One connection, one reading of its bytes: whatever could make a body or a rest a request of its own is refused."""

import time
from collections.abc import Callable

import pytest

from tests.http.api import Answer, Wire, head
from tests.http.conftest import Hub

OFFERS = {
    "h2c": ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAA"),
    "websocket": ("Connection: upgrade", "uPgRaDe: websocket"),
    "two lines": ("Connection: keep-alive", "Connection: Upgrade", "Upgrade: x"),
    "alone": ("Upgrade: h2c",),
}


def smuggling(hub: Hub, tag: str, *lines: str) -> tuple[bytes, bytes]:
    """A request, and a body that is one, too."""
    hidden = b'{"tags": "%s"}' % tag.encode()
    body = (
        head("POST", "/events", hub.port, "Content-Type: application/json", f"Content-Length: {len(hidden)}") + hidden
    )
    about = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    return head("POST", "/events/batch", hub.port, *about, *lines), body


def rest_of(wire: Wire) -> bytes:
    """What else comes before the connection ends."""
    return bytes(wire.makefile().read())


Sent = Callable[[bytes, bytes], list[bytes]]
SENT: dict[str, Sent] = {
    "at once": lambda first, body: [first + body],
    "body apart": lambda first, body: [first, body],
    "split in the name": lambda first, body: [*_split(first, b"pgrade"), body],
    "split in the value": lambda first, body: [*_split(first, b"2c"), body],
    "byte by byte": lambda first, body: [bytes([byte]) for byte in first] + [body],
}


def _split(data: bytes, at: bytes) -> list[bytes]:
    place = data.lower().find(at) + 1
    return [data[:place], data[place:]]


@pytest.mark.parametrize("offer", list(OFFERS))
@pytest.mark.parametrize("sent", list(SENT))
def test_an_offer_of_another_protocol_ends_the_connection_and_its_body_is_no_request(
    sqlite_hub: Hub, tag: str, offer: str, sent: str
):
    first, body = smuggling(sqlite_hub, tag, *OFFERS[offer])
    with Wire(sqlite_hub.port) as wire:
        for piece in SENT[sent](first, body):
            wire.send_all_it_takes(piece)
        answer = wire.answer()
        assert (answer.status, answer.kind) == (400, "upgrade")
        assert answer.headers["connection"] == "close"
        assert "HTTP/1.1" in answer.json["detail"]
        assert rest_of(wire) == b""
    assert sqlite_hub.get("/events", tags=tag).json["total"] == 0


@pytest.mark.parametrize("apart", [False, True])
def test_a_pipelined_offer_is_refused_after_what_came_before_it(sqlite_hub: Hub, tag: str, apart: bool):  # noqa: FBT001
    first, body = smuggling(sqlite_hub, tag, *OFFERS["h2c"])
    with Wire(sqlite_hub.port) as wire:
        wire.send(head("GET", f"/events/subscribe?tags={tag}-none&worker_id=w&wait=1", wire.port))
        if apart:
            sqlite_hub.until_waiting(1)
        wire.send(head("GET", "/health", wire.port) + first + body)
        assert [wire.answer().status for _ in range(3)] == [204, 200, 400]
        assert rest_of(wire) == b""
    assert sqlite_hub.get("/events", tags=tag).json["total"] == 0


def test_connect_opens_no_tunnel(sqlite_hub: Hub, tag: str):
    hidden = head("DELETE", f"/events/{tag}", sqlite_hub.port)
    with Wire(sqlite_hub.port) as wire:
        wire.send(head("CONNECT", f"127.0.0.1:{wire.port}", wire.port))
        wire.send_all_it_takes(hidden)
        assert wire.answer().status == 400
        assert rest_of(wire) == b""


def test_no_http_behind_a_request_under_way_is_not_taken_for_its_answer(sqlite_hub: Hub, tag: str):
    with Wire(sqlite_hub.port) as wire:
        wire.send(head("GET", f"/events/subscribe?tags={tag}&worker_id=w&wait=1", wire.port) + b"\x00nonsense\r\n\r\n")
        assert [wire.answer().status for _ in range(2)] == [204, 400]
        assert rest_of(wire) == b""


# ---------------------------------------------------------- what is said twice


@pytest.mark.parametrize(
    "lines",
    [
        ("Idempotency-Key: a", "Idempotency-Key: b"),
        ("Idempotency-Key: a", "Idempotency-Key: a"),
        ("X-Idempotency-Key: a", "X-Idempotency-Key: b"),
        ("Idempotency-Key: a", "X-Idempotency-Key: b"),
        ("Host: evil.example",),
        ("Authorization: Bearer a", "Authorization: Bearer b"),
        ("X-API-Key: a", "X-API-Key: b"),
        ("Content-Type: text/plain",),
        ("Origin: http://a.example", "Origin: http://b.example"),
    ],
)
def test_a_header_that_is_there_twice_is_400(sqlite_hub: Hub, tag: str, lines: tuple[str, ...]):
    body = b'{"tags": "%s"}' % tag.encode()
    about = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    with Wire(sqlite_hub.port) as wire:
        wire.send(head("POST", "/events", wire.port, *about, *lines) + body)
        answer = wire.answer()
    assert (answer.status, answer.kind) == (400, "duplicate-header")
    assert sqlite_hub.get("/events", tags=tag).json["total"] == 0


def test_one_idempotency_key_in_both_spellings_is_one_key(sqlite_hub: Hub, tag: str):
    headers = {"Idempotency-Key": tag, "X-Idempotency-Key": tag}
    statuses = [sqlite_hub.post("/events", {"tags": tag}, headers=headers).status for _ in range(2)]
    assert statuses == [201, 200]


def test_accept_may_be_given_in_several_lines(sqlite_hub: Hub):
    with Wire(sqlite_hub.port) as wire:
        wire.send(head("GET", "/events", wire.port, "Accept: application/json", "Accept: text/html"))
        assert wire.answer().status == 200


# ------------------------------------------------------------- request targets


@pytest.mark.parametrize("length", [9_000, 20_000, 66_000, 100_000, 1_000_000])
@pytest.mark.parametrize("kind", ["path", "query"])
def test_a_url_of_any_length_beyond_the_limit_is_414(sqlite_hub: Hub, length: int, kind: str):
    path = f"/events/{'1' * length}" if kind == "path" else f"/events?tags={'a' * length}"
    with Wire(sqlite_hub.port) as wire:
        wire.send_all_it_takes(head("GET", path, wire.port))
        answer: Answer = wire.answer()
    assert (answer.status, answer.kind) == (414, "url-too-long")


@pytest.mark.parametrize(
    "target",
    [
        "http://evil.example/events",
        "http://evil.example:PORT/events",
        "https://evil.example/events?x",
        "http://127.0.0.1:PORT@evil.example/events",
        "http://127.0.0.1:1/events",
        "//evil.example/events",
    ],
)
def test_a_target_that_names_another_host_is_refused(sqlite_hub: Hub, target: str):
    with Wire(sqlite_hub.port) as wire:
        wire.send(head("GET", target.replace("PORT", str(wire.port)), wire.port))
        answer = wire.answer()
    assert answer.status == (404 if target.startswith("//") else 421)


def test_a_target_that_names_this_host_is_served(sqlite_hub: Hub):
    with Wire(sqlite_hub.port) as wire:
        wire.send(head("GET", f"http://127.0.0.1:{wire.port}/events?limit=1", wire.port))
        assert wire.answer().status == 200


def test_a_foreign_target_under_its_own_host_is_refused(sqlite_hub: Hub):
    with Wire(sqlite_hub.port) as wire:
        wire.send(b"GET http://evil.example/events HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert wire.answer().status == 421


def test_a_refused_connection_is_closed_in_a_moment_though_the_client_keeps_it(sqlite_hub: Hub):
    with Wire(sqlite_hub.port) as wire:
        wire.send(b"nonsense\r\n\r\n")
        assert wire.answer().status == 400
        end = time.monotonic() + 30
        while True:  # what is sent is thrown away, and before long nobody takes it any more
            try:
                wire.send(b"GET /health HTTP/1.1\r\n\r\n")
            except OSError:
                break
            assert time.monotonic() < end, "the connection is never closed"
            time.sleep(0.05)
        assert rest_of_nothing(wire)


def rest_of_nothing(wire: Wire) -> bool:
    try:
        return rest_of(wire) == b""
    except ConnectionResetError:
        return True
