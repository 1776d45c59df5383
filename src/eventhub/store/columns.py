"""Many events as columns: those that differ in their payloads only need no object each, nor do the answers to them.

To check the payloads of a large batch takes about as long as a server takes to write the other rows of its events,
which do not depend on them. So they are checked when they are asked for: PostgreSQL lays out those rows meanwhile. A
payload that is in doubt ends all of it, and nothing is stored.

The functions here take any sequence of new events, and are quick with such.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import accumulate
from operator import attrgetter
from typing import Final, TypeGuard, TypeVar, cast, final, overload

import msgspec

from eventhub.store.batching import Answer
from eventhub.store.values import NewEvent, Published, Route

__all__ = [
    "Doubtful",
    "PlainEvents",
    "PublishedTogether",
    "bare_one",
    "check",
    "ids_of",
    "is_bare",
    "is_large",
    "is_unchecked",
    "kinds_in",
    "routes_in",
    "shared_out",
]

R = TypeVar("R")
LARGE: Final = 500
"""Events of a batch whose payloads take so long to check that something else is done meanwhile."""


_DETAILS: Final = attrgetter(
    *("metadata", "tags", "title", "description", "ordering_key", "idempotency_key"),
    *("delay", "deliver_at", "worker", "targets", "publisher", "handlers", "work", "completed", "broadcast"),
)
_NO_DETAILS: Final = (*(None,) * 12, True, False, False)


class Doubtful(Exception):
    """A payload needs a closer look than many together get: it may be wrong, or has to be written in another way."""


@final
class PlainEvents(Sequence[NewEvent]):
    """Events of one type on one route that are ready for any worker, kept as what differs: their payloads.

    A sequence of new events like any other, but bulk publishing needs no object for each of them. Whoever asks for a
    payload may meet ``Doubtful``.
    """

    __slots__ = ("_checked", "_coming", "_count", "like")

    def __init__(self, like: NewEvent, payloads: Iterable[Sequence[str | None]], count: int) -> None:
        """The payloads come in pieces, with None for one that is in doubt."""
        self.like = like
        """Any of them, but for the payload."""
        self._count = count
        self._coming = iter(payloads)
        self._checked: list[str] = []

    @property
    def checked(self) -> bool:
        """Whether all payloads are known to be good."""
        return len(self._checked) == self._count

    @property
    def payloads(self) -> list[str]:
        """All of them."""
        while not self.checked:
            self.check_some()
        return self._checked

    def check_some(self) -> None:
        """Check the next few."""
        texts = next(self._coming, ())
        if not texts or None in texts:
            self._coming = iter(())  # whoever asks again hears the same
            raise Doubtful
        self._checked += cast("Sequence[str]", texts)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> NewEvent: ...
    @overload
    def __getitem__(self, place: slice) -> PlainEvents: ...
    def __getitem__(self, place: int | slice) -> NewEvent | PlainEvents:
        chosen = self.payloads[place]
        if isinstance(chosen, str):
            return msgspec.structs.replace(self.like, payload=chosen)
        return PlainEvents(self.like, [chosen], len(chosen))


@final
class PublishedTogether(Sequence[Published]):
    """The answers to many new events that differ in their ids only."""

    __slots__ = ("created_at", "ids", "told")

    def __init__(self, ids: Sequence[int], created_at: datetime, *, told: bool = False) -> None:
        self.ids = ids
        self.created_at = created_at
        self.told = told

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> Published: ...
    @overload
    def __getitem__(self, place: slice) -> PublishedTogether: ...
    def __getitem__(self, place: int | slice) -> Published | PublishedTogether:
        if isinstance(place, slice):
            return PublishedTogether(self.ids[place], self.created_at, told=self.told)
        return Published(self.ids[place], self.created_at, told=self.told)

    def __iter__(self) -> Iterator[Published]:
        return (Published(number, self.created_at, told=self.told) for number in self.ids)


def is_bare(event: NewEvent) -> bool:
    """Whether it is ready for any worker and has nothing but a type and a payload."""
    return _DETAILS(event) == _NO_DETAILS


def bare_one(events: Sequence[NewEvent]) -> NewEvent | None:
    """The event of a call that publishes a single one, if it is bare: most that are published alone are."""
    return events[0] if len(events) == 1 and is_bare(events[0]) else None


def kinds_in(events: Sequence[NewEvent]) -> Sequence[NewEvent]:
    """Events that stand for all of them in everything but their payloads."""
    return (events.like,) if type(events) is PlainEvents else events


def check(events: Sequence[NewEvent]) -> None:
    """Check what was not checked yet."""
    if type(events) is PlainEvents:
        _ = events.payloads


def is_large(events: Sequence[NewEvent]) -> bool:
    """Whether it is worth while to write as the payloads are checked."""
    return type(events) is PlainEvents and len(events) >= LARGE


def is_unchecked(calls: Sequence[Sequence[NewEvent]]) -> TypeGuard[Sequence[PlainEvents]]:
    """Whether it is a single call whose payloads are still to be checked."""
    return len(calls) == 1 and type(calls[0]) is PlainEvents and not calls[0].checked


def ids_of(published: Sequence[Published]) -> list[int]:
    """The ids of published events, in their order."""
    return list(published.ids) if type(published) is PublishedTogether else [one.id for one in published]


def shared_out(answers: Sequence[R], calls: Sequence[Sequence[object]]) -> list[Answer[R]]:
    """To each call its answers, of those to all of them in their order."""
    if len(calls) == 1:
        return [answers]
    ends = list(accumulate(map(len, calls)))
    return [answers[end - len(call) : end] for end, call in zip(ends, calls, strict=True)]


def routes_in(calls: Sequence[Sequence[NewEvent]]) -> set[Route]:
    """The routes of a batch; told apart by identity first, because there are few of them and many events."""
    return set({id(event.route): event.route for call in calls for event in kinds_in(call)}.values())
