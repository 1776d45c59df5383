"""Sending to receivers that behave well, badly, and very badly: whatever they do, there is an answer in time."""

import asyncio
import gzip
import time
from email.utils import formatdate
from typing import Any

import pytest

from eventhub.core.verdicts import NETWORK, TIMEOUT
from eventhub.hub.connections import LARGEST_BODY
from eventhub.hub.destinations import Destinations
from eventhub.hub.sending import UNSENT, Sender, WebhookAnswer, WebhookRequest, retry_after
from tests.hub.sending.receiver import OK, Receiver, reset, then_close, then_drip, then_flood, then_silence

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
SHORT = 1.0
"""Seconds for a whole request: enough to connect on a busy machine."""


def request(url: str, **changes: Any) -> WebhookRequest:
    fields: dict[str, Any] = {
        "headers": {"content-type": "application/json", "webhook-id": "msg_1"},
        "body": b'{"a":1}',
    }
    return WebhookRequest(url, **{**fields, "total_timeout": 5.0, **changes})


async def test_a_request_arrives_whole_and_its_answer_comes_back(sender: Sender):
    answer = b"HTTP/1.1 202 Accepted\r\nX-A: 1\r\nx-a: 2\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nfine"
    async with Receiver(answer) as receiver:
        got = await sender.send(request(receiver.url))
    assert (got.status, got.failure, got.body) == (202, None, b"fine")
    assert got.headers == {"x-a": "1, 2", "content-type": "text/plain", "content-length": "4"}
    assert got.dns_ms is not None
    assert got.connect_ms is not None
    assert got.first_byte_ms is not None
    assert 0 < got.first_byte_ms <= got.total_ms
    first, headers, body = receiver.requests[0]
    assert first == "POST /hook?a=b HTTP/1.1"
    assert body == b'{"a":1}'
    assert headers["host"] == f"127.0.0.1:{receiver.port}"
    assert headers["accept-encoding"] == "identity"
    assert headers["webhook-id"] == "msg_1"
    assert headers["user-agent"].startswith("eventhub/")


async def test_connections_are_kept_and_used_again(sender: Sender):
    async with Receiver() as receiver:
        for _ in range(3):
            got = await sender.send(request(receiver.url))
            assert got.status == 200
        assert got.connect_ms is None
        assert receiver.connections == 1
        assert {(await each).status for each in [sender.send(request(receiver.url)) for _ in range(3)]} == {200}
        await asyncio.gather(*(sender.send(request(receiver.url)) for _ in range(5)))
    assert len(receiver.requests) == 11
    assert receiver.connections <= 5


async def test_a_large_request_is_sent_whole(sender: Sender):
    body = b"x" * 3_000_000
    async with Receiver() as receiver:
        assert (await sender.send(request(receiver.url, body=body))).status == 200
    assert receiver.requests[0][2] == body


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ZIPPED = gzip.compress(b"abc", mtime=0)
PROPER: dict[str, tuple[bytes, int, bytes]] = {
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, b""),
    "gone": (b"HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\ngone", 410, b"gone"),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", 304, b""),
    "chunks and a trailer": (CHUNKED + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-T: u\r\n\r\n", 200, b"abcde"),
    "hints first": (b"HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + OK, 200, b"ok"),
    "an odd status": (b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", 999, b""),
    "compressed": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(ZIPPED), ZIPPED),
        200,
        ZIPPED,
    ),
}


@pytest.mark.parametrize("name", PROPER)
async def test_every_proper_answer_is_understood_and_the_connection_kept(sender: Sender, name: str):
    answer, status, body = PROPER[name]
    async with Receiver(answer) as receiver:
        for _ in range(2):
            got = await sender.send(request(receiver.url))
            assert (got.status, got.failure, got.body) == (status, None, body)
        assert not {"x-t", "link"} & set(got.headers)
        assert receiver.connections == 1


