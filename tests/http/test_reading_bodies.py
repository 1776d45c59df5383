"""Reading a body: no clock when it is there at once, and a clock for all of it when it is not."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from eventhub.http.intake import Intake
from eventhub.http.problems import Problem
from eventhub.http.reading import Gone, read_body

Message = dict[str, object]


def receiving(*parts: Message | asyncio.Future[Message]) -> Callable[[], Awaitable[Message]]:
    left = iter(parts)

    async def receive() -> Message:
        part = next(left)
        return await part if isinstance(part, asyncio.Future) else part

    return receive


def part(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def read(receive: Callable[[], Awaitable[Message]], *, seconds: float = 20.0, limit: int = 100) -> bytes:
    return await read_body(receive, Intake(17).receive(), declared=None, limit=limit, seconds=seconds)


def later(message: Message) -> "asyncio.Future[Message]":
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Message] = loop.create_future()
    loop.call_later(0.01, future.set_result, message)
    return future


async def test_a_body_that_is_there_is_read_at_once():
    assert await read(receiving(part(b"{}"))) == b"{}"


async def test_a_body_may_come_later_and_in_pieces():
    assert await read(receiving(later(part(b"{}")))) == b"{}"
    parts = part(b"a", more=True), later(part(b"b", more=True)), part(b"", more=True), later(part(b"c"))
    assert await read(receiving(*parts)) == b"abc"


async def test_a_body_that_does_not_come_in_time_is_refused():
    never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    with pytest.raises(Problem, match="did not arrive in time"):
        await read(receiving(part(b"a", more=True), never), seconds=0.01)
    assert never.cancelled()


async def test_whoever_goes_away_meanwhile_is_gone():
    with pytest.raises(Gone):
        await read(receiving(part(b"a", more=True), later({"type": "http.disconnect"})))


async def test_an_error_of_the_server_is_passed_on():
    broken: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.01, broken.set_exception, OSError("broken"))
    with pytest.raises(OSError, match="broken"):
        await read(receiving(broken))


async def test_a_reader_that_is_cancelled_stops_waiting():
    never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    reading = asyncio.create_task(read(receiving(never)))
    await asyncio.sleep(0.01)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert never.cancelled()


async def test_what_arrives_is_counted_whatever_was_said():
    with pytest.raises(Problem, match="larger than 3 bytes"):
        await read(receiving(part(b"ab", more=True), later(part(b"cd"))), limit=3)
