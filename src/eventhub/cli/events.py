"""``eventhub events``: what is there, and what happened to one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import App, Parameter

from eventhub.cli.options import Common, flag, with_store
from eventhub.cli.output import console, document, duration, json_text, moment, plain, records, table
from eventhub.cli.output import status as coloured
from eventhub.cli.times import since as moment_of
from eventhub.core.events import Event, LogEntry, QueuedEvent, Status
from eventhub.core.matching import MAX_WANTED_TAGS, parse_tags
from eventhub.errors import EventNotFound, InvalidEventError, SettingsError
from eventhub.lake.history import History

if TYPE_CHECKING:
    from rich.console import RenderableType

    from eventhub.store import Store

__all__ = ["app", "described", "status_name"]

app = App(name="events")

MAX_LIMIT = 10_000
LARGEST_ID = 2**63 - 1


def status_name(text: str) -> str:
    """Statuses are written in capitals; who types them may be lazy."""
    return text.upper().replace("-", "_")


@app.command(name="list")
def list_events(
    *,
    status: Annotated[
        Status | None,
        Parameter(name="--status", help="Only events of this status.", name_transform=status_name),
    ] = None,
    type: Annotated[str | None, Parameter(help="Only events of this type, exactly.")] = None,  # noqa: A002
    tags: Annotated[str | None, Parameter(help="Only work with any of these tags, such as email,sms.")] = None,
    queue: Annotated[str | None, Parameter(help="Only events of this queue.")] = None,
    since: Annotated[
        str | None, Parameter(help="Only events stored at this time or later: a time, or how long ago, such as 2h.")
    ] = None,
    until: Annotated[str | None, Parameter(help="Only events stored at this time or earlier.")] = None,
    limit: Annotated[int, Parameter(help="How many, from 1 to 10,000.")] = 50,
    before: Annotated[int | None, Parameter(help="Only events with a smaller id: the next page.")] = None,
    common: Common | None = None,
) -> None:
    """List events, newest first."""
    if not 1 <= limit <= MAX_LIMIT:
        raise SettingsError(f"--limit is {limit}; give a number from 1 to {MAX_LIMIT:,}.")
    if before is not None and not 1 <= before <= LARGEST_ID:
        raise SettingsError(f"--before is {before}; give the id of an event.")
    named = _tags(tags)
    if tags is not None and not named:
        raise SettingsError("--tags is empty; leave it out or name some.")
    from eventhub.store.values import EventFilter

    now = datetime.now(UTC)
    wanted = EventFilter(
        status=status,
        type=type,
        tags=None if tags is None else frozenset(named),
        queue=queue,
        since=None if since is None else moment_of("since", since, now),
        until=None if until is None else moment_of("until", until, now),
        limit=limit,
        before_id=before,
    )
    found = with_store(common, lambda store: store.events(wanted))
    next_before = found[-1].id if len(found) == limit else None
    if common and common.json:
        document({"events": found, "next_before": next_before})
        return
    _print_list(found, next_before)


def _tags(text: str | None) -> tuple[str, ...]:
    try:
        return parse_tags(text, most=MAX_WANTED_TAGS)
    except InvalidEventError as error:
        raise SettingsError(f"--tags: {error}") from None


@app.command(name="show")
def show_event(
    event_id: Annotated[int, Parameter(name="ID", help="The id of the event.")],
    /,
    *,
    log: Annotated[bool, Parameter(help="Also what happened to it, step by step.", negative="")] = False,
    lake: Annotated[str | None, flag("lake")] = None,
    common: Common | None = None,
) -> None:
    """Show one event, whole; one that was archived is read from the lake."""
    place = lake or (common or Common()).load().settings.lake

    async def work(store: Store) -> tuple[QueuedEvent, list[LogEntry], bool] | None:
        found = await store.event(event_id)
        if found is not None:
            return found, await store.log(event_id) if log else [], False
        past = History(place, await store.hub_id()).read(event_id)
        return None if past is None else (past.event, past.log, True)

    found = with_store(common, work) if 0 < event_id <= LARGEST_ID else None
    if found is None:
        raise EventNotFound(f"Event not found: {event_id}")
    event, entries, archived = found
    if common and common.json:
        shown = msgspec.structs.asdict(event) | ({"archived": True} if archived else {})
        document({**shown, "log": entries} if log else shown)
        return
    _print_event(event, archived=archived)
    if log:
        _print_log(entries)


def _print_list(found: list[QueuedEvent], next_before: int | None) -> None:
    out = console()
    if not found:
        out.print("No events.")
        return
    rows = table("id", "type", "queue", "status", "attempts", "created", "payload", numbers=("id", "attempts"))
    for event in found:
        rows.add_row(
            str(event.id),
            event.type,
            event.queue,
            coloured(event.status),
            str(event.attempts),
            moment(event.created_at),
            plain(json_text(event.payload), 60),
        )
    out.print(rows)
    if next_before is not None:
        out.print(f"There may be more: --before {next_before}")


def _print_event(event: QueuedEvent, *, archived: bool) -> None:
    pairs = [
        ("id", str(event.id)),
        ("type", event.type),
        ("status", coloured(event.status)),
        ("queue", event.queue),
        ("attempts", f"{event.attempts}, of which {event.retry_count} failed"),
        ("created", moment(event.created_at)),
        ("last change", moment(event.updated_at)),
        ("next try", moment(event.next_retry_at)),
        ("lease ends", moment(event.lease_expires_at)),
        ("archived", "read from the lake" if archived else ""),
        *described(event),
        ("published by", plain(event.published_by)),
        ("errors", plain("\n".join(event.errors))),
    ]
    console().print(records(pairs))


def described(event: Event) -> list[tuple[str, RenderableType]]:
    """What the publisher said about an event."""
    return [
        ("title", plain(event.title)),
        ("description", plain(event.description)),
        ("tags", plain(", ".join(event.tags))),
        ("ordering key", plain(event.ordering_key)),
        ("idempotency key", plain(event.idempotency_key)),
        ("metadata", plain(json_text(event.metadata) if event.metadata else "")),
        ("payload", plain(json_text(event.payload))),
    ]


def _print_log(entries: list[LogEntry]) -> None:
    rows = table("time", "action", "attempt", "worker", "took", "error", numbers=("attempt", "took"))
    for entry in entries:
        took = None if entry.execution_ms is None else entry.execution_ms / 1000
        rows.add_row(
            f"{moment(entry.created_at)[:-1]}.{entry.created_at.microsecond // 1000:03d}Z",
            entry.action,
            "" if entry.attempt is None else str(entry.attempt),
            plain(entry.worker),
            duration(took),
            plain(entry.error),
        )
    console().print(rows)
