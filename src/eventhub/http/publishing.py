"""From a body to a stored event: work for one worker, a broadcast to subscribers, or both."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from eventhub.core.events import REPLAY_OF, QueuedEvent, Status
from eventhub.core.matching import check_type, parse_tags
from eventhub.core.scopes import JOB
from eventhub.errors import InvalidEventError, InvalidPayloadError
from eventhub.http.bodies.events import EventBody, NewEventBody
from eventhub.http.problems import Problem
from eventhub.hub.notices import NEWS
from eventhub.observe.tracing import remember_trace
from eventhub.store.composing import LONGEST_DELAY, MAX_KEY, Composer
from eventhub.store.values import NewEvent, Published

if TYPE_CHECKING:
    from eventhub.http.asking import Ask
    from eventhub.keys import Principal

__all__ = ["Publisher", "event_body", "job_type", "key_in"]

TEST: Final = "hub.test"
_ROOM_FOR_PLACE: Final = len("/999")


class Publisher:
    """Composes and describes what is published over HTTP; everything goes into one queue."""

    def __init__(self, composer: Composer, max_retries: int, *, queue: str) -> None:
        self._composer = composer
        self._queue = queue
        self._max_retries = max_retries

    def compose(self, body: NewEventBody, ask: Ask, key: str | None) -> NewEvent:
        """One event, checked against the rules and against what the key may publish."""
        if key is not None and body.idempotency_key not in (None, key):
            raise Problem(422, "invalid-event", "The idempotency keys in header and body differ; keep one.")
        return _placed(self._composed(body, self._fields(body, ask, key)), body, ask.principal)

    def compose_many(self, bodies: Sequence[NewEventBody], ask: Ask, key: str | None, *, under: str) -> list[NewEvent]:
        """All events of a batch, which are in its body under this pointer.

        A key of the batch becomes one for each of them that has none.
        """
        fields = []
        for place, body in enumerate(bodies):
            try:
                fields.append(self._fields(body, ask, None if key is None else _key_of_place(key, place)))
            except Problem as problem:
                raise _of_batch(problem, under, place) from None
        try:
            events = self._composer.many(fields)
        except InvalidEventError:
            self._blame(bodies, fields, under)
            raise
        for place, (event, body) in enumerate(zip(events, bodies, strict=True)):
            try:
                _placed(event, body, ask.principal)
            except Problem as problem:
                raise _of_batch(problem, under, place) from None
        return events

    def compose_again(
        self, event: QueuedEvent, ask: Ask, key: str | None, *, targets: Sequence[int] | None
    ) -> NewEvent:
        """A new event with what an old one said, and a link to it; with targets it goes to those subscribers alone."""
        fields: dict[str, Any] = {
            "type": event.type,
            "payload": event.payload,
            "metadata": remember_trace({**event.metadata, REPLAY_OF: str(event.id)}, ask.headers),
            "title": event.title,
            "description": event.description,
            "ordering_key": event.ordering_key,
            "idempotency_key": key,
        }
        if targets is None and event.queue == self._queue:
            fields["tags"] = event.sent_tags
        made = self._composer.one(fields, None, {})
        made.work = bool(made.route.tags)
        made.broadcast = targets is not None or event.type != JOB or not made.work
        made.targets = None if targets is None else tuple(targets)
        made.publisher = ask.principal.key_name
        return made

    def compose_test(self, subscriber: int) -> NewEvent:
        """An event for one subscriber that says nothing but that it arrives."""
        made = self._composer.one({"type": TEST, "payload": {"subscriber": subscriber, "test": True}}, None, {})
        made.work, made.broadcast, made.targets = False, True, (subscriber,)
        return made

    def _composed(self, body: NewEventBody, fields: dict[str, Any]) -> NewEvent:
        try:
            return self._composer.one(fields, None, {})
        except InvalidPayloadError:
            raise  # which has answers of its own
        except InvalidEventError as error:
            raise Problem(422, "invalid-event", str(error), pointer=_at_fault(body)) from None

    def _blame(self, bodies: Sequence[NewEventBody], fields: list[dict[str, Any]], under: str) -> None:
        """Find the first event of a batch that cannot be composed, and point to what is wrong with it."""
        for place, (body, given) in enumerate(zip(bodies, fields, strict=True)):
            try:
                self._composed(body, given)
            except Problem as problem:
                raise _of_batch(problem, under, place) from None

    def _fields(self, body: NewEventBody, ask: Ask, key: str | None) -> dict[str, Any]:
        kind, has_tags = _purpose(body)
        fields: dict[str, Any] = {
            "type": kind if kind is not None else JOB,
            "payload": None if body.payload is UNSET else body.payload,
        }
        metadata = remember_trace(body.metadata, ask.headers)
        if metadata:
            fields["metadata"] = metadata
        if has_tags:
            fields["tags"] = body.tags
        for name in ("title", "description", "ordering_key", "deliver_at", "priority"):
            value = getattr(body, name)
            if value is not None:
                fields[name] = value
        if body.delay_seconds is not None:
            fields["delay"] = body.delay_seconds
        own = body.idempotency_key if body.idempotency_key is not None else key
        if own is not None:
            fields["idempotency_key"] = own
        return fields

    def described(self, event: NewEvent, published: Published) -> EventBody:
        """A new event as its publisher sees it, without reading it again."""
        due: datetime | None = published.created_at + event.delay if event.delay is not None else event.deliver_at
        return EventBody(
            id=published.id,
            title=event.title,
            description=event.description,
            tags=event.tags,
            status=Status.PENDING,
            payload=msgspec.Raw(event.payload.encode()),
            retry_count=0,
            max_retries=self._max_retries,
            next_retry_at=due if due is not None and due > published.created_at else None,
            created_at=published.created_at,
            updated_at=published.created_at,
            event_type=job_type(event.type),
            metadata=msgspec.Raw(event.metadata.encode()) if event.metadata else UNSET,  # type: ignore[arg-type]
            ordering_key=event.ordering_key or UNSET,
            idempotency_key=event.idempotency_key or UNSET,
            published_by=event.publisher or UNSET,
        )


def _purpose(body: NewEventBody) -> tuple[str | None, bool]:
    """The type that it was given and whether it has tags, if there is somebody for whom it is, at a time to come."""
    if body.event_type is not None and body.type is not None and body.event_type != body.type:
        raise Problem(422, "invalid-event", "event_type and type say different things; keep one.", pointer="/type")
    kind = body.event_type if body.event_type is not None else body.type
    has_tags = any(tag.strip() for tag in (body.tags.split(",") if isinstance(body.tags, str) else body.tags or ()))
    if kind is None and not has_tags:
        raise Problem(
            422, "invalid-event", "Give tags for work, event_type for a broadcast, or both; neither is there."
        )
    if body.deliver_at is not None and body.deliver_at - datetime.now(UTC) > LONGEST_DELAY:
        detail = f"deliver_at is {body.deliver_at.isoformat()}; give a time at most ten years ahead."
        raise Problem(422, "invalid-event", detail, pointer="/deliver_at")
    return kind, has_tags


def _placed(event: NewEvent, body: NewEventBody, principal: Principal) -> NewEvent:
    """The event, if the key may publish it: its tags make it work, the type that it was given a broadcast."""
    if event.type.startswith(NEWS):
        raise Problem(403, "forbidden", f"Events of the type {event.type!r} are the hub's own; nobody else has them.")
    if not principal.scopes.allows_publish(event.type, event.route.tags):
        tags = f" with the tags {', '.join(event.route.tags)}" if event.route.tags else ""
        raise Problem(403, "forbidden", f"This key may not publish events of the type {event.type!r}{tags}.")
    event.publisher = principal.key_name
    event.work = bool(event.route.tags)
    event.broadcast = body.event_type is not None or body.type is not None
    if body.payload is UNSET and not event.work:
        detail = "A broadcast needs a payload, and there is none. Send one; null is one, too."
        raise Problem(422, "invalid-event", detail, pointer="/payload")
    return event


def _at_fault(body: NewEventBody) -> str:
    """A pointer to the member that broke the rules of composing, which its type alone cannot say."""
    named = (
        ("/tags", parse_tags, body.tags),
        ("/event_type", check_type, body.event_type),
        ("/type", check_type, body.type),
    )
    for pointer, check, value in named:
        try:
            if value is not None:
                check(value)
        except InvalidEventError:
            return pointer
    return "" if body.deliver_at is None else "/deliver_at"


def _key_of_place(key: str, place: int) -> str:
    """The key of one event of a batch; of a key that leaves no room for the place, its digest stands there."""
    if MAX_KEY - _ROOM_FOR_PLACE < len(key) <= MAX_KEY:
        key = f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"
    return f"{key}/{place}"


def _of_batch(problem: Problem, under: str, place: int) -> Problem:
    detail = f"Event {place} of the batch (counted from 0): {problem.detail}"
    pointer = f"{under}/{place}{problem.more.get('pointer', '')}"
    return Problem(problem.status, problem.kind, detail, pointer=pointer)


def job_type(kind: str) -> Any:
    """The type as clients see it: a job that was published without one has none."""
    return UNSET if kind == JOB else kind


def event_body(event: QueuedEvent, max_retries: int) -> EventBody:
    """An event that was read, whole."""
    return EventBody(
        id=event.id,
        title=event.title,
        description=event.description,
        tags=event.sent_tags,
        status=event.status,
        payload=event.payload,
        retry_count=event.retry_count,
        max_retries=max_retries,
        next_retry_at=event.next_retry_at,
        created_at=event.created_at,
        updated_at=event.updated_at,
        event_type=job_type(event.type),
        metadata=event.metadata or UNSET,
        ordering_key=event.ordering_key or UNSET,
        idempotency_key=event.idempotency_key or UNSET,
        errors=list(event.errors) or UNSET,
        published_by=event.published_by or UNSET,
    )


def key_in(ask: Ask) -> str | None:
    """The idempotency key of the request, under either of its names."""
    key, other = ask.header(b"idempotency-key"), ask.header(b"x-idempotency-key")
    if key is None:
        key = other
    elif other is not None and other != key:
        raise Problem(
            400, "duplicate-header", "Idempotency-Key and X-Idempotency-Key say different things. Send one of them."
        )
    if key is not None and not key.strip():
        raise InvalidEventError("The Idempotency-Key is empty; leave it out or give it a value.")
    return key
