"""security.md, the lines about the connection itself: URLs, headers and requests that never end; no HTTP at all."""

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.http.api import Answer, Wire, head
from tests.http.conftest import Hub, MakeHub

HEADER_SECONDS = 10.0


def ask(hub: Hub, data: bytes) -> Answer:
    with Wire(hub.port) as wire:
        wire.send_all_it_takes(data)
        return wire.answer()


# ----------------------------------------------------------------- 414 and 431


@pytest.mark.parametrize("length", [8_200, 20_000, 60_000])
def test_a_long_url_is_414(sqlite_hub: Hub, length: int):
    for path in (f"/events?tags={'a' * length}", f"/events/{'1' * length}"):
        answer = ask(sqlite_hub, head("GET", path, sqlite_hub.port))
        assert (answer.status, answer.kind) == (414, "url-too-long")


def test_a_url_that_never_ends_is_414(sqlite_hub: Hub):
    answer = ask(sqlite_hub, b"GET /events?tags=" + b"a" * 70_000)
    assert (answer.status, answer.kind) == (414, "url-too-long")


def test_a_url_just_within_the_limit_is_read(sqlite_hub: Hub):
    tags = ",".join(["a" * 100] * 80)
    assert sqlite_hub.get(f"/events?tags={tags}").status == 200


@pytest.mark.parametrize(
    "lines", [[f"X-Large: {'a' * 40_000}"], [f"X-{n}: {'a' * 90}" for n in range(400)], [f"Cookie: {'c' * 60_000}"]]
)
def test_large_headers_are_431(sqlite_hub: Hub, lines: list[str]):
    answer = ask(sqlite_hub, head("GET", "/events", sqlite_hub.port, *lines))
    assert (answer.status, answer.kind) == (431, "headers-too-large")


@pytest.mark.parametrize("part", [b"X-Large: " + b"a" * 70_000, b"X: y\r\n" * 15_000])
def test_headers_that_never_end_are_431(sqlite_hub: Hub, part: bytes):
    answer = ask(sqlite_hub, f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{sqlite_hub.port}\r\n".encode() + part)
    assert (answer.status, answer.kind) == (431, "headers-too-large")


# ------------------------------------------------------------------------ 408


def test_whoever_does_not_finish_the_headers_gets_408(sqlite_hub: Hub, tag: str):
    """Four at once, for it takes ten seconds: silent, stuck, dripping, and stuck behind a request that is under way."""
    port = sqlite_hub.port
    begun = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode()
    stop = threading.Event()

    def drip(wire: Wire) -> None:
        while not stop.wait(0.2):
            wire.send_all_it_takes(b"X-Drop: 1\r\n")

    started = time.monotonic()
    with Wire(port) as silent, Wire(port) as stuck, Wire(port) as dripping, Wire(port) as behind:
        stuck.send(begun)
        dripping.send(begun)
        behind.send(head("GET", f"/events/subscribe?tags={tag}&worker_id=w&wait=12", port))
        sqlite_hub.until_waiting(1)
        behind.send(begun)
        with ThreadPoolExecutor(4) as pool:
            dripped = pool.submit(drip, dripping)
            answers = [one.result() for one in [pool.submit(wire.answer) for wire in (silent, stuck, dripping)]]
            spent = time.monotonic() - started
            stop.set()
            dripped.result()
        assert [answer.status for answer in answers] == [408] * 3
        assert {answer.kind for answer in answers} == {"too-slow"}
        assert {answer.headers["connection"] for answer in answers} == {"close"}
        assert HEADER_SECONDS - 1 < spent < HEADER_SECONDS + 8
        assert behind.answer().status == 204  # its own answer, not that of the request behind it


def test_whoever_does_not_finish_the_body_gets_408(make_hub: MakeHub, tag: str):
    hub = make_hub("sqlite", "--request-seconds", "0.5")
    whole = b'{"tags": "%s"}' % tag.encode()
    unfinished: list[tuple[tuple[str, ...], bytes]] = [
        (("Content-Length: 100",), b""),
        (("Content-Length: 100",), whole),
        (("Transfer-Encoding: chunked",), b"5\r\n{    \r\n"),
    ]
    for lines, body in unfinished:
        answer = ask(hub, head("POST", "/events", hub.port, "Content-Type: application/json", *lines) + body)
        assert (answer.status, answer.kind) == (408, "too-slow")
    with Wire(hub.port) as dripping:
        dripping.send(head("POST", "/events", hub.port, "Content-Type: application/json", "Content-Length: 10000"))
        end = time.monotonic() + 20
        with ThreadPoolExecutor(1) as pool:
            answer_soon = pool.submit(dripping.answer)
            while not answer_soon.done():
                assert time.monotonic() < end, "a body may drip for ever"
                dripping.send_all_it_takes(b" ")
                time.sleep(0.05)  # that is how a slow client sends
            assert answer_soon.result().status == 408
    assert hub.get("/events", tags=tag).json["total"] == 0


# ------------------------------------------------------------------ other bytes


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40,
        b"HELO mail.example\r\n\r\n",
        b"GET /events\r\n\r\n",
        b"GET /events HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /events HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
        b"GET /events HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
        b"GET /ev ents HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /events HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
    ],
)
def test_bytes_that_are_no_http_are_400_and_the_connection_ends(sqlite_hub: Hub, data: bytes):
    answer = ask(sqlite_hub, data)
    assert answer.status in (400, 415, 421)
    assert sqlite_hub.get("/health").status == 200


def test_a_request_without_a_host_is_refused(sqlite_hub: Hub):
    assert ask(sqlite_hub, b"GET /events HTTP/1.1\r\n\r\n").status in (400, 421)


def test_headers_with_line_breaks_in_them_reach_nothing(sqlite_hub: Hub, tag: str):
    data = head("GET", f"/events?tags={tag}%0d%0aX-Evil:%201", sqlite_hub.port)
    answer = ask(sqlite_hub, data)
    assert answer.status == 400
    assert "x-evil" not in answer.headers


def test_pipelined_requests_are_answered_in_their_order(sqlite_hub: Hub, tag: str):
    port = sqlite_hub.port
    body = b'{"tags": "%s"}' % tag.encode()
    post = head("POST", "/events", port, "Content-Type: application/json", f"Content-Length: {len(body)}") + body
    with Wire(port) as wire:
        wire.send(post + head("GET", "/health", port) + post)
        assert [wire.answer().status for _ in range(3)] == [201, 200, 201]


def test_no_answer_tells_which_program_gave_it(sqlite_hub: Hub):
    for path in ("/events", "/nothing"):
        headers = sqlite_hub.get(path).headers
        assert "server" not in headers
        assert "x-powered-by" not in headers
        assert headers.get("x-content-type-options") == "nosniff"


def test_an_error_is_never_a_trace(sqlite_hub: Hub):
    """Every answer of these tests is looked through for traces, SQL and secrets; here is a handful by name."""
    for answer in (sqlite_hub.get("/nothing"), sqlite_hub.post("/events", [1]), sqlite_hub.get("/events?limit=x")):
        assert not re.search(r"Traceback|File|line \d+", answer.raw.decode())
