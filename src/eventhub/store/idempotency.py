"""Idempotency keys of a batch: which events are new, which are the same again, and which calls must be refused.

Pure decisions, the same for both engines. An engine takes the keys in its table first, each for the first event of the
batch that names it; what it could not take belongs to earlier events, and is compared with them here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from eventhub.errors import IdempotencyConflict
from eventhub.store.batching import Answer
from eventhub.store.values import NewEvent, Published, Route

__all__ = ["Earlier", "Keys", "Scope", "earlier"]

Scope = tuple[str, str]
"""Whose key it is, and the key: each publisher has keys of its own in each queue, and so has the queue itself."""
Earlier = dict[Scope, tuple[Published, bytes | NewEvent]]
"""Events that were stored before this batch, by their keys: what was asked for, or only what an old one tells of it."""
Numbered = list[list[tuple[int, NewEvent]]]


class Keys:
    """The keys of a batch of calls whose events have been given numbers."""

    def __init__(self, calls: Sequence[Sequence[NewEvent]], numbers: Sequence[int]) -> None:
        following = iter(numbers)
        self.numbered: Numbered = [[(next(following), event) for event in call] for call in calls]
        self.first: dict[Scope, int] = {}
        self.asked: dict[int, bytes] = {}
        for call in self.numbered:
            for number, event in call:
                scope = _scope(event)
                if scope is not None:
                    self.first.setdefault(scope, number)
                    self.asked[number] = event.asked
        self._owners: dict[Scope, tuple[int, bytes]] = {}
        self._same: dict[int, Published | int] = {}
        self._refused: dict[int, IdempotencyConflict] = {}

    @property
    def each_once(self) -> bool:
        """Whether no two events of the batch share a key: when all keys are free, there is nothing to judge."""
        return len(self.first) == len(self.asked)

    def judge(self, earlier: Earlier) -> None:
        """Decide call by call: a call with one key that stands for another event is refused as a whole."""
        for index, call in enumerate(self.numbered):
            try:
                owners, same = self._judge_call(call, earlier)
            except IdempotencyConflict as conflict:
                self._refused[index] = conflict
            else:
                self._owners |= owners
                self._same |= same

    def _judge_call(
        self, call: list[tuple[int, NewEvent]], earlier: Earlier
    ) -> tuple[dict[Scope, tuple[int, bytes]], dict[int, Published | int]]:
        owners: dict[Scope, tuple[int, bytes]] = {}
        same: dict[int, Published | int] = {}
        for number, event in call:
            scope = _scope(event)
            if scope is None:
                continue
            known: tuple[Published | int, bytes | NewEvent] | None = (
                earlier.get(scope) or self._owners.get(scope) or owners.get(scope)
            )
            if known is None:
                owners[scope] = (number, self.asked[number])
                continue
            before = known[1]
            if not (event.was_asked(before) if isinstance(before, bytes) else event.same_event(before)):
                raise IdempotencyConflict(
                    f"The idempotency key {scope[1]!r} belongs to event "
                    f"{known[0] if isinstance(known[0], int) else known[0].id} already, and that event is different. "
                    "Use a new key for a new event."
                )
            same[number] = known[0]
        return owners, same

    def dropped(self, taken: set[Scope]) -> list[Scope]:
        """Keys that were taken for an event that is not stored after all."""
        return [s for s in taken if s not in self._owners or self._owners[s][0] != self.first[s]]

    def moved(self, taken: set[Scope]) -> dict[Scope, int]:
        """Of the dropped keys, those that a later call of the batch owns, with the event they stand for."""
        return {s: self._owners[s][0] for s in self.dropped(taken) if s in self._owners}

    def to_store(self) -> list[tuple[int, NewEvent]]:
        """The events that are new."""
        return [
            pair
            for index, call in enumerate(self.numbered)
            if index not in self._refused
            for pair in call
            if pair[0] not in self._same
        ]

    def answers(self, stored: dict[int, Published]) -> list[Answer[Published]]:
        """What each call is told."""
        return [
            self._refused.get(index) or [self._answer(number, stored) for number, _ in call]
            for index, call in enumerate(self.numbered)
        ]

    def _answer(self, number: int, stored: dict[int, Published]) -> Published:
        same = self._same.get(number)
        if same is None:
            return stored[number]
        if isinstance(same, int):  # the same key twice in one batch: the first of them
            return Published(same, stored[same].created_at, duplicate=True)
        return same


def earlier(row: Sequence[Any], time: Callable[[Any], datetime]) -> tuple[Published, bytes | NewEvent]:
    """An event that has a key already, from its row: asked, id, type, payload, metadata, tags, title, …, created_at."""
    asked, number, type_, payload, metadata, tags, title, description, ordering_key, created_at = row
    published = Published(number, time(created_at), duplicate=True)
    if asked is not None:
        return published, asked
    event = NewEvent(
        type=type_,
        payload=payload,
        route=Route(""),  # which is no part of what is compared
        metadata=metadata,
        tags=tags,
        title=title,
        description=description,
        ordering_key=ordering_key,
    )
    return published, event


def _scope(event: NewEvent) -> Scope | None:
    """No queue has a slash in its name, so none is taken for a publisher's. So do 13_prune.sql and 5_dead.sql."""
    if event.idempotency_key is None:
        return None
    queue = event.route.queue
    return (queue if event.publisher is None else f"{queue}/{event.publisher}"), event.idempotency_key
