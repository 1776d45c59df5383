"""From what a publisher gives, a mapping or a type and a payload, to an event that the store can take.

Everything is checked here, before anything is stored, but for most payloads of a large batch, which are checked while
it is being written. The plain case, a type and a payload, is kept short: bulk publishing spends most of its Python time
in this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any, Final, TypedDict

from eventhub.core.matching import MAX_TAGS, check_type, parse_tags
from eventhub.core.strict_json import dump, dump_many, dump_metadata, dump_pieces
from eventhub.errors import InvalidEventError
from eventhub.store.columns import Doubtful, PlainEvents
from eventhub.store.values import NewEvent, Route

__all__ = ["LONGEST_DELAY", "MAX_KEY", "Composer", "Details"]

MAX_KEY: Final = 255
MAX_TEXT: Final = 10_000
LONGEST_DELAY: Final = timedelta(days=3650)
FIRST_YEAR_TOO_FAR: Final = 9000
"""Near the end of its calendar, one database's time is another's infinity. Who has a clock may ask for less."""
PRIORITIES: Final = range(-1000, 1001)
_REMEMBERED: Final = 4096
_SHORT: Final = 256
"""Texts of tags that are remembered: few are longer, and those would fill the memory."""


class Details(TypedDict, total=False):
    """What an event may carry besides its type and payload."""

    metadata: dict[str, str] | None
    tags: str | Iterable[str] | None
    title: str | None
    description: str | None
    ordering_key: str | None
    idempotency_key: str | None
    deliver_at: datetime | None
    delay: timedelta | float | None
    priority: int | None


_NEEDED: Final = {"type": "give one such as 'invoice.paid'", "payload": "give one; None is JSON's null"}
_TYPE: Final = itemgetter("type")
_PAYLOAD: Final = itemgetter("payload")
_KEYED: Final = frozenset({*_NEEDED, "idempotency_key"})
_FIELDS: Final = frozenset(_NEEDED) | Details.__optional_keys__


class Composer:
    """Makes the new events of one queue. Unless ``routed`` tags and types are kept, but nobody chooses by them."""

    def __init__(
        self,
        queue: str,
        *,
        priority: int = 0,
        max_attempts: int | None = None,
        park_when_dead: bool = False,
        routed: bool = True,
    ) -> None:
        self._queue = queue
        self._priority = _priority(priority)
        self._max_attempts = max_attempts
        self._park_when_dead = park_when_dead
        self._routed = routed
        self._routes: dict[tuple[tuple[str, ...], int, str], Route] = {}
        self._types: dict[str, Route] = {}
        """The types that were checked, each with the route of events that have no more than a type and a payload."""

    def one(self, event: object, payload: Any, details: Mapping[str, Any]) -> NewEvent:
        """The event of a single publish: a mapping, or a type and a payload with details beside them."""
        if isinstance(event, str) and (route := self._types.get(event)) is not None and not details:
            return NewEvent(type=event, payload=dump(payload), route=route, max_attempts=self._max_attempts)
        if isinstance(event, Mapping):
            if payload is not None or details:
                beside = ", ".join((["payload"] if payload is not None else []) + sorted(details))
                raise InvalidEventError(
                    f"The event is a mapping and {beside} stands beside it; put everything into the mapping."
                )
            return self._from(event)
        return self._from({"type": event, "payload": payload, **details})

    def together(self, events: Sequence[Mapping[str, Any]]) -> Sequence[NewEvent]:
        """As ``many``, for events that nobody changes: those that differ in their payloads only stay a column.

        Of that column only the beginning is checked here. Whoever meets ``Doubtful`` later takes ``many``.
        """
        try:
            (name,), (fields,) = set(map(_TYPE, events)), set(map(len, events))
            payloads = list(map(_PAYLOAD, events))
        except (TypeError, KeyError, IndexError, ValueError):  # of several kinds, or one of them is to blame
            return self.many(events)
        if fields != len(_NEEDED) or name not in self._types:
            return self.many(events)
        return self._column(name, payloads) or self.many(events)

    def alike(self, type_: str, payloads: Sequence[Any]) -> Sequence[NewEvent]:
        """As ``together``, for a type and the payloads alone."""
        name = type_ if type_ in self._types else self._type(type_)
        return self._column(name, payloads) or self.many([{"type": name, "payload": payload} for payload in payloads])

    def _column(self, name: str, payloads: Sequence[Any]) -> Sequence[NewEvent] | None:
        """Plain events whose first few payloads are good; None if one of these needs a closer look."""
        like = NewEvent(type=name, payload="", route=self._types[name], max_attempts=self._max_attempts)
        plain = PlainEvents(like, dump_pieces(payloads), len(payloads))
        try:
            plain.check_some()
        except Doubtful:
            return None
        return plain

    def many(self, events: Iterable[Mapping[str, Any]], *, texts: Sequence[str | None] | None = None) -> list[NewEvent]:
        """The events of a bulk publish; an error says which of them is to blame.

        ``texts`` are their payloads as they are to be stored, where these are known (see ``ready_texts``).
        """
        events = list(events)
        known, limit = self._types, self._max_attempts
        composed: list[NewEvent] = []
        add = composed.append
        try:
            for event, text in zip(events, texts or _payloads(events), strict=True):
                name: Any = None if text is None else event.get("type")
                route = known.get(name) if isinstance(name, str) else None
                if text is None or route is None:
                    add(self._from(event, text))
                elif len(event) == len(_NEEDED):
                    add(NewEvent(type=name, payload=text, route=route, max_attempts=limit))
                elif event.keys() == _KEYED:
                    key = _key("idempotency_key", event["idempotency_key"])
                    add(NewEvent(type=name, payload=text, route=route, max_attempts=limit, idempotency_key=key))
                else:
                    add(self._from(event, text))
        except InvalidEventError as error:
            raise type(error)(f"Event {len(composed)} of the batch (counted from 0): {error}") from None
        return composed

    def _from(self, event: Mapping[str, Any], payload: str | None = None) -> NewEvent:
        if not isinstance(event, Mapping):
            raise InvalidEventError(
                f"The event is a {type(event).__name__}; "
                "give a mapping such as {'type': 'invoice.paid', 'payload': …}."
            )
        if not _FIELDS.issuperset(event):
            unknown = ", ".join(sorted(repr(field) for field in event if field not in _FIELDS))
            raise InvalidEventError(f"The event has no field {unknown}; it takes {', '.join(sorted(_FIELDS))}.")
        for field, remedy in _NEEDED.items():
            if field not in event:
                raise InvalidEventError(f"The event has no {field}; {remedy}.")
        tags, sent_tags = _tags(event.get("tags"))
        priority = event.get("priority")
        name = self._type(event["type"])
        return NewEvent(
            type=name,
            payload=dump(event["payload"]) if payload is None else payload,
            route=self._route(tags, self._priority if priority is None else _priority(priority), name),
            metadata=dump_metadata(event.get("metadata")),
            tags=sent_tags,
            title=_text("title", event.get("title"), MAX_TEXT),
            description=_text("description", event.get("description"), MAX_TEXT),
            ordering_key=_key("ordering_key", event.get("ordering_key")),
            idempotency_key=_key("idempotency_key", event.get("idempotency_key")),
            park_when_dead=self._park_when_dead,
            max_attempts=self._max_attempts,
            **_due(event.get("delay"), event.get("deliver_at")),
        )

    def _type(self, value: object) -> str:
        name = check_type(value)
        if name not in self._types:
            if len(self._types) >= _REMEMBERED:
                self._types.clear()
            self._types[name] = self._route((), self._priority, name)
        return name

    def _route(self, tags: tuple[str, ...], priority: int, name: str) -> Route:
        key = (tags, priority, name) if self._routed else ((), priority, "")
        route = self._routes.get(key)
        if route is None:
            if len(self._routes) >= _REMEMBERED:
                self._routes.clear()
            route = self._routes[key] = Route(self._queue, *key)
        return route


def _payloads(events: list[Mapping[str, Any]]) -> Sequence[str | None]:
    """The texts of the payloads, where they can be had together; an event that is not even a mapping has none."""
    try:
        return dump_many([event["payload"] for event in events])
    except (TypeError, KeyError, IndexError):
        return [None] * len(events)


def _tags(tags: object) -> tuple[tuple[str, ...], str | None]:
    """The set of tags that work is routed by, and the text in which they are given back."""
    if tags is None:
        return (), None
    if isinstance(tags, str):
        return _tags_of_text(tags) if len(tags) <= _SHORT else (parse_tags(tags), tags)
    if not isinstance(tags, Iterable):
        raise InvalidEventError(f"tags is {tags!r}; give 'a, b' or ['a', 'b'].")
    listed = list(islice(tags, MAX_TAGS + 1))
    parsed = parse_tags(listed)
    return parsed, ",".join(str(tag).strip() for tag in listed) or None


@lru_cache(_REMEMBERED)
def _tags_of_text(tags: str) -> tuple[tuple[str, ...], str | None]:
    return parse_tags(tags), tags or None


def _priority(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value not in PRIORITIES:
        raise InvalidEventError(
            f"priority is {value!r}; give a whole number from {PRIORITIES[0]} to {PRIORITIES[-1]}, "
            "the higher goes first."
        )
    return value


def _key(name: str, value: object) -> str | None:
    if value == "":
        raise InvalidEventError(f"{name} is empty; leave it out or give it a value.")
    return _text(name, value, MAX_KEY)


def _text(name: str, value: object, limit: int) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidEventError(f"{name} is a {type(value).__name__}; give a string.")
    if len(value) > limit:
        raise InvalidEventError(f"{name} has {len(value):,} characters; at most {limit:,} are allowed.")
    if not value.isascii() or "\x00" in value:
        dump(value, what=name)
    return value


def _due(delay: object, deliver_at: object) -> dict[str, Any]:
    if delay is None and deliver_at is None:
        return {}
    if delay is not None and deliver_at is not None:
        raise InvalidEventError("Both delay and deliver_at are given; keep one.")
    if deliver_at is not None:
        if not isinstance(deliver_at, datetime) or deliver_at.tzinfo is None:
            raise InvalidEventError(f"deliver_at is {deliver_at!r}; give a datetime with a time zone.")
        if deliver_at.year >= FIRST_YEAR_TOO_FAR:
            raise InvalidEventError(
                f"deliver_at is {deliver_at.isoformat()}; give a time before the year {FIRST_YEAR_TOO_FAR}."
            )
        try:
            return {"deliver_at": deliver_at.astimezone(UTC)}
        except OverflowError:
            raise InvalidEventError(f"deliver_at is {deliver_at.isoformat()}; in UTC there is no such time.") from None
    try:
        wait = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidEventError(f"delay is {delay!r}; give a timedelta or seconds.") from None
    if not timedelta(0) <= wait <= LONGEST_DELAY:
        raise InvalidEventError(f"delay is {delay!r}; give seconds or a timedelta, from 0 to ten years.")
    return {"delay": wait} if wait else {}
