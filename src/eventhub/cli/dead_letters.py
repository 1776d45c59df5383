"""Dead letters for people, and those that are asked for by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from eventhub.cli.events import described
from eventhub.cli.output import console, json_text, moment, plain, records, table
from eventhub.cli.output import status as coloured
from eventhub.errors import EventHubError, EventNotFound, NotDeadError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from eventhub.cli.progress import Advance
    from eventhub.store import Store
    from eventhub.store.messages import DeadLetter, DeadLetterPage

__all__ = ["find_letter", "print_letter", "print_page", "retry_ids", "unpark_letter"]

PORTION: Final = 500
LARGEST_ID: Final = 2**63 - 1


async def find_letter(store: Store, number: int) -> DeadLetter:
    """The dead letter of a message or of work; an error that tells what there is instead."""
    if not 0 < number <= LARGEST_ID:
        raise EventNotFound(f"Event not found: {number}")
    letter = await store.dead_letter(number)
    if letter is None:
        raise await _why_not(store, number)
    return letter


async def _why_not(store: Store, number: int) -> EventHubError:
    from eventhub.core.events import Status
    from eventhub.store.messages import MessageFilter

    message = await store.message(number)
    if message is not None:
        return NotDeadError(f"Message {number} is not in DLQ (status: {message.status})")
    event = await store.event(number)
    if event is None:
        return EventNotFound(f"Event not found: {number}")
    dead = await store.messages(MessageFilter(event_id=number, status=Status.FAILED))
    if dead:
        ids = ", ".join(str(each.id) for each in dead)
        return NotDeadError(f"Event {number} was broadcast; of its messages are dead: {ids}. Name one of these.")
    return NotDeadError(f"Event {number} is not in DLQ (status: {event.status})")


async def retry_ids(store: Store, ids: list[int], by: str, advance: Advance) -> tuple[list[int], dict[int, str]]:
    """Those that are due again, and why the others are not."""
    wanted = [number for number in dict.fromkeys(ids) if 0 < number <= LARGEST_ID]
    revived: set[int] = set()
    for start in range(0, len(wanted), PORTION):
        portion = wanted[start : start + PORTION]
        revived |= await store.retry_dead(portion, by=by)
        advance(len(portion))
    refused: dict[int, str] = {}
    for number in dict.fromkeys(ids):
        if number not in revived:
            refused[number] = await _refusal(store, number)
    return [number for number in wanted if number in revived], refused


async def unpark_letter(store: Store, number: int, by: str) -> DeadLetter:
    """Free the key that a dead letter holds; an error when it holds none."""
    letter = await find_letter(store, number)
    key, done = letter.ordering_key, False
    if letter.parked and key is not None and letter.subscriber is not None:
        done = await store.unpark_key(letter.subscriber, key, by=by)
    elif letter.parked and key is not None and letter.queue is not None:
        done = await store.unpark(letter.queue, key, by=by)
    if not done:
        raise EventHubError(f"Dead letter {number} holds no ordering key; `eventhub dlq list` shows which are parked.")
    return letter


async def _refusal(store: Store, number: int) -> str:
    try:
        letter = await find_letter(store, number)
    except EventHubError as error:
        return str(error)
    if letter.retried_at is None:
        return f"Dead letter {number}: its subscriber is gone, so there is nobody to retry it for."
    if letter.subscriber is None:
        event = await store.event(letter.id)
        return f"Event {number} is not in DLQ (status: {event.status if event else 'gone'})"
    return f"Message {number} was retried already, and is not dead again."


# --------------------------------------------------------------- for people


def print_page(page: DeadLetterPage, offset: int) -> None:
    out = console()
    if not page.letters:
        out.print("No dead letters." if not page.total else f"No dead letters from {offset} on, of {page.total}.")
        return
    rows = table("id", "type", "queue", "for", "attempts", "dead since", "reason", "last error",
                 numbers=("id", "attempts"))  # fmt: skip
    for letter in page.letters:
        rows.add_row(
            str(letter.delivery_id),
            letter.type,
            letter.queue or "",
            plain(_consumer(letter), 30),
            str(letter.attempts),
            moment(letter.dead_at),
            letter.reason + (" (parked)" if letter.parked else ""),
            plain(letter.errors[-1] if letter.errors else "", 80),
        )
    out.print(rows)
    last = offset + len(page.letters)
    out.print(f"{offset + 1} to {last} of {page.total}." + (f" Next: --offset {last}" if last < page.total else ""))


def _consumer(letter: DeadLetter) -> str:
    if letter.subscriber is None:
        return ""
    return str((letter.consumer or {}).get("name", letter.subscriber))


def print_letter(letter: DeadLetter) -> None:
    out = console()
    most = "" if letter.max_attempts is None else f" of at most {letter.max_attempts}"
    pairs: list[tuple[str, RenderableType]] = [
        ("id", str(letter.delivery_id)),
        ("event", str(letter.id) if letter.id != letter.delivery_id else ""),
        ("type", letter.type),
        ("status", coloured(letter.status)),
        ("queue", letter.queue or ""),
        ("subscriber", plain(f"{_consumer(letter)} ({letter.subscriber})" if letter.subscriber else "")),
        ("reason", letter.reason),
        ("parked", "it holds its ordering key until somebody acts" if letter.parked else ""),
        ("attempts", f"{letter.attempts}{most}, of which {letter.retry_count} failed"),
        ("created", moment(letter.created_at)),
        ("dead since", moment(letter.dead_at)),
        ("last worker", plain(letter.worker)),
        ("retried", plain(f"{moment(letter.retried_at)} by {letter.retried_by}" if letter.retried_at else "")),
        *described(letter),
        ("subscriber then", plain(json_text(letter.consumer) if letter.consumer else "")),
    ]
    out.print(records(pairs))
    if letter.errors:
        rows = table("attempt", "error", numbers=("attempt",))
        for place, error in enumerate(letter.errors, 1):
            rows.add_row(str(place), plain(error))
        out.print(rows)
    if letter.retried_at is None:
        out.print(f"Give it another chance: eventhub dlq retry {letter.delivery_id}")
    if letter.parked:
        out.print(f"Let its ordering key go on without it: eventhub dlq unpark {letter.delivery_id}")
    if letter.subscriber is not None:
        out.print(f"Each attempt in full: eventhub messages show {letter.delivery_id}")
