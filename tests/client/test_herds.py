"""Many who lost the same hub at the same moment come back one by one."""

import asyncio
from statistics import quantiles

import pytest

from eventhub import Client
from eventhub.errors import EventHubError
from eventhub.handling.backoff import Backoff

WORKERS = 500
AWAY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
BACK = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


async def test_five_hundred_workers_that_are_told_to_come_again_do_not_come_at_once():
    asked: dict[bytes, list[float]] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                times = asked.setdefault(head.split()[1], [])
                times.append(asyncio.get_running_loop().time())
                writer.write(AWAY if len(times) == 1 else BACK)
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def work(number: int) -> None:
        async with Client(url, timeout=100) as client:
            with pytest.raises(EventHubError, match="404"):
                await client.event(number)

    async with server:
        await asyncio.gather(*map(work, range(WORKERS)))
    waits = [again - first for first, again in asked.values()]
    assert len(waits) == WORKERS
    assert min(waits) >= 1, "the hub asked for a second"
    first, _, third = quantiles(waits, n=4)
    assert third - first > 0.3


def test_waits_grow_and_are_spread_over_all_of_their_length():
    many = [Backoff(first=1.0, most=4.0) for _ in range(1000)]
    for most in (1.0, 2.0, 4.0, 4.0):
        waits = [one.pause() for one in many]
        assert 0 <= min(waits) < 0.1 * most
        assert 0.9 * most < max(waits) <= most
    for one in many:
        one.reset()
    assert max(one.pause() for one in many) <= 1.0


def test_a_wait_that_was_asked_for_is_kept_and_spread_after_it():
    waits = [Backoff(first=0.1).pause(asked=3.0) for _ in range(1000)]
    assert 3.0 <= min(waits) < 3.3
    assert 5.7 < max(waits) <= 6.0
