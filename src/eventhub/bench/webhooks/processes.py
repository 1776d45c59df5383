"""The processes of a measurement: the dispatcher, the receiver, and the client that sends alone."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from eventhub.bench.http.processes import BenchFailed, answer_of, listening, others, stop_process
from eventhub.bench.http.usage import cpu_seconds
from eventhub.bench.webhooks.client import LOOPBACK, ClientOrders, ClientReport
from eventhub.bench.webhooks.receiver import ReceiverOrders, Tally

__all__ = ["Dispatching", "Receiver", "dispatcher", "receiver", "send_alone"]

START_SECONDS: Final = 60.0
_DISPATCHER: Final = ("-c", "import sys; from eventhub.cli import main; sys.exit(main(['serve']))")
_RECEIVER: Final = ("-m", "eventhub.bench.webhooks.receiver")
_CLIENT: Final = ("-m", "eventhub.bench.webhooks.client")


class Dispatching:
    """The process that hands out and sends."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    def cpu_seconds(self) -> float | None:
        """What it has used of a core; an error when it has ended, for then nothing more will come."""
        if self._process.returncode is not None:
            raise BenchFailed(f"The dispatcher ended with code {self._process.returncode}; its error is above.")
        return cpu_seconds(self._process.pid)


@asynccontextmanager
async def dispatcher(url: str, secret: Path) -> AsyncIterator[Dispatching]:
    """``eventhub serve`` in the roles that deliver, with their defaults, on this database."""
    settings = {
        "EVENTHUB_DB": url,  # not among the arguments: it may contain a password
        "EVENTHUB_ROLES": "fanout,dispatcher,janitor",
        "EVENTHUB_ALLOW_PRIVATE": LOOPBACK,
        "EVENTHUB_LOG_LEVEL": "error",
        "EVENTHUB_SECRET_FILE": str(secret),
        "EVENTHUB_SHUTDOWN_SECONDS": "1",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, *_DISPATCHER, env={**others(), **settings}, cwd=secret.parent
    )
    try:
        yield Dispatching(process)
    finally:
        await stop_process(process)


class Receiver:
    """The consumer, and what it says when it is asked."""

    def __init__(self, process: asyncio.subprocess.Process, base: str) -> None:
        self._process = process
        self.base = base
        """The beginning of its URLs."""

    async def look(self) -> Tally:
        """What came until now."""
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdin.write(b"look\n")
        line = await asyncio.wait_for(self._process.stdout.readline(), START_SECONDS)
        if not line:
            raise BenchFailed("The receiver ended early; its error is above.")
        return msgspec.json.decode(line, type=Tally)

    def cpu_seconds(self) -> float | None:
        return cpu_seconds(self._process.pid)


@asynccontextmanager
async def receiver(orders: ReceiverOrders) -> AsyncIterator[Receiver]:
    """A receiver on a free port."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *_RECEIVER, stdin=pipe, stdout=pipe, limit=2**24, env=others()
    )
    assert process.stdin is not None  # noqa: S101 - a pipe
    try:
        process.stdin.write(msgspec.json.encode(orders) + b"\n")
        host, port = await asyncio.wait_for(listening(process), START_SECONDS)
        yield Receiver(process, f"http://{host}:{port}")
    finally:
        await stop_process(process)


async def send_alone(orders: ClientOrders) -> ClientReport:
    """A client without a hub."""
    answer = await answer_of(_CLIENT, msgspec.json.encode(orders), what=f"client {orders.client!r}")
    return msgspec.json.decode(answer, type=ClientReport)
