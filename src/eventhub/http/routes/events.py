"""Publishing, one or many at a time, and looking at what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import UNSET, Meta
from msgspec.structs import replace

from eventhub.core.events import QueuedEvent, Status
from eventhub.core.matching import MAX_WANTED_TAGS, check_queue, check_type, parse_tags
from eventhub.errors import EventNotFound, InvalidEventError
from eventhub.handling.logs import get_logger
from eventhub.http import cloud_events
from eventhub.http.answers import Answer, document
from eventhub.http.asking import Ask, as_id, as_moment
from eventhub.http.bodies.basics import Asked, Moment
from eventhub.http.bodies.events import (
    Created,
    EventBody,
    EventList,
    ListedEvent,
    NewEventBatch,
    NewEventBody,
    PublishedBatch,
)
from eventhub.http.logged import logged
from eventhub.http.operations import BATCH, EVENT, Example, Operation
from eventhub.http.problems import Problem
from eventhub.http.publishing import event_body, job_type, key_in
from eventhub.http.reading import aside
from eventhub.http.visibility import visible_page
from eventhub.store.audit import Act
from eventhub.store.values import EventFilter, NewEvent, Published

if TYPE_CHECKING:
    from eventhub.http.service import Service

__all__ = ["OPERATIONS", "store_one"]

log = get_logger("eventhub.http")

FARTHEST: Final = 1_000_000


class ListQuery(Asked):
    """Which events; everything that is given must fit."""

    status: Status | None = None
    tags: Annotated[str, Meta(description="With commas; an event fits when it has any of them.")] | None = None
    type: Annotated[str, Meta(description="Events of exactly this type.")] | None = None
    queue: Annotated[str, Meta(description="Events of this queue.")] | None = None
    since: Annotated[Moment, Meta(description="Stored at this time or later.")] | None = None
    until: Annotated[Moment, Meta(description="Stored at this time or earlier.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 20
    offset: Annotated[int, Meta(ge=0, le=FARTHEST)] | None = None
    cursor: (
        Annotated[str, Meta(max_length=40, description="`next_cursor` of the page before; `start` for the first.")]
        | None
    ) = None


class DetailQuery(Asked):
    include_logs: Annotated[bool, Meta(description="Also everything that happened to it.")] = False


# ---------------------------------------------------------------- publishing


async def publish(ask: Ask) -> Answer:
    """One event; a CloudEvents batch on this route is a batch."""
    if ask.body is None and ask.content_type == cloud_events.BATCH_TYPE:
        return await publish_batch(ask)
    key = key_in(ask)
    event = await aside(len(ask.raw), lambda: _composed(ask, key))
    return await store_one(ask, event)


async def store_one(ask: Ask, event: NewEvent, *, act: Act | None = None) -> Answer:
    """Keeps a composed event, and tells what became of it."""
    service = ask.service
    await service.check_room(1)
    (published,) = await service.store.publish([event], act=act)
    if published.duplicate:
        service.metrics.received(duplicate=True)
        return document(await _first_event(service, event, published), 200)
    service.metrics.received()
    if service.verbose:
        log.debug("published", event_id=published.id, event_type=event.type)
    return document(service.publisher.described(event, published), 201 if event.work else 202)


async def _first_event(service: Service, event: NewEvent, published: Published) -> EventBody:
    """The event that has the key; if it has left the database, and no lake can be read here, as it was sent again."""
    found = await service.store.event(published.id)
    try:
        found = found or (await service.past(published.id)).event
    except EventNotFound:
        sent = service.publisher.described(event, published)
        return replace(sent, status=Status.COMPLETED, next_retry_at=None, archived=True)
    return event_body(found, service.settings.max_retries)


def _composed(ask: Ask, key: str | None) -> NewEvent:
    body = ask.body if ask.body is not None else _cloud_event(ask, key)
    return ask.service.publisher.compose(body, ask, key)


def _cloud_event(ask: Ask, key: str | None) -> NewEventBody:
    """A CloudEvent; a key in the header counts more than its source and id."""
    if ask.content_type == cloud_events.STRUCTURED_TYPE and not cloud_events.is_binary(ask.headers):
        body = cloud_events.structured(ask.raw)
    else:
        body = cloud_events.binary(ask.headers, ask.raw)
    if key is not None:
        body.idempotency_key = key
    return body


async def publish_batch(ask: Ask) -> Answer:
    """Up to 1,000 events, all of them or none."""
    service = ask.service
    events = await aside(len(ask.raw), lambda: _composed_batch(ask))
    await service.check_room(len(events))
    published = await service.store.publish(events)
    again = sum(event.duplicate for event in published)
    service.metrics.received(len(published) - again)
    service.metrics.received(again, duplicate=True)
    return document(PublishedBatch(events=[Created(id=p.id, duplicate=p.duplicate) for p in published]), 201)


def _composed_batch(ask: Ask) -> list[NewEvent]:
    under = ""
    if ask.body is None:
        bodies = cloud_events.from_batch(ask.raw)
    elif isinstance(ask.body, NewEventBatch):
        bodies, under = ask.body.events, "/events"
    else:
        bodies = ask.body
    return ask.service.publisher.compose_many(bodies, ask, key_in(ask), under=under)


# -------------------------------------------------------------------- looking


async def list_events(ask: Ask) -> Answer:
    """Newest first. Pages by ``offset`` count the total; pages by ``cursor`` cost the same however far they are.

    What is asked for by time comes in pages of the second kind.
    """
    query: ListQuery = ask.query
    if query.offset is not None and query.cursor is not None:
        raise Problem(400, "invalid-query", "Both offset and cursor are given; keep one.")
    timed = query.since is not None or query.until is not None
    if query.offset is not None and timed:
        raise Problem(400, "invalid-query", "Pages of a range of time go by cursor; leave offset out.")
    wanted = _filter(query)
    if not ask.principal.scopes.reads_all:
        return await _list_visible(ask, wanted)
    store = ask.service.store
    found = await store.events(wanted)
    listed = [_listed(event) for event in found]
    if query.cursor is not None or timed:
        more = str(found[-1].id) if len(found) == query.limit else None
        return document(EventList(events=listed, limit=query.limit, next_cursor=more))
    total = await store.count_events(wanted)
    return document(EventList(events=listed, limit=query.limit, total=total, offset=query.offset or 0))


async def _list_visible(ask: Ask, wanted: EventFilter) -> Answer:
    """For a key that may read in part: by cursor only, for offsets and totals count what others have."""
    if wanted.offset:
        raise Problem(400, "invalid-query", "With this key pages go by cursor; leave offset out.")
    scopes, store = ask.principal.scopes, ask.service.store
    if not scopes.read_types and wanted.tags is None:
        wanted = replace(wanted, tags=scopes.read_tags)

    async def read(before: int | None, limit: int) -> list[QueuedEvent]:
        return await store.events(replace(wanted, before_id=before, limit=limit))

    async def choose(events: Sequence[QueuedEvent]) -> list[QueuedEvent]:
        return [event for event in events if scopes.allows_read(event.type, event.tags)]

    found, more = await visible_page(read, choose, lambda event: event.id, before=wanted.before_id, limit=wanted.limit)
    cursor = None if more is None else str(more)
    return document(EventList(events=[_listed(event) for event in found], limit=wanted.limit, next_cursor=cursor))


def _filter(query: ListQuery) -> EventFilter:
    before = None
    if query.cursor is not None and query.cursor != "start":
        before = as_id(query.cursor)
        if before is None:
            detail = f"The cursor {query.cursor!r} is none of ours; take next_cursor as it is."
            raise Problem(400, "invalid-query", detail)
    try:
        tags = None if query.tags is None else frozenset(parse_tags(query.tags, most=MAX_WANTED_TAGS))
        kind = None if query.type is None else check_type(query.type)
        queue = None if query.queue is None else check_queue("The queue", query.queue)
        since = None if query.since is None else as_moment(query.since)
        until = None if query.until is None else as_moment(query.until)
    except InvalidEventError as error:
        raise Problem(400, "invalid-query", str(error)) from None
    if tags is not None and not tags:
        raise Problem(400, "invalid-query", "tags is empty; leave it out or name some.")
    return EventFilter(
        status=query.status,
        type=kind,
        tags=tags,
        queue=queue,
        since=since,
        until=until,
        limit=query.limit,
        offset=query.offset or 0,
        before_id=before,
    )


def _listed(event: QueuedEvent) -> ListedEvent:
    return ListedEvent(
        id=event.id,
        title=event.title,
        status=event.status,
        tags=event.sent_tags,
        retry_count=event.retry_count,
        created_at=event.created_at,
        updated_at=event.updated_at,
        next_retry_at=event.next_retry_at or UNSET,
        event_type=job_type(event.type),
    )


def _check_visible(ask: Ask, event: QueuedEvent) -> None:
    """What a key may not see is not there for it."""
    if not ask.principal.scopes.allows_read(event.type, event.tags):
        raise EventNotFound(f"Event not found: {event.id}")


async def show_event(ask: Ask) -> Answer:
    """One event, whole; one that was archived is read from the lake."""
    service, number = ask.service, ask.event_id
    found = await service.store.event(number)
    if found is None:
        past = await service.past(number)
        _check_visible(ask, past.event)
        body, entries = event_body(past.event, service.settings.max_retries), past.log
        body.archived = True
    else:
        _check_visible(ask, found)
        body = event_body(found, service.settings.max_retries)
        entries = await service.store.log(number) if ask.query.include_logs else []
    if ask.query.include_logs:
        body.logs = await logged(service.store, entries)
    return document(body)


_CLOUD: Final = (cloud_events.STRUCTURED_TYPE, cloud_events.BATCH_TYPE)
_JOB: Final = {
    "title": "Send Email Notification",
    "description": "Send welcome email to new user",
    "tags": "email,priority-high,notification",
    "payload": {"user_id": 12345, "email": "user@example.com", "template": "welcome"},
}
_KEY: Final = (("Idempotency-Key", "The same key with the same event again is the first event, not another."),)

OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/events",
        name="publish",
        summary="Publish an event: as work with tags, as a broadcast with event_type, or both",
        description="201 for work, 202 for a broadcast, 200 when the idempotency key was used for this event before. "
        "Answered after the commit. CloudEvents are accepted in binary, structured and batch form.",
        handle=publish,
        scope="publish",
        body=NewEventBody,
        answers={200: EventBody, 201: (EventBody, PublishedBatch), 202: EventBody},
        problems=(503,),
        limit=EVENT,
        accepts=("application/json", *_CLOUD),
        cloud_events=True,
        headers=_KEY,
        example=Example(body=_JOB),
    ),
    Operation(
        method="POST",
        path="/events/batch",
        name="publish_batch",
        summary="Publish up to 1,000 events, all of them or none",
        handle=publish_batch,
        scope="publish",
        described=NewEventBatch,
        body=NewEventBatch | Annotated[list[NewEventBody], Meta(min_length=1, max_length=1000)],
        answers={201: PublishedBatch},
        problems=(503,),
        limit=BATCH,
        accepts=("application/json", cloud_events.BATCH_TYPE),
        headers=_KEY,
        example=Example(body={"events": [_JOB, {"event_type": "order.placed", "payload": {"order": 7}}]}),
    ),
    Operation(
        method="GET",
        path="/events",
        name="list_events",
        summary="List events, newest first",
        handle=list_events,
        scope="read",
        in_part=True,
        query=ListQuery,
        answers={200: EventList},
        example=Example(query="status=PENDING&limit=10"),
    ),
    Operation(
        method="GET",
        path="/events/{id}",
        name="show_event",
        summary="One event, with its log if asked",
        description="An event that was archived is read from the lake, and says so.",
        handle=show_event,
        scope="read",
        in_part=True,
        query=DetailQuery,
        answers={200: EventBody},
        problems=(404,),
        example=Example(query="include_logs=true"),
    ),
)
