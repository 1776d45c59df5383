"""Watching the hub: how it stands, now and as it goes on."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from eventhub.http.answers import Answer, document
from eventhub.http.asking import Ask
from eventhub.http.bodies.basics import Asked
from eventhub.http.bodies.overview import Overview
from eventhub.http.operations import Operation

__all__ = ["OPERATIONS"]

STREAM_HEADERS: Final = ((b"cache-control", b"no-store"), (b"x-accel-buffering", b"no"))
"""Proxies that gather answers shall let this one through."""


class LiveQuery(Asked):
    seconds: Annotated[float, Meta(gt=0, le=86_400, description="End the stream after this long.")] | None = None


async def overview(ask: Ask) -> Answer:
    """How the hub stands, as of a second ago at most."""
    return document(await ask.service.overseer.look())


async def live(ask: Ask) -> Answer:
    """The overview and the log as they go on."""
    service = ask.service
    watcher = service.live.join(ask.principal.id)
    return Answer(
        200,
        content_type=b"text/event-stream",
        headers=STREAM_HEADERS,
        stream=service.live.stream(watcher, lambda: ask.is_welcome("read"), ask.query.seconds),
        stop=watcher.over,
        ended=lambda: service.live.leave(watcher),
    )


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/overview",
        name="overview",
        summary="How the hub stands, at a glance, and what needs attention",
        handle=overview,
        scope="read",
        group="Dashboard",
        answers={200: Overview},
    ),
    Operation(
        method="GET",
        path="/live",
        name="live",
        summary="The overview and what happens, as it goes on (server-sent events)",
        description="`overview`: the document of GET /overview, when it has changed, about once a second. `log`: what "
        "was logged since, at most 100 rows, and how many were missed. A stream ends with its key or the server.",
        handle=live,
        scope="read",
        group="Dashboard",
        query=LiveQuery,
        answers={200: str},
        gives="text/event-stream",
        safe=False,
        streams=True,
    ),
)
