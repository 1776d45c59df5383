"""What a key that may read in part gets to see: pages without what is not its own, and nothing else of it.

A page is put together from as many of the store's as it takes, up to a limit: then it is short, and the next one goes
on where the looking ended. How many there are in all is not told, for that would count what others have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from eventhub.core.scopes import Scopes
    from eventhub.store import Store
    from eventhub.store.messages import Message

__all__ = ["MAX_LOOKED_AT", "Page", "messages_for", "visible_page"]

T = TypeVar("T")
MAX_LOOKED_AT: Final = 5_000
"""Rows for one page; a key whose events are few among many needs several."""
SMALLEST: Final = 100

Page = tuple[list[T], int | None]
"""What is on the page, and the id below which the next one begins, if there may be more."""


async def visible_page(
    read: Callable[[int | None, int], Awaitable[Sequence[T]]],
    choose: Callable[[Sequence[T]], Awaitable[Sequence[T]]],
    id_of: Callable[[T], int],
    *,
    before: int | None,
    limit: int,
) -> Page[T]:
    """``read(before, limit)`` gives the store's pages, newest first; ``choose`` keeps what may be seen."""
    found: list[T] = []
    looked_at = 0
    size = max(limit, SMALLEST)
    while looked_at < MAX_LOOKED_AT:
        rows = await read(before, size)
        chosen = await choose(rows)
        room = limit - len(found)
        found += chosen[:room]
        if len(chosen) >= room:
            return found, id_of(found[-1])
        if len(rows) < size:
            return found, None
        looked_at += len(rows)
        before = id_of(rows[-1])
    return found, before


async def messages_for(store: Store, scopes: Scopes, messages: Sequence[Message]) -> list[Message]:
    """The messages of events that may be seen; tags are those of their events."""
    tags = await store.event_tags(list({message.event_id for message in messages})) if scopes.read_tags else {}
    return [m for m in messages if scopes.allows_read(m.type, tags.get(m.event_id, ()))]
