"""Watching the hub: how it stands, now and as it goes on."""

from __future__ import annotations

from typing import Final

from eventhub.http.answers import Answer, document
from eventhub.http.asking import Ask
from eventhub.http.bodies.overview import Overview
from eventhub.http.operations import Operation

__all__ = ["OPERATIONS"]


async def overview(ask: Ask) -> Answer:
    """How the hub stands, as of a second ago at most."""
    return document(await ask.service.overseer.look())


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
)
