"""A subscriber in numbers, and its ordering keys that do not go on: look, try again, skip, unpark."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from eventhub.cli.asking import operator
from eventhub.cli.options import Common, with_store
from eventhub.cli.output import console, document, plain
from eventhub.cli.subscribers.opening import find_row
from eventhub.cli.subscribers.options import Who
from eventhub.cli.subscribers.showing import print_keys, print_stats
from eventhub.errors import EventHubError, SettingsError

if TYPE_CHECKING:
    from eventhub.store import Store
    from eventhub.store.messages import BlockedKey, SubscriberStats

__all__ = ["list_keys", "retry_key", "skip_key", "stats", "unpark_key"]

MAX_LIMIT: Final = 10_000
Key = Annotated[str, Parameter(name="KEY", help="The value of the ordering key.", allow_leading_hyphen=True)]
By = Annotated[str | None, Parameter(help="Who does it, for the record; by default your login.")]
Act = Callable[["Store", int, str], Awaitable[bool]]


def stats(who: Who, /, *, common: Common | None = None) -> None:
    """Show a subscriber in numbers: what waits, what is dead, how fast it answers."""

    async def work(store: Store) -> SubscriberStats:
        return await store.subscriber_stats((await find_row(store, who)).id)

    found = with_store(common, work)
    if common and common.json:
        document(found)
    else:
        print_stats(found)


def list_keys(
    who: Who,
    /,
    *,
    after: Annotated[str | None, Parameter(help="Only keys behind this one: the next page.")] = None,
    limit: Annotated[int, Parameter(help="How many, from 1 to 10,000.")] = 50,
    common: Common | None = None,
) -> None:
    """List the ordering keys that are held up: their first message failed, or is dead and parked."""
    if not 1 <= limit <= MAX_LIMIT:
        raise SettingsError(f"--limit is {limit}; give a number from 1 to {MAX_LIMIT:,}.")

    async def work(store: Store) -> tuple[str, list[BlockedKey]]:
        row = await find_row(store, who)
        return row.name, await store.blocked_keys(row.id, limit=limit, after=after)

    name, found = with_store(common, work)
    next_after = found[-1].key if len(found) == limit else None
    if common and common.json:
        document({"keys": found, "next_after": next_after})
    else:
        print_keys(found, name, next_after)


def retry_key(who: Who, key: Key, /, *, by: By = None, common: Common | None = None) -> None:
    """Try the first message of a key again now; a dead one gets a fresh start, and the key waits for it."""
    _act(who, key, common, lambda store, number, text: store.retry_key(number, text, by=operator(by)), "is due now")


def skip_key(who: Who, key: Key, /, *, by: By = None, common: Common | None = None) -> None:
    """Give the first message of a key up, into the dead letter queue, so that the next one goes out."""
    _act(who, key, common, lambda store, number, text: store.skip_key(number, text, by=operator(by)), "goes on")


def unpark_key(who: Who, key: Key, /, *, by: By = None, common: Common | None = None) -> None:
    """Let a parked key go on past its dead message, which stays in the dead letter queue."""
    _act(who, key, common, lambda store, number, text: store.unpark_key(number, text, by=operator(by)), "goes on")


def _act(who: str, key: str, common: Common | None, act: Act, done: str) -> None:
    async def work(store: Store) -> str:
        row = await find_row(store, who)
        if not await act(store, row.id, key):
            raise EventHubError(
                f"The key {key[:80]!r} of {row.name} is not held up in this way; "
                f"`eventhub subscribers keys {row.name}` shows those that are."
            )
        return row.name

    name = with_store(common, work)
    if common and common.json:
        document({"subscriber": name, "key": key})
    else:
        console().print(plain(f"The key {key!r} of {name} {done}."))
