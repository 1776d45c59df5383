"""Whatever bytes come back, in whatever pieces: a connection answers, fails or waits, and never breaks."""

import asyncio
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from eventhub.hub.connections import LARGEST_BODY, BadAnswer, Connection, Received
from eventhub.hub.sending import retry_after

PIECES = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 500 No\r\n", b"HTTP/1.1 100 Go\r\n\r\n", b"\n",
        b"HTTP/1.1 101 Go\r\nUpgrade: x\r\n",
        b"HTTP/1.1 204 \r\n", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Content-Length: 70000\r\n",
        b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n", b"Connection: close\r\n",
        b"X: " + b"y" * 9000,
        b"Connection: upgrade\r\n", b"\r\n", b"\r\n\r\n", b"hello", b"5\r\nhello\r\n", b"0\r\n\r\n", b"x" * 20_000,
        b"ffff\r\n", b"\x00", b":", b" folded\r\n", b"5;" + b"e" * 9000 + b"\r\n",
    ]
)  # fmt: skip
ANSWERS = st.lists(PIECES | st.binary(max_size=20), max_size=12)


class Wire(asyncio.Transport):
    """The edge: what is written goes nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def write(self, data: Any) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.aborted = True


@given(ANSWERS, st.booleans())
@example([b"HTTP/1.1 200 OK\r\n", b"\r\n", b"x" * 20_000], True)
@example([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" * 2], False)
def test_no_bytes_break_a_connection(pieces: list[bytes], ends: bool):  # noqa: FBT001
    outcome, connection, wire = asyncio.run(_fed(pieces, ends=ends))
    if isinstance(outcome, Received):
        assert 100 <= outcome.status <= 999
        assert len(outcome.body) <= LARGEST_BODY
    elif not isinstance(outcome, BadAnswer):
        assert outcome is None
        assert not ends
        assert sum(map(len, pieces)) < 200_000
    if connection.reusable:
        assert isinstance(outcome, Received)
        assert not wire.aborted


async def _fed(pieces: list[bytes], *, ends: bool) -> tuple[Received | BadAnswer | None, Connection, Wire]:
    loop = asyncio.get_running_loop()
    connection, wire = Connection(loop), Wire()
    connection.connection_made(wire)
    asked = loop.create_task(connection.exchange(b"POST / HTTP/1.1\r\n\r\n", b"", deadline=loop.time() + 60))
    await asyncio.sleep(0)
    for piece in pieces:
        if not wire.aborted:
            connection.data_received(piece)
    if ends or wire.aborted:
        connection.eof_received()
        connection.connection_lost(None)
    done, _ = await asyncio.wait([asked], timeout=0)
    if not done:
        await asyncio.sleep(0)
    if not asked.done():
        asked.cancel()
        await asyncio.wait([asked])
        return None, connection, wire
    error = asked.exception()
    assert error is None or isinstance(error, BadAnswer)
    return error or asked.result(), connection, wire


@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{1,6} \d+:\d+:\d+ [A-Z+\-0-9]{1,6}"))
def test_no_retry_after_breaks_anything(value: str):
    found = retry_after(value, 1_800_000_000.0)
    assert found is None or found >= 0
