"""Many events as columns: those that differ in their payloads only need no object each, nor do the answers to them.

The functions here take any sequence of new events, and are quick with such.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import accumulate
from typing import final, overload

import msgspec

from eventhub.store.batching import Answer
from eventhub.store.values import NewEvent, Published, Route

__all__ = ["PlainEvents", "PublishedTogether", "ids_of", "kinds_in", "routes_in", "shared_out"]


@final
class PlainEvents(Sequence[NewEvent]):
    """Events of one type on one route that are ready for any worker, kept as what differs: their payloads.

    A sequence of new events like any other, but bulk publishing needs no object for each of them.
    """

    __slots__ = ("like", "payloads")

    def __init__(self, like: NewEvent, payloads: list[str]) -> None:
        self.like = like
        """Any of them, but for the payload."""
        self.payloads = payloads

    def __len__(self) -> int:
        return len(self.payloads)

    @overload
    def __getitem__(self, place: int) -> NewEvent: ...
    @overload
    def __getitem__(self, place: slice) -> PlainEvents: ...
    def __getitem__(self, place: int | slice) -> NewEvent | PlainEvents:
        if isinstance(place, slice):
            return PlainEvents(self.like, self.payloads[place])
        return msgspec.structs.replace(self.like, payload=self.payloads[place])


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


def kinds_in(events: Sequence[NewEvent]) -> Sequence[NewEvent]:
    """Events that stand for all of them in everything but their payloads."""
    return (events.like,) if type(events) is PlainEvents else events


def ids_of(published: Sequence[Published]) -> list[int]:
    """The ids of published events, in their order."""
    return list(published.ids) if type(published) is PublishedTogether else [one.id for one in published]


def shared_out(published: Sequence[Published], calls: Sequence[Sequence[NewEvent]]) -> list[Answer[Published]]:
    """To each call its answers, of those to all of them in their order."""
    if len(calls) == 1:
        return [published]
    ends = list(accumulate(map(len, calls)))
    return [published[end - len(call) : end] for end, call in zip(ends, calls, strict=True)]


def routes_in(calls: Sequence[Sequence[NewEvent]]) -> set[Route]:
    """The routes of a batch; told apart by identity first, because there are few of them and many events."""
    return set({id(event.route): event.route for call in calls for event in kinds_in(call)}.values())