FULL = b"x" * LARGEST_BODY
CHUNK = b"4000\r\n" + b"x" * 16_384 + b"\r\n"
LAST: dict[str, tuple[Any, int, bytes | None]] = {
    "told so": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
    "old HTTP": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
    "another protocol": (b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n\x81\x05hello", 101, b""),
    "two answers": (HEAD + b"helloHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b"hello"),
    "more than it said": (HEAD + b"hello, and more", 200, b"hello"),
    "too large": (b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + b"x" * 99_999, 200, FULL),
    "up to the end": (then_close(b"HTTP/1.1 200 OK\r\n\r\nuntil the end"), 200, b"until the end"),
    "endless chunks": (then_flood(CHUNKED, CHUNK), 200, FULL),
    "endless": (then_flood(b"HTTP/1.1 500 No\r\n\r\n", b"x" * 9999), 500, FULL),
    "endless extensions": (then_flood(CHUNKED, b"1;" + b"e" * 9999 + b"\r\nx\r\n"), 200, None),
}


@pytest.mark.parametrize("name", LAST)
async def test_after_these_answers_the_connection_is_not_used_again(sender: Sender, name: str):
    answer, status, body = LAST[name]
    async with Receiver(answer, OK) as receiver:
        got = await sender.send(request(receiver.url))
        assert got.status == status
        assert got.body == body or (body is None and len(got.body) < 100)
        assert (await sender.send(request(receiver.url))).status == 200
        assert receiver.connections == 2


NO_ANSWERS = {
    "nothing": b"",
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "a page": b"<html>hello</html>\r\n\r\n",
    "no number": b"HTTP/1.1 abc OK\r\n\r\n",
    "a short number": b"HTTP/1.1 99 OK\r\n\r\n",
    "half the headers": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
    "less than nothing": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
    "beyond all numbers": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
    "bad chunks": CHUNKED + b"zz\r\n",
    "half a chunk": CHUNKED + b"9\r\nabc",
    "a bad name": b"HTTP/1.1 200 OK\r\nX\x00Y: 1\r\n\r\n",
    "half the body": b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
    "a large header": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 40_000,
    "endless hints": b"HTTP/1.1 100 Continue\r\n\r\n" * 2000,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00",
}


@pytest.mark.parametrize("name", NO_ANSWERS)
async def test_what_is_no_answer_is_a_failure_of_the_network(sender: Sender, name: str):
    async with Receiver(then_close(NO_ANSWERS[name])) as receiver:
        got = await sender.send(request(receiver.url))
    assert (got.status, got.failure) == (None, NETWORK)
    assert got.error is not None
    assert got.error.startswith(f"127.0.0.1:{receiver.port}: ")
    assert "hook" not in got.error


async def test_a_connection_that_is_reset_or_refused_is_a_failure_of_the_network(sender: Sender):
    async with Receiver(reset) as receiver:
        got = await sender.send(request(receiver.url))
        assert (got.status, got.failure) == (None, NETWORK)
    got = await sender.send(request(receiver.url))
    assert (got.status, got.failure) == (None, NETWORK)
    assert got.error is not None
    assert "refused" in got.error.lower() or "connect" in got.error.lower()


SLOW = {
    "silence": (then_silence(), "no answer"),
    "half the headers": (then_silence(b"HTTP/1.1 200 OK\r\nContent-Le"), "no answer"),
    "half the body": (then_silence(HEAD + b"hel"), "HTTP 200"),
    "half a chunk": (then_silence(CHUNKED + b"9\r\nabc"), "HTTP 200"),
    "a dripping body": (then_drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"), "HTTP 200"),
    "a dripping body without an end": (then_drip(b"HTTP/1.1 200 OK\r\n\r\n", b"x"), "HTTP 200"),
    "dripping headers": (then_drip(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"), "no answer"),
    "dripping hints": (then_drip(b"", b"HTTP/1.1 102 Processing\r\n\r\n"), "no answer"),
}


@pytest.mark.parametrize("name", SLOW)
async def test_the_time_is_bounded_however_slowly_the_answer_drips(sender: Sender, name: str):
    behaviour, words = SLOW[name]
    async with Receiver(behaviour) as receiver:
        began = time.monotonic()
        got = await sender.send(request(receiver.url, total_timeout=SHORT))
        assert time.monotonic() - began < SHORT + 2
        assert (got.status, got.failure) == (None, TIMEOUT)
        assert words in (got.error or "")
        await asyncio.wait_for(receiver.hung_up.wait(), 5)


async def test_a_redirect_is_an_answer_and_nobody_goes_there(sender: Sender):
    async with Receiver() as elsewhere:
        moved = f"HTTP/1.1 307 Moved\r\nLocation: {elsewhere.url}\r\nContent-Length: 0\r\n\r\n".encode()
        async with Receiver(moved) as receiver:
            got = await sender.send(request(receiver.url))
        assert got.status == 307
        assert got.headers["location"] == elsewhere.url
    assert elsewhere.connections == 0


async def test_proxies_of_the_environment_are_not_used(sender: Sender, monkeypatch: pytest.MonkeyPatch):
    async with Receiver() as proxy, Receiver() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert (await sender.send(request(receiver.url))).status == 200
    assert proxy.connections == 0


async def test_cookies_are_not_sent_back(sender: Sender):
    async with Receiver(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n") as receiver:
        for _ in range(2):
            await sender.send(request(receiver.url))
    assert all("cookie" not in headers for _, headers, _ in receiver.requests)


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "a\rb", "a\x00b", "☃"], ids=ascii)
async def test_a_header_that_would_break_the_request_is_not_sent(sender: Sender, value: str):
    async with Receiver() as receiver:
        got = await sender.send(request(receiver.url, headers={"x-a": value}))
    assert got.failure == NETWORK
    assert receiver.connections == 0


async def test_a_request_over_a_kept_connection_that_breaks_is_not_sent_again_by_itself(sender: Sender):
    async with Receiver(OK, then_close(b""), OK) as receiver:
        assert (await sender.send(request(receiver.url))).status == 200
        assert (await sender.send(request(receiver.url))).failure == NETWORK
        assert (receiver.connections, len(receiver.requests)) == (1, 2)


async def test_a_connection_that_was_closed_before_it_was_asked_costs_nothing(sender: Sender):
    async with Receiver(then_close(OK), OK) as receiver:
        assert (await sender.send(request(receiver.url))).status == 200
        assert sender._pool is not None
        (kept,) = sender._pool._idle.get(("http", "127.0.0.1", receiver.port), [None])
        async with asyncio.timeout(30):
            while kept is not None and kept.reusable:  # noqa: ASYNC110 - a connection tells nobody
                await asyncio.sleep(0.005)
        assert (await sender.send(request(receiver.url))).status == 200
        assert (receiver.connections, len(receiver.requests)) == (2, 2)


async def test_what_broke_one_kept_connection_is_not_met_on_the_others(sender: Sender):
    async with Receiver(OK, OK, then_close(b""), OK) as receiver:
        await asyncio.gather(*(sender.send(request(receiver.url)) for _ in range(2)))
        assert receiver.connections == 2
        assert (await sender.send(request(receiver.url))).failure == NETWORK
        assert (await sender.send(request(receiver.url))).status == 200
        assert receiver.connections == 3


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 4.9, 5.0])
async def test_nothing_is_sent_for_a_claim_that_ends_before_the_answer_may_come(sender: Sender, seconds: float):
    async with Receiver(OK) as receiver:
        assert (await sender.send(request(receiver.url, until=time.monotonic() + seconds))).failure == UNSENT
        assert receiver.connections == 0
        assert (await sender.send(request(receiver.url, until=time.monotonic() + 60.0))).status == 200


async def test_a_process_that_was_held_up_while_it_connected_sends_nothing(sender: Sender):
    async with Receiver(OK) as receiver:
        connect = sender._connect

        async def held_up(*arguments: Any) -> Any:
            connection = await connect(*arguments)
            time.sleep(0.3)  # noqa: ASYNC251 - nothing of this process runs meanwhile, as when it is stopped
            return connection

        sender._connect = held_up  # type: ignore[assignment,method-assign]
        assert (await sender.send(request(receiver.url, total_timeout=0.3))).failure == TIMEOUT
        assert not receiver.requests


async def test_an_answer_that_had_begun_is_not_asked_for_again(sender: Sender):
    async with Receiver(OK, then_close(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel"), OK) as receiver:
        assert (await sender.send(request(receiver.url))).status == 200
        assert (await sender.send(request(receiver.url))).failure == NETWORK
        assert len(receiver.requests) == 2


async def test_whoever_is_cancelled_leaves_no_connection_behind(sender: Sender):
    async with Receiver(then_silence(), OK) as receiver:
        task = asyncio.create_task(sender.send(request(receiver.url)))
        await asyncio.wait_for(receiver.asked.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(receiver.hung_up.wait(), 5)
        assert (await sender.send(request(receiver.url))).status == 200


async def test_more_than_the_limit_wait_for_their_turn():
    sender = Sender(Destinations.parse(["127.0.0.0/8"]), limit=2)
    await sender.start()
    together = most = 0

    async def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0.02)
        together -= 1
        writer.write(OK)

    async with Receiver(count) as receiver:
        answers: list[WebhookAnswer] = await asyncio.gather(*(sender.send(request(receiver.url)) for _ in range(8)))
        await sender.close()
    assert [answer.status for answer in answers] == [200] * 8
    assert most == 2


NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        (" 7 ", 7),
        (formatdate(NOW + 90, usegmt=True), 90),
        (formatdate(NOW - 90, usegmt=True), 0),
        ("Fri, 15 Jan 2027 08:01:30 -0000", 90),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("٣", None),
        ("9" * 30, None),
        ("Fri, 99 Foo 20270 08:01:30 GMT", None),
        ("120, 60", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, seconds: float | None):
    assert retry_after(value, NOW) == seconds


async def test_retry_after_comes_with_the_answer(sender: Sender):
    async with Receiver(b"HTTP/1.1 503 Busy\r\nRetry-After: 17\r\nContent-Length: 0\r\n\r\n") as receiver:
        assert (await sender.send(request(receiver.url))).retry_after == 17
