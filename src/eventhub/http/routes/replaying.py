"""Replaying: an old event is published again as a new one that is linked to it."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from eventhub.http.answers import Answer
from eventhub.http.asking import Ask
from eventhub.http.bodies.basics import MOST_EVENTS, Asked, Id
from eventhub.http.bodies.events import EventBody
from eventhub.http.operations import Example, Operation
from eventhub.http.problems import Problem
from eventhub.http.publishing import key_in
from eventhub.http.routes.events import store_one
from eventhub.store.audit import Act

__all__ = ["OPERATIONS"]


class ReplayBody(Asked):
    """Who gets it again: these subscribers, whatever types they asked for; without them, all that want it now."""

    subscribers: Annotated[list[Id], Meta(min_length=1, max_length=MOST_EVENTS)] | None = None


async def replay(ask: Ask) -> Answer:
    """A new event; the same idempotency key makes no second one."""
    body: ReplayBody = ask.body
    number, service = ask.event_id, ask.service
    key = key_in(ask)
    found = await service.store.event(number) or (await service.past(number)).event
    targets = None if body.subscribers is None else list(dict.fromkeys(body.subscribers))
    if targets is not None:
        await _check(ask, body.subscribers or [])
    act = Act("event.replay", f"event:{number}", {"subscribers": targets})
    return await store_one(ask, service.publisher.compose_again(found, ask, key, targets=targets), act=act)


async def _check(ask: Ask, wanted: list[int]) -> None:
    """Point to the first that is no subscriber."""
    _, rows = await ask.service.store.subscribers()
    known = {row.id for row in rows}
    for place, number in enumerate(wanted):
        if number not in known:
            raise Problem(422, "invalid-request", f"Subscriber not found: {number}", pointer=f"/subscribers/{place}")


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/events/{id}/replay",
        name="replay",
        summary="Publish an event again, as a new one that is linked to it",
        description="The new event has the old one's type, payload, tags and ordering key, and its id as `replay_of` "
        "in the metadata. 201 when it is work, 202 when it is only broadcast, 200 when the idempotency key was used "
        "for this replay before.",
        handle=replay,
        scope="admin",
        body=ReplayBody,
        body_optional=True,
        answers={200: EventBody, 201: EventBody, 202: EventBody},
        problems=(404, 503),
        headers=(("Idempotency-Key", "The same replay with the same key again is the first one, not another."),),
        example=Example(body={"subscribers": [7]}),
    ),
)
