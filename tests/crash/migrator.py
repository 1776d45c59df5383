"""A process that opens a store, and so creates its tables, and uses it; it can die at a certain SQLite statement."""

import asyncio
import itertools
import os
import signal
import time
from pathlib import Path
from typing import Any

import apsw
import msgspec

from eventhub.queue import EventQueue
from eventhub.store import open_store
from eventhub.testing.torture.history import History


class Arguments(msgspec.Struct, kw_only=True):
    process: str
    directory: str
    url: str
    die_at: int | None = None
    """The number of the statement, counted over all connections, before which the process kills itself."""
    start_at: float | None = None
    """When to begin, by the monotonic clock, so that several begin at once."""


def main(raw: dict[str, Any]) -> None:
    arguments = msgspec.convert(raw, Arguments)
    with History(Path(arguments.directory), arguments.process) as history:
        if arguments.die_at is not None:
            apsw.connection_hooks.append(lambda connection: _arm(connection, arguments.die_at or 0))
        if arguments.start_at is not None:
            time.sleep(max(0.0, arguments.start_at - time.monotonic()))
        asyncio.run(migrate(arguments, history))


_statements = itertools.count(1)


def _arm(connection: apsw.Connection, die_at: int) -> None:
    def before(_: apsw.Cursor, __: str, ___: Any) -> bool:
        if next(_statements) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    connection.exec_trace = before


async def migrate(arguments: Arguments, history: History) -> None:
    call = history.invoke("migrate")
    async with open_store(arguments.url) as store:
        event = await EventQueue(store).publish("crash.test", {"token": arguments.process})
    call.ok([{"id": event.id}])
    history.note("end")
