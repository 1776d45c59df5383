"""Subscribers paused and resumed, disabled and enabled, given another secret, and tried out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from eventhub.cli.output import console, document, plain
from eventhub.cli.subscribers.opening import find_row, with_book
from eventhub.cli.subscribers.options import Who, WithSecret, read_secret
from eventhub.cli.subscribers.showing import facts, print_secret, standing
from eventhub.cli.times import length
from eventhub.core.events import Status
from eventhub.errors import InvalidSubscriberError, SettingsError
from eventhub.store.audit import Act

if TYPE_CHECKING:
    from eventhub.hub.subscribers import SubscriberBook, SubscriberView
    from eventhub.store import Store
    from eventhub.store.messages import Message
    from eventhub.store.values import NewEvent

__all__ = ["disable", "enable", "pause", "resume", "rotate_secret", "send_test"]

TEST: Final = "hub.test"
LONGEST_WAIT: Final = 3600
Reason = Annotated[str | None, Parameter(help="Why, shown with the subscriber.")]


def pause(who: Who, /, *, reason: Reason = None, common: WithSecret | None = None) -> None:
    """Send nothing until it is resumed; what comes meanwhile waits, in its order."""
    _move(who, common, lambda book, number: book.pause(number, reason))


def resume(who: Who, /, *, common: WithSecret | None = None) -> None:
    """Go on after a pause."""
    _move(who, common, lambda book, number: book.resume(number))


def disable(who: Who, /, *, reason: Reason = None, common: WithSecret | None = None) -> None:
    """Switch it off; what comes meanwhile waits. Tells whoever subscribed to hub.subscriber.disabled."""
    _move(who, common, lambda book, number: book.disable(number, reason))


def enable(who: Who, /, *, common: WithSecret | None = None) -> None:
    """Switch it on again, also after it answered 410 Gone."""
    _move(who, common, lambda book, number: book.enable(number))


def _move(
    who: str, common: WithSecret | None, move: Callable[[SubscriberBook, int], Awaitable[SubscriberView]]
) -> None:
    async def work(store: Store, book: SubscriberBook) -> SubscriberView:
        return await move(book, (await find_row(store, who)).id)

    view = with_book(common, work)
    if common and common.json:
        document(facts(view))
    else:
        console().print(plain(view.subscriber.name), "is", standing(view))


def rotate_secret(
    who: Who,
    /,
    *,
    overlap: Annotated[str, Parameter(help="How long the old secret signs too, such as 24h; 0s ends it now.")] = "24h",
    secret: Annotated[
        str | None, Parameter(help="whsec_… of your own to sign with, or @file; else one is made.")
    ] = None,
    common: WithSecret | None = None,
) -> None:
    """Make another secret and show it, this one time; for the overlap messages are signed with both."""
    lasting = length("overlap", overlap)
    own = read_secret(secret)

    async def work(store: Store, book: SubscriberBook) -> str:
        return await book.rotate_secret((await find_row(store, who)).id, lasting, secret=own)

    try:
        made = with_book(common, work, seals=True)
    except InvalidSubscriberError as error:
        raise SettingsError(str(error)) from None
    if common and common.json:
        document({"secret": made})
        return
    print_secret(made)
    if lasting > timedelta(0):
        console().print(f"The one before signs beside it for {overlap}.")


def send_test(
    who: Who,
    /,
    *,
    wait: Annotated[float, Parameter(help="Seconds to wait for what becomes of it; 0 does not wait.")] = 15.0,
    common: WithSecret | None = None,
) -> int:
    """Send an event of the type hub.test to this subscriber alone, and tell what became of it."""
    if not 0 <= wait <= LONGEST_WAIT:
        raise SettingsError(f"--wait is {wait:g}; give seconds from 0 to {LONGEST_WAIT}.")

    async def work(store: Store, _: SubscriberBook) -> tuple[int, Message | None]:
        subscriber = (await find_row(store, who)).id
        act = Act("subscriber.test", f"subscriber:{subscriber}")
        (published,) = await store.publish([_test(subscriber)], act=act)
        return published.id, await _tried(store, published.id, wait)

    event_id, message = with_book(common, work)
    if common and common.json:
        document({"event_id": event_id, "message": message})
    else:
        console().print(plain(_told(event_id, message, wait)))
    return 1 if wait and (message is None or message.status != Status.COMPLETED) else 0


def _test(subscriber: int) -> NewEvent:
    """For one subscriber, whatever it subscribed to."""
    from eventhub.store.composing import Composer
    from eventhub.store.messages import HUB

    event = Composer(HUB).one({"type": TEST, "payload": {"subscriber": subscriber, "test": True}}, None, {})
    event.work, event.broadcast, event.targets = False, True, (subscriber,)
    return event


async def _tried(store: Store, event_id: int, wait: float) -> Message | None:
    """The message of the event once there was an attempt at it, or as far as it came."""
    from eventhub.store.messages import MessageFilter

    message: Message | None = None
    end = asyncio.get_running_loop().time() + wait
    while asyncio.get_running_loop().time() < end:
        message = next(iter(await store.messages(MessageFilter(event_id=event_id))), None)
        if message is not None and (message.retry_count or message.settled_at is not None):
            break
        await asyncio.sleep(0.1)
    return message


def _told(event_id: int, message: Message | None, wait: float) -> str:
    if not wait:
        return f"Sent as event {event_id}."
    if message is None:
        return f"Event {event_id} was not handed out within {wait:g} s: is a server running, with the role fanout?"
    if message.status == Status.COMPLETED:
        return f"Delivered: message {message.id}, event {event_id}."
    if not message.errors:
        return (
            f"Message {message.id} was not tried within {wait:g} s: is the subscriber active, is nothing before it, "
            "and is a server running with the role dispatcher?"
        )
    more = f"eventhub messages show {message.id}"
    return f"Message {message.id} failed: {message.errors[-1]}\nEverything about it: {more}"
