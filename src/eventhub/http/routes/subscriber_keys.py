"""A subscriber in numbers, and its ordering keys that do not go on: look, try again, skip, unpark."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta
from msgspec.structs import asdict

from eventhub.http.answers import Answer, document, empty
from eventhub.http.asking import Ask
from eventhub.http.bodies.basics import Asked
from eventhub.http.bodies.subscribers import BlockedKeyBody, BlockedKeyList, StatsOfSubscriber
from eventhub.http.operations import Operation
from eventhub.http.problems import Problem
from eventhub.store.composing import MAX_KEY
from eventhub.store.messages import BlockedKey

if TYPE_CHECKING:
    from eventhub.store import Store

__all__ = ["OPERATIONS"]


class KeyQuery(Asked):
    after: Annotated[str, Meta(max_length=MAX_KEY, description="`next_after` of the page before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


async def stats(ask: Ask) -> Answer:
    """One subscriber in numbers."""
    number = ask.subscriber_id
    await ask.service.book.get(number)
    return document(StatsOfSubscriber(**asdict(await ask.service.store.subscriber_stats(number))))


async def list_keys(ask: Ask) -> Answer:
    """The keys whose first message has failed or is dead."""
    number, limit = ask.subscriber_id, ask.query.limit
    await ask.service.book.get(number)
    found = await ask.service.store.blocked_keys(number, limit=limit, after=ask.query.after)
    more = found[-1].key if len(found) == limit else None
    return document(BlockedKeyList(keys=[_shown(key) for key in found], limit=limit, next_after=more))


def _shown(blocked: BlockedKey) -> BlockedKeyBody:
    return BlockedKeyBody(
        key=blocked.key,
        message_id=blocked.message_id,
        event_id=blocked.event_id,
        status=blocked.status,
        parked=blocked.parked,
        attempt_count=blocked.attempts,
        retry_count=blocked.retry_count,
        error=blocked.error,
        next_retry_at=blocked.next_retry_at,
        waiting=blocked.waiting,
        since=blocked.since,
    )


async def retry(ask: Ask) -> Answer:
    """The first message is tried again now."""
    return await _act(ask, lambda store, number, key: store.retry_key(number, key, by=ask.by), "waits for a retry")


async def skip(ask: Ask) -> Answer:
    """The first message is given up, and the key goes on."""
    return await _act(ask, lambda store, number, key: store.skip_key(number, key, by=ask.by), "has messages")


async def unpark(ask: Ask) -> Answer:
    """The key goes on past its dead message, which stays in the dead letter queue."""
    return await _act(ask, lambda store, number, key: store.unpark_key(number, key, by=ask.by), "is parked")


async def _act(ask: Ask, act: Callable[[Store, int, str], Awaitable[bool]], how: str) -> Answer:
    number, key = ask.subscriber_id, ask.parameters["key"]
    await ask.service.book.get(number)
    possible = len(key) <= MAX_KEY and "\x00" not in key  # else no event has it, and no database takes it
    if not possible or not await act(ask.service.store, number, key):
        raise Problem(409, "not-blocked", f"The key {key[:80]!r} of subscriber {number} is not one that {how}.")
    return empty()


def _of_key(verb: str, summary: str, handle: Callable[[Ask], Awaitable[Answer]]) -> Operation:
    return Operation(
        method="POST",
        path=f"/subscribers/{{id}}/keys/{{key}}/{verb}",
        name=f"{verb}_key_of_subscriber",
        summary=summary,
        handle=handle,
        scope="admin",
        group="Subscribers",
        answers={204: None},
        problems=(404, 409),
    )


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/subscribers/{id}/stats",
        name="stats_of_subscriber",
        summary="A subscriber in numbers",
        handle=stats,
        scope="read",
        group="Subscribers",
        answers={200: StatsOfSubscriber},
        problems=(404,),
    ),
    Operation(
        method="GET",
        path="/subscribers/{id}/keys",
        name="keys_of_subscriber",
        summary="The ordering keys that do not go on, because their first message has failed or is dead",
        handle=list_keys,
        scope="read",
        group="Subscribers",
        query=KeyQuery,
        answers={200: BlockedKeyList},
        problems=(404,),
    ),
    _of_key("retry", "Try the first message of a key again now", retry),
    _of_key("skip", "Give the first message of a key up, so that the key goes on", skip),
    _of_key("unpark", "Let a key go on past its dead message", unpark),
)
