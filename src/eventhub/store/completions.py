"""Completions of plain work as columns: most reports say no more than that it is done, and need no answer each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, cast, final, overload

import msgspec

from eventhub.core.lifecycle import Complete
from eventhub.store.values import Report, Settled

__all__ = ["CompletedTogether", "Completions", "completions"]


class Completions(msgspec.Struct, frozen=True, gc=False):
    """Claims whose work is done: leased, without lanes, each once, and with nothing to tell but how long it took."""

    ids: list[int]
    fences: list[int]
    took: list[int | None]


def completions(reports: Sequence[Report]) -> Completions | None:
    """The reports as columns, if that is all they are. All reports come here, so a column is looked at as a whole."""
    held = [report.held for report in reports]
    ids = [one.id for one in held]
    outcomes = cast("list[Complete]", [report.outcome for report in reports])
    if (
        {type(outcome) for outcome in outcomes} != {Complete}
        or {one.lane for one in held} != {None}
        or {outcome.status_code for outcome in outcomes} != {None}
        or {report.detail for report in reports} != {None}
        or not all([report.leased for report in reports])  # noqa: C419 - quicker as a list
        or len(set(ids)) < len(ids)
    ):
        return None
    took = [outcome.execution_ms for outcome in outcomes]
    if any([milliseconds < 0 for milliseconds in took if milliseconds]):  # noqa: C419 - as above
        return None
    return Completions(ids, [one.fence for one in held], took)


@final
class CompletedTogether(Sequence[Settled]):
    """The answers to completions that were all accepted."""

    __slots__ = ("_at", "_ids")

    def __init__(self, ids: Sequence[int], at: datetime) -> None:
        self._ids = ids
        self._at = at

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, place: int) -> Settled: ...
    @overload
    def __getitem__(self, place: slice) -> CompletedTogether: ...
    def __getitem__(self, place: int | slice) -> Any:
        chosen: Any = self._ids[place]
        if isinstance(place, slice):
            return CompletedTogether(chosen, self._at)
        return Settled(chosen, True, None, self._at)

    def __iter__(self) -> Iterator[Settled]:
        return (Settled(number, True, None, self._at) for number in self._ids)
