"""``eventhub messages``: events on their way to subscribers, and what was tried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from cyclopts import App, Parameter

from eventhub.cli.asking import operator
from eventhub.cli.events import status_name
from eventhub.cli.options import Common, with_store
from eventhub.cli.output import console, document, duration, moment, plain, records, table
from eventhub.cli.output import status as coloured
from eventhub.cli.subscribers.opening import find_row
from eventhub.core.events import Status
from eventhub.errors import EventHubError, EventNotFound, SettingsError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from eventhub.store import Store
    from eventhub.store.messages import Attempt, Message

__all__ = ["app"]

app = App(name="messages")

MAX_LIMIT: Final = 10_000
LARGEST_ID: Final = 2**63 - 1
LONGEST_BODY: Final = 500
MessageId = Annotated[int, Parameter(name="ID", help="The id of the message.")]
By = Annotated[str | None, Parameter(help="Who does it, for the record; by default your login.")]


@app.command(name="list")
def list_messages(
    *,
    subscriber: Annotated[str | None, Parameter(help="Only those for this one: its name or id.")] = None,
    status: Annotated[
        Status | None, Parameter(name="--status", help="Only those of this status.", name_transform=status_name)
    ] = None,
    event: Annotated[int | None, Parameter(help="Only those of the event with this id.")] = None,
    limit: Annotated[int, Parameter(help="How many, from 1 to 10,000.")] = 50,
    before: Annotated[int | None, Parameter(help="Only those with a smaller id: the next page.")] = None,
    common: Common | None = None,
) -> None:
    """List messages, newest first."""
    if not 1 <= limit <= MAX_LIMIT:
        raise SettingsError(f"--limit is {limit}; give a number from 1 to {MAX_LIMIT:,}.")
    for option, value in (("before", before), ("event", event)):
        if value is not None and not 1 <= value <= LARGEST_ID:
            raise SettingsError(f"--{option} is {value}; give an id.")
    from eventhub.store.messages import MessageFilter

    async def work(store: Store) -> tuple[list[Message], dict[int, str]]:
        number = None if subscriber is None else (await find_row(store, subscriber)).id
        wanted = MessageFilter(subscriber=number, status=status, event_id=event, before_id=before, limit=limit)
        found = await store.messages(wanted)
        return found, {row.id: row.name for row in (await store.subscribers())[1]}

    found, names = with_store(common, work)
    next_before = found[-1].id if len(found) == limit else None
    if common and common.json:
        document({"messages": found, "next_before": next_before})
        return
    _print_list(found, names, next_before)


@app.command(name="show")
def show_message(message_id: MessageId, /, *, common: Common | None = None) -> None:
    """Show one message, with every attempt at it: what was answered, and how long it took."""

    async def work(store: Store) -> tuple[Message, list[Attempt], str]:
        message = await _found(store, message_id)
        row = await store.subscriber(message.subscriber)
        return message, await store.attempts(message_id), "" if row is None else row.name

    message, attempts, name = with_store(common, work)
    if common and common.json:
        document({**msgspec.structs.asdict(message), "attempts": attempts})
        return
    _print_message(message, name)
    _print_attempts(attempts)


@app.command(name="retry")
def retry_message(message_id: MessageId, /, *, by: By = None, common: Common | None = None) -> None:
    """Try a message again now: one that waits for its retry at once, a dead one with a fresh start."""
    _act(
        message_id,
        common,
        lambda store: store.retry_message(message_id, by=operator(by)),
        "is due now.",
        "it neither waits for a retry nor is it dead",
    )


@app.command(name="cancel")
def cancel_message(message_id: MessageId, /, *, by: By = None, common: Common | None = None) -> None:
    """Send a message no more. It leaves no dead letter; the log of its event tells who did it."""
    _act(
        message_id,
        common,
        lambda store: store.cancel_message(message_id, by=operator(by)),
        "is cancelled.",
        "there is nothing left to cancel",
    )


@app.command(name="dead-letter")
def bury_message(message_id: MessageId, /, *, by: By = None, common: Common | None = None) -> None:
    """Move a message to the dead letter queue by hand."""
    _act(
        message_id,
        common,
        lambda store: store.bury_message(message_id, by=operator(by)),
        f"lies in the dead letter queue. Bring it back: eventhub dlq retry {message_id}",
        "there is nothing left to give up",
    )


def _act(
    message_id: int, common: Common | None, act: Callable[[Store], Awaitable[bool]], done: str, refused: str
) -> None:
    async def work(store: Store) -> Message | None:
        await _found(store, message_id)
        if not await act(store):
            message = await _found(store, message_id)
            raise EventHubError(f"Message {message_id} is {message.status}: {refused}.")
        return await store.message(message_id)

    message = with_store(common, work)
    if common and common.json:
        document({"id": message_id, "status": None if message is None else message.status})
    else:
        console().print(f"Message {message_id} {done}")


async def _found(store: Store, message_id: int) -> Message:
    message = await store.message(message_id) if 0 < message_id <= LARGEST_ID else None
    if message is None:
        raise EventNotFound(f"Message not found: {message_id}")
    return message


# --------------------------------------------------------------- for people


def _print_list(found: list[Message], names: dict[int, str], next_before: int | None) -> None:
    out = console()
    if not found:
        out.print("No messages.")
        return
    rows = table("id", "event", "type", "subscriber", "status", "attempts", "created", "next try", "last error",
                 numbers=("id", "event", "attempts"))  # fmt: skip
    for message in found:
        rows.add_row(
            str(message.id),
            str(message.event_id),
            message.type,
            plain(names.get(message.subscriber, str(message.subscriber)), 30),
            coloured(message.status) + (" behind another" if message.blocked else ""),
            str(message.attempts),
            moment(message.created_at),
            moment(message.next_retry_at),
            plain(message.errors[-1] if message.errors else "", 60),
        )
    out.print(rows)
    if next_before is not None:
        out.print(f"There may be more: --before {next_before}")


def _print_message(message: Message, name: str) -> None:
    most = "" if message.max_attempts is None else f" of at most {message.max_attempts}"
    pairs: list[tuple[str, RenderableType]] = [
        ("id", str(message.id)),
        ("event", str(message.event_id)),
        ("type", message.type),
        ("subscriber", plain(f"{name or 'one that was removed'} ({message.subscriber})")),
        ("status", coloured(message.status)),
        ("attempts", f"{message.attempts}{most}, of which {message.retry_count} failed"),
        ("ordering key", plain(message.ordering_key)),
        ("waits", "behind another message of its key" if message.blocked else ""),
        ("next try", moment(message.next_retry_at)),
        ("dispatcher", plain(message.worker)),
        ("lease ends", moment(message.lease_expires_at)),
        ("published", moment(message.created_at)),
        ("settled", moment(message.settled_at)),
        ("errors", plain("\n".join(message.errors))),
    ]
    console().print(records(pairs))


def _print_attempts(attempts: list[Attempt]) -> None:
    if not attempts:
        return
    rows = table("time", "ended as", "answer", "took", "error", "body", numbers=("took",))
    for attempt in attempts:
        detail = attempt.detail
        rows.add_row(
            moment(attempt.created_at),
            attempt.action,
            plain(_text(detail.get("status") or detail.get("failure"))),
            duration(_seconds(detail.get("total_ms"))),
            plain(_text(detail.get("error"))),
            plain(_text(detail.get("response_body")), LONGEST_BODY),
        )
    console().print(rows)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _seconds(milliseconds: Any) -> float | None:
    return milliseconds / 1000 if isinstance(milliseconds, int | float) else None
