"""Ending claims in PostgreSQL: one guarded statement for each kind of outcome; lanes are locked first, in order."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import index
from typing import Any, cast

import msgspec

from eventhub.core.lifecycle import Bury, Complete, Release, Retry, State
from eventhub.store.claims import Held
from eventhub.store.completions import Completions
from eventhub.store.postgres.publishing import SQL, column
from eventhub.store.postgres.reading import same
from eventhub.store.rows import to_current
from eventhub.store.values import Report, Route, Settled

__all__ = [
    "Freed",
    "advance",
    "answers_to_alike",
    "array_text",
    "bury",
    "complete",
    "complete_alike",
    "heads_in",
    "settle",
]

Freed = list[tuple[int, int]]
"""Deliveries that became ready: (route, event id), so that claims look for them where they are."""
Routes = Mapping[Route, int]
"""The numbers of routes that reports may name."""
Done = dict[tuple[int, int], datetime]
"""Reports that were accepted, by id and fence, and the time that the log says."""


def lanes_of(reports: Sequence[Report]) -> list[int]:
    return sorted({report.held.lane for report in reports if report.held.lane is not None})


async def settle(
    connection: Any, reports: list[Report], routes: Routes, now: datetime | None, *, hold: bool = False
) -> tuple[list[Settled], Freed]:
    """Apply reports, sorted by id so that two batches cannot wait for each other in a circle.

    Whatever is more than a plain completion has its rows locked beforehand, in order: it may be several statements,
    and a statement that waited for a row in its middle would not see that row as it is by then.
    """
    first = {_claim(report): report for report in reversed(reports)}
    ordered = [first[claim] for claim in sorted(first)]
    # By exact type: isinstance is slow on msgspec's classes when it has to say no, and this is asked of every report.
    kinds: dict[type, list[Report]] = {Complete: [], Bury: [], Retry: [], Release: []}
    for report in ordered:
        kinds[type(report.outcome)].append(report)
    lanes = lanes_of(ordered)
    freed: Freed = []
    if lanes:
        await connection.fetch(SQL.hold_lanes, lanes)
    if hold or len(kinds[Complete]) < len(ordered):
        await connection.fetch(SQL.hold_deliveries, [report.held.id for report in ordered])
    done = await _complete(connection, kinds[Complete], now)
    done |= await bury(connection, kinds[Bury], now, last_action="FAILED")
    for rows in (
        await _fail(connection, [r for r in kinds[Retry] if r.leased], routes, now),
        await _release(connection, [r for r in kinds[Release] if r.leased], now),
    ):
        done |= _done(rows)
        freed += [(row[3], row[4]) for row in rows if row[5] == State.READY]
    if lanes:
        freed += await advance(connection, heads_in(ordered, done), now)
    return await _answers(connection, reports, first, done), freed


async def complete(connection: Any, reports: list[Report], now: datetime | None) -> list[Settled]:
    """Apply completions of deliveries without lanes: one statement, a few passes over them in Python."""
    numbers = [report.held.id for report in reports]
    if numbers != sorted(set(numbers)):  # not each once and in order, as they were claimed
        settled, _ = await settle(connection, reports, {}, now)
        return settled
    at, ids, fences = await _write_completions(connection, reports, now)
    if ids is None:
        return [Settled(number, True, None, at) for number in numbers]
    return await _answers_to_once(connection, reports, zip(ids, fences, strict=True), at)


async def complete_alike(
    connection: Any, plain: Completions, now: datetime | None
) -> tuple[datetime, list[int] | None]:
    """Apply plain completions under one fence, in any order; when, and which were accepted, if not all of them."""
    took, alike = plain.took, len(set(plain.took)) == 1
    at, ids = await _one_row(
        connection,
        SQL.complete_alike,
        array_text(plain.ids),
        plain.fences[0],
        None if alike else array_text(took),
        index(took[0]) if alike and took[0] is not None else None,
        now,
    )
    return at, ids


async def answers_to_alike(
    connection: Any, reports: list[Report], fence: int, accepted: list[int], at: datetime
) -> list[Settled]:
    return await _answers_to_once(connection, reports, ((number, fence) for number in accepted), at)


async def _answers_to_once(
    connection: Any, reports: list[Report], accepted: Iterable[tuple[int, int]], at: datetime
) -> list[Settled]:
    """Each claim is reported once, and these were accepted."""
    first = {_claim(report): report for report in reports}
    return await _answers(connection, reports, first, dict.fromkeys(accepted, at))


async def _one_row(connection: Any, query: str, *args: Any) -> Any:
    (row,) = await connection.fetch(query, *args)
    return row


async def _answers(
    connection: Any, reports: list[Report], first: Mapping[tuple[int, int], Report], done: Done
) -> list[Settled]:
    """Of two reports of the same claim the first counts; who was refused is told how the delivery stands."""
    good = [_claim(report) in done and first[_claim(report)] is report for report in reports]
    refused = [report.held.id for report, accepted in zip(reports, good, strict=True) if not accepted]
    standing = {}
    if refused:
        standing = {row[0]: to_current(row, same) for row in await connection.fetch(SQL.standing, refused)}
    return [
        Settled(report.held.id, True, None, done[_claim(report)])
        if accepted
        else Settled(report.held.id, False, standing.get(report.held.id))
        for report, accepted in zip(reports, good, strict=True)
    ]


def _claim(report: Report) -> tuple[int, int]:
    """A delivery may be reported under several fences in one batch; only the current one counts."""
    return report.held.id, report.held.fence


def to_try_again(reports: list[Report], settled: Sequence[Settled]) -> dict[int, Report]:
    """By position: reports that were refused although their claim is current, with the lane they have.

    Either the caller did not know their lane, or their row was changed while the statement waited for it, as by a
    lease that was extended meanwhile: the statement then does not see the row it has locked.
    """
    again: dict[int, Report] = {}
    if all([answer.accepted for answer in settled]):  # noqa: C419 - the usual answer, and quicker as a list
        return again
    accepted = {_claim(report) for report, answer in zip(reports, settled, strict=True) if answer.accepted}
    for position, (report, answer) in enumerate(zip(reports, settled, strict=True)):
        now = answer.current
        if (
            now is not None
            and now.fence == report.held.fence
            and now.state is not State.PARKED
            and (now.state is State.LEASED) == report.leased
            and (report.leased or isinstance(report.outcome, Complete | Bury))
            and _claim(report) not in accepted
        ):
            again[position] = msgspec.structs.replace(report, held=Held(now.id, now.fence, now.lane))
    return again


def heads_in(reports: Iterable[Report], done: Done) -> dict[int, int | None]:
    """The keys that may go on after these reports, with the head that was reported; None when it may have been another.

    Whatever is leased is the head of its key, and stays so unless it has ended.
    """
    ended = [
        report
        for report in reports
        if report.held.lane is not None and _claim(report) in done and isinstance(report.outcome, Complete | Bury)
    ]
    return {cast("int", report.held.lane): report.held.id if report.leased else None for report in ended}


async def advance(connection: Any, heads: Mapping[int, int | None], now: datetime | None) -> Freed:
    """Keys whose head has left, and which it was if that is known: the next of each steps forward."""
    if not heads:
        return []
    rows = await connection.fetch(SQL.advance, list(heads), list(heads.values()), now)
    return [(row[0], row[1]) for row in rows if row[2] == State.READY]


def _done(rows: list[Any]) -> Done:
    return {(row[0], row[1]): row[2] for row in rows}


async def _complete(connection: Any, reports: list[Report], now: datetime | None) -> Done:
    if not reports:
        return {}
    at, ids, fences = await _write_completions(connection, reports, now)
    accepted = map(_claim, reports) if ids is None else zip(ids, fences, strict=True)
    return dict.fromkeys(accepted, at)


async def _write_completions(connection: Any, reports: list[Report], now: datetime | None) -> Any:
    """When they were completed, and the ids and fences of those that were, unless it is all of them."""
    leased = [r.leased for r in reports]
    return await _one_row(
        connection,
        SQL.complete,
        array_text([r.held.id for r in reports]),
        array_text([r.held.fence for r in reports]),
        None if all(leased) else leased,
        column([r.held.lane for r in reports]),
        array_text([r.outcome.execution_ms for r in reports]),  # type: ignore[union-attr]
        array_text(column([r.outcome.status_code for r in reports])),  # type: ignore[union-attr]
        now,
        _details(reports),
    )


def array_text(numbers: Sequence[int | None] | None) -> str | None:
    """Numbers as the text of an array. asyncpg looks at each element of an array by itself, which takes three times as
    long as to write them all down, and was a tenth of what a manager does.
    """
    if numbers is None:
        return None
    if None in numbers:
        return f"{{{','.join('NULL' if number is None else str(index(number)) for number in numbers)}}}"
    return f"{{{str(array('q', cast('Sequence[int]', numbers)).tolist())[1:-1]}}}"  # plain numbers, whatever they were


def _details(reports: list[Report]) -> list[str | None] | None:
    """The stories of attempts, if there are any: work has none, and then nothing is asked of the database."""
    return column([report.detail for report in reports])


async def _fail(connection: Any, reports: list[Report], routes: Routes, now: datetime | None) -> list[Any]:
    if not reports:
        return []
    outcomes: list[Retry] = [r.outcome for r in reports]  # type: ignore[misc]
    rows: list[Any] = await connection.fetch(
        SQL.fail,
        [r.held.id for r in reports],
        [r.held.fence for r in reports],
        [o.error for o in outcomes],
        [o.delay for o in outcomes],
        [o.execution_ms for o in outcomes],
        [o.status_code for o in outcomes],
        now,
        _details(reports),
        [None if r.again is None else routes[r.again] for r in reports],
    )
    return rows


async def _release(connection: Any, reports: list[Report], now: datetime | None) -> list[Any]:
    if not reports:
        return []
    rows: list[Any] = await connection.fetch(
        SQL.release,
        [r.held.id for r in reports],
        [r.held.fence for r in reports],
        [r.outcome.delay for r in reports],  # type: ignore[union-attr]
        now,
    )
    return rows


async def bury(
    connection: Any,
    reports: list[Report],
    now: datetime | None,
    *,
    last_action: str,
    ended_before: datetime | None = None,
) -> Done:
    """Write dead letters. The caller holds the lanes and advances them afterwards."""
    if not reports:
        return {}
    outcomes: list[Bury] = [r.outcome for r in reports]  # type: ignore[misc]
    rows = await connection.fetch(
        SQL.bury,
        [r.held.id for r in reports],
        [r.held.fence for r in reports],
        [r.leased for r in reports],
        [r.held.lane for r in reports],
        [o.error for o in outcomes],
        [str(o.reason) for o in outcomes],
        [str(o.status) for o in outcomes],
        [o.execution_ms for o in outcomes],
        [o.status_code for o in outcomes],
        ended_before,
        last_action,
        now,
        _details(reports),
    )
    return _done(rows)
