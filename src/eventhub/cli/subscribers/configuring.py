"""Subscribers looked at, made, changed and removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from eventhub.cli.output import console, document, plain
from eventhub.cli.subscribers.opening import find_row, with_book
from eventhub.cli.subscribers.options import Clearable, Configuration, Who, WithSecret, defaults, read_secret
from eventhub.cli.subscribers.showing import facts, print_list, print_one, print_secret
from eventhub.core.subscribers import Subscriber
from eventhub.errors import BlockedDestination, InvalidSubscriberError, SettingsError

if TYPE_CHECKING:
    from eventhub.hub.subscribers import SubscriberBook, SubscriberView
    from eventhub.store import Store

__all__ = ["add_subscriber", "edit_subscriber", "list_subscribers", "remove_subscriber", "show_subscriber"]

R = TypeVar("R")
Url = Annotated[str, Parameter(help="Where its messages are sent: https://… or http://…")]


def list_subscribers(
    *,
    status: Annotated[
        Literal["active", "paused", "disabled"] | None, Parameter(help="Only those of this status.")
    ] = None,
    common: WithSecret | None = None,
) -> None:
    """List all subscribers by name."""
    found = with_book(common, lambda _, book: book.list())
    views = [view for view in found if status in (None, view.status)]
    if common and common.json:
        document({"subscribers": [facts(view) for view in views]})
    else:
        print_list(views)


def show_subscriber(who: Who, /, *, common: WithSecret | None = None) -> None:
    """Show one subscriber, whole, but for its secrets."""

    async def work(store: Store, book: SubscriberBook) -> SubscriberView:
        return await book.get((await find_row(store, who)).id)

    _show(with_book(common, work), common)


def add_subscriber(
    name: Annotated[str, Parameter(name="NAME", help="Unique, and not a number.")],
    /,
    *,
    url: Url,
    configuration: Configuration | None = None,
    secret: Annotated[
        str | None, Parameter(help="whsec_… of your own to sign with, or @file; else one is made.")
    ] = None,
    common: WithSecret | None = None,
) -> None:
    """Make a subscriber and show its secret, this one time."""
    given = {"name": name, "url": url, **(configuration or Configuration()).changes()}
    own = read_secret(secret)

    async def work(_: Store, book: SubscriberBook) -> tuple[SubscriberView, str]:
        return await book.create(Subscriber.parse(given), secret=own)

    view, made = _checked(lambda: with_book(common, work, seals=True, create=True))
    if common and common.json:
        document({**facts(view), "secret": made})
        return
    print_one(view)
    print_secret(made)


def edit_subscriber(
    who: Who,
    /,
    *,
    name: Annotated[str | None, Parameter(help="Another name.")] = None,
    url: Annotated[str | None, Parameter(help="Another address.")] = None,
    configuration: Configuration | None = None,
    remove_header: Annotated[
        tuple[str, ...], Parameter(help="A header that is sent no more; may be given again.", negative="")
    ] = (),
    clear: Annotated[
        tuple[Clearable, ...], Parameter(help="Back to its default; may be given again.", negative="")
    ] = (),
    common: WithSecret | None = None,
) -> None:
    """Change a subscriber; what is not named stays as it is. Dispatchers follow at once."""
    changes = {**defaults(clear), **(configuration or Configuration()).changes()}
    changes.update({field: value for field, value in (("name", name), ("url", url)) if value is not None})
    if not changes and not remove_header:
        raise SettingsError("Nothing to change: name what is to be different, such as --url or --timeout.")

    async def work(store: Store, book: SubscriberBook) -> SubscriberView:
        view = await book.get((await find_row(store, who)).id)
        if "headers" not in clear:
            _merge_headers(changes, view.subscriber.headers, remove_header)
        return await book.update(view.id, changes, expected_version=view.version)

    _show(_checked(lambda: with_book(common, work, seals=True)), common)


def _merge_headers(changes: dict[str, Any], before: dict[str, str], removed: tuple[str, ...]) -> None:
    """Headers that were named replace those of the same name; the others stay."""
    if "headers" not in changes and not removed:
        return
    named: dict[str, str] = changes.get("headers", {})
    gone = {name.lower() for name in (*removed, *named)}
    unknown = [name for name in removed if name.lower() not in {known.lower() for known in before}]
    if unknown:
        raise SettingsError(f"--remove-header is {unknown[0]!r}, which the subscriber does not have.")
    changes["headers"] = {**{name: value for name, value in before.items() if name.lower() not in gone}, **named}


def remove_subscriber(
    who: Who,
    /,
    *,
    yes: Annotated[bool, Parameter(help="Do not ask.", negative="")] = False,
    by: Annotated[str | None, Parameter(help="Who does it, for the record; by default your login.")] = None,
    common: WithSecret | None = None,
) -> int:
    """Forget a subscriber, and cancel the messages that it has not got yet."""
    from eventhub.cli.asking import confirmed, operator

    async def ask(store: Store, _: SubscriberBook) -> int:
        row = await find_row(store, who)
        return (await store.subscriber_stats(row.id)).pending

    if not yes:
        waiting = with_book(common, ask)
        if not confirmed(f"Remove {who} for good, and cancel {waiting:,} messages that wait for it?", "remove"):
            console(stderr=True).print("Nothing was removed.")
            return 1

    async def work(store: Store, book: SubscriberBook) -> tuple[str, int]:
        row = await find_row(store, who)
        return row.name, await book.remove(row.id, by=operator(by))

    name, cancelled = with_book(common, work)
    if common and common.json:
        document({"removed": name, "cancelled": cancelled})
    else:
        console().print(plain(f"Removed {name}; {cancelled:,} messages were cancelled."))
    return 0


def _show(view: SubscriberView, common: WithSecret | None) -> None:
    if common and common.json:
        document(facts(view))
    else:
        print_one(view)


def _checked(work: Callable[[], R]) -> R:
    """What cannot be a subscriber was called the wrong way."""
    try:
        return work()
    except (InvalidSubscriberError, BlockedDestination) as error:
        raise SettingsError(str(error)) from None
