"""A process with an EventBus whose handler takes its time, so that it can be killed in the middle of it."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from eventhub.bus import EventBus, Tuning
from eventhub.core.events import QueuedEvent
from eventhub.testing.torture.history import History


class Arguments(msgspec.Struct, kw_only=True):
    process: str
    directory: str
    url: str
    publish: str | None = None
    """The token of an event that this process publishes itself."""
    hold: float = 0.0
    """Seconds that the handler takes."""


def main(raw: dict[str, Any]) -> None:
    arguments = msgspec.convert(raw, Arguments)
    with History(Path(arguments.directory), arguments.process) as history:
        asyncio.run(run(arguments, history))


async def run(arguments: Arguments, history: History) -> None:
    handled = asyncio.Event()

    async def handler(event: QueuedEvent) -> None:
        call = history.invoke("handle", [{"id": event.id, "attempt": event.attempts, "token": event.payload["token"]}])
        await asyncio.sleep(arguments.hold)
        call.ok()
        handled.set()

    bus = EventBus(arguments.url, tuning=Tuning(poll_interval=0.2))
    bus.subscribe("crash.test", handler)
    history.note("starting")
    async with bus:
        if arguments.publish is not None:
            call = history.invoke("publish", [{"token": arguments.publish}])
            number = await bus.publish("crash.test", {"token": arguments.publish}, wait=False)
            call.ok([{"token": arguments.publish, "id": number}])
        await handled.wait()
    history.note("end")
