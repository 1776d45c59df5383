"""For machines that watch: alive, ready, numbers, and the description of all this."""

from __future__ import annotations

import asyncio
from typing import Final

from eventhub._version import __version__
from eventhub.errors import EventHubError
from eventhub.http.answers import Answer, document
from eventhub.http.asking import Ask
from eventhub.http.bodies.operating import Health
from eventhub.http.operations import Operation
from eventhub.http.problems import Problem
from eventhub.store.limits import CHECK_SECONDS

__all__ = ["OPERATIONS"]

POLICY: Final = (
    b"default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'"
)


async def health(_: Ask) -> Answer:
    """The process lives."""
    return document(Health(status="ok", version=__version__))


async def ready(ask: Ask) -> Answer:
    """The database answers and the process is not on its way out."""
    if ask.service.stopping:
        raise Problem(503, "shutting-down", "This process is shutting down.", retry_after=1)
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await ask.service.store.check()
    except (EventHubError, TimeoutError):
        raise Problem(503, "store-unavailable", "The database does not answer.", retry_after=1) from None
    return document(Health(status="ready", version=__version__))


async def metrics(ask: Ask) -> Answer:
    """Numbers in the text format of Prometheus."""
    body, content_type = await ask.service.metrics.text()
    return Answer(200, body, content_type=content_type.encode())


async def openapi(ask: Ask) -> Answer:
    """The description of this interface."""
    return Answer(200, ask.service.documents.openapi)


async def docs(ask: Ask) -> Answer:
    """The same for people."""
    return Answer(
        200,
        ask.service.documents.html,
        content_type=b"text/html; charset=utf-8",
        headers=((b"content-security-policy", POLICY),),
    )


async def docs_style(ask: Ask) -> Answer:
    """How the documentation looks."""
    return Answer(200, ask.service.documents.style, content_type=b"text/css; charset=utf-8")


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/health",
        name="health",
        summary="Whether the process lives",
        handle=health,
        scope=None,
        group="Service",
        answers={200: Health},
    ),
    Operation(
        method="GET",
        path="/ready",
        name="ready",
        summary="Whether it can do its work",
        handle=ready,
        scope=None,
        group="Service",
        answers={200: Health},
        problems=(503,),
    ),
    Operation(
        method="GET",
        path="/metrics",
        name="metrics",
        summary="Numbers for Prometheus",
        description="For keys with the scope `metrics`, which reads nothing else, or `read`.",
        handle=metrics,
        scope="metrics",
        group="Service",
        answers={200: str},
        gives="text/plain",
    ),
    Operation(
        method="GET",
        path="/openapi.json",
        name="openapi",
        summary="This description",
        handle=openapi,
        scope="read",
        in_part=True,
        group="Service",
        answers={200: dict},
    ),
    Operation(
        method="GET",
        path="/docs",
        name="docs",
        summary="This description, for people",
        handle=docs,
        scope="read",
        in_part=True,
        group="Service",
        answers={200: str},
        gives="text/html",
    ),
    Operation(
        method="GET",
        path="/docs.css",
        name="docs_style",
        summary="How the documentation looks",
        handle=docs_style,
        scope="read",
        in_part=True,
        group="Service",
        answers={200: str},
        gives="text/css",
    ),
)
