"""A process with the roles of a hub, which may be killed at any moment; SIGTERM asks it to stop."""

import asyncio
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from eventhub.hub import CrewSettings, Hub
from eventhub.hub.crew import ROLES
from eventhub.hub.dispatcher import DispatcherTuning
from eventhub.hub.lines import CircuitRules
from eventhub.store import open_store
from eventhub.testing.torture.history import History

SECRET = b"thirty-two bytes for crash tests"
LOCAL = ["127.0.0.0/8"]


class Arguments(msgspec.Struct, kw_only=True):
    process: str
    directory: str
    url: str
    roles: tuple[str, ...] = ROLES
    concurrency: int = 500
    shutdown_timeout: float = 15.0
    circuit_seconds: float = 60.0


def main(arguments: dict[str, Any]) -> None:
    uvloop.run(_live(msgspec.convert(arguments, Arguments)))


async def _live(arguments: Arguments) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    tuning = DispatcherTuning(concurrency=arguments.concurrency, shutdown_timeout=arguments.shutdown_timeout)
    circuit = CircuitRules(lasting=timedelta(seconds=arguments.circuit_seconds))
    with History(Path(arguments.directory), arguments.process) as history:
        async with (
            open_store(arguments.url) as store,
            Hub(
                store,
                secret=SECRET,
                allow_private=LOCAL,
                roles=arguments.roles,
                settings=CrewSettings(tuning=tuning, circuit=circuit),
            ),
        ):
            history.note("ready")
            await told.wait()
            history.note("stopping")
        history.note("end")
