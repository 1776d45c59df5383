"""The consumer that judges order: it sees what is wrong, and does not cry when all is well."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from eventhub.testing.torture.children import until
from tests.crash.consumer import Consumer


@pytest.fixture
async def consumer() -> AsyncIterator[Consumer]:
    async with Consumer(lambda _: None, key_of=lambda arrival: str(arrival.payload)) as running:
        yield running


class Sender:
    """One connection to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def send(self, consumer: Consumer, message: int, key: str) -> None:
        """Send a request and see it arrive."""
        before = len(consumer.arrivals)
        body = f'"{key}"'
        head = f"POST /hook HTTP/1.1\r\nhost: a\r\nwebhook-id: msg_x_{message}\r\ncontent-length: {len(body)}\r\n\r\n"
        self.writer.write((head + body).encode())
        await until(lambda: len(consumer.arrivals) > before, 10.0, "the arrival")

    async def answer(self) -> bytes:
        return await self._reader.readuntil(b"\r\n\r\n")


@pytest.fixture
async def senders(consumer: Consumer) -> AsyncIterator[list[Sender]]:
    host, _, port = consumer.url("").removeprefix("http://").partition(":")
    dialled = [Sender(*await asyncio.open_connection(host, int(port))) for _ in range(2)]
    yield dialled
    for sender in dialled:
        sender.writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await sender.writer.wait_closed()


async def test_one_after_the_other_is_in_order(consumer: Consumer, senders: list[Sender]) -> None:
    sender = senders[0]
    for message, status in ((1, 500), (1, 200), (2, 200), (7, 200), (2, 200)):
        await sender.send(consumer, message, "a")
        consumer.arrivals[-1].reply(status)
        assert str(status).encode() in await sender.answer()
    assert consumer.violations == []
    assert consumer.delivered == 3
    assert [arrival.message for arrival in consumer.first["/hook", "a"]] == [1, 2, 7]


async def test_two_of_a_key_at_once_are_seen(consumer: Consumer, senders: list[Sender]) -> None:
    one, two = senders
    await one.send(consumer, 1, "a")
    await two.send(consumer, 2, "b")
    assert consumer.violations == []
    consumer.arrivals[-1].reply()
    await two.answer()
    await two.send(consumer, 3, "a")
    assert len(consumer.violations) == 1
    assert "under way" in consumer.violations[0]


async def test_one_that_comes_for_the_first_time_after_a_later_one_is_seen(
    consumer: Consumer, senders: list[Sender]
) -> None:
    sender = senders[0]
    for message in (2, 1):
        await sender.send(consumer, message, "a")
        consumer.arrivals[-1].reply()
        await sender.answer()
    assert len(consumer.violations) == 1
    assert "came after" in consumer.violations[0]


async def test_the_end_of_a_connection_ends_its_request(consumer: Consumer, senders: list[Sender]) -> None:
    one, two = senders
    await one.send(consumer, 1, "a")
    one.writer.transport.abort()
    await two.send(consumer, 1, "a")
    assert consumer.violations == []
    await until(lambda: not consumer.arrivals[0].open, 10.0, "the end of the first")
    assert consumer.arrivals[0].status is None
