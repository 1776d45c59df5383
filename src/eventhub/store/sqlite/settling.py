"""Ending claims in SQLite: completed, to be tried again, given up or given back, each guarded by id, fence and state.

Everything here runs on the writer's connection inside its transaction: the rows read first guard what is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import apsw

from eventhub.core.lifecycle import Bury, Complete, Reason, Release, Retry, State
from eventhub.store.claims import Held
from eventhub.store.completions import CompletedTogether, Completions, completions
from eventhub.store.rows import from_micros, to_current
from eventhub.store.sqlite.publishing import SQL, ids
from eventhub.store.values import Current, Report, Route, Settled, Tended

__all__ = ["abandon", "settle", "standing", "tend"]

CLOCK_STEP = 5_000_000
"""The clock is noted when it is so many microseconds above what was noted, and was set back when it is as far below."""
_MICROSECOND = timedelta(microseconds=1)


def standing(connection: apsw.Connection, wanted: Sequence[int]) -> dict[int, tuple[Any, ...]]:
    """Rows by id: (id, event_id, fence, state, lane, worker, attempts, max_attempts, due, parks)."""
    return {row[0]: row for row in connection.execute(SQL.standing, {"ids": ids(wanted)})}


def settle(
    connection: apsw.Connection, reports: Sequence[Report], routes: Mapping[Route, int], now: int
) -> Sequence[Settled]:
    """Apply reports; those whose claim is not current change nothing."""
    plain = completions(reports)
    if plain is not None and _complete(connection, plain, now):
        return CompletedTogether(plain.ids, from_micros(now))
    rows = standing(connection, [report.held.id for report in reports])
    accepted: list[tuple[tuple[Any, ...], Report]] = []
    refused: dict[int, int] = {}
    for position, report in enumerate(reports):
        row = rows.get(report.held.id)
        if row is not None and _is_good(report, row):
            accepted.append((row, report))
            del rows[report.held.id]  # a second report of the same claim in this batch comes too late
        else:
            refused[position] = report.held.id
    _tell_attempts(connection, accepted, now)
    _apply(connection, accepted, routes, now)
    current = current_of(connection, list(refused.values())) if refused else {}
    at = from_micros(now)
    return [
        Settled(report.held.id, False, current.get(report.held.id))
        if position in refused
        else Settled(report.held.id, True, None, at)
        for position, report in enumerate(reports)
    ]


def _complete(connection: apsw.Connection, plain: Completions, now: int) -> bool:
    """Complete plain work, if every claim is current: a few statements, however many they are.

    Row by row, SQLite's thread would have to wait for Python each time, which is busy with handlers.
    """
    done = ids(plain.ids)
    if connection.execute(SQL.count_current, {"ids": done, "fences": ids(plain.fences)}).get < len(plain.ids):
        return False
    took = ids([-1 if milliseconds is None else milliseconds for milliseconds in plain.took])
    connection.execute(SQL.log_completed, {"ids": done, "took": took, "now": now})
    _delete(connection, plain.ids)
    return True


def _is_good(report: Report, row: tuple[Any, ...]) -> bool:
    if row[2] != report.held.fence:
        return False
    if report.leased:
        return bool(row[3] == State.LEASED)
    return row[3] not in (State.LEASED, State.PARKED) and isinstance(report.outcome, Complete | Bury)


def _tell_attempts(connection: apsw.Connection, accepted: list[tuple[tuple[Any, ...], Report]], now: int) -> None:
    """Before the rows go, which say whose attempts these were."""
    told = [
        (row[0], row[2], row[1], "COMPLETED" if isinstance(report.outcome, Complete) else "FAILED", now, report.detail)
        for row, report in accepted
        if report.detail is not None
    ]
    if told:
        connection.executemany(SQL.tell_attempt, told)


def _apply(
    connection: apsw.Connection, accepted: list[tuple[tuple[Any, ...], Report]], routes: Mapping[Route, int], now: int
) -> None:
    log: list[tuple[Any, ...]] = []
    gone: list[tuple[Any, ...]] = []
    buried: list[tuple[tuple[Any, ...], Bury]] = []
    for row, report in accepted:
        outcome = report.outcome
        number, event_id, fence, _, _, worker, attempts = row[:7]
        if isinstance(outcome, Complete):
            gone.append(row)
            log.append(
                (event_id, number, "COMPLETED", worker, attempts, fence, outcome.status_code, None,
                 outcome.execution_ms, now)
            )  # fmt: skip
        elif isinstance(outcome, Retry):
            again = None if report.again is None else routes[report.again]
            connection.execute(SQL.fail, (number, fence, _later(outcome.delay, now), outcome.error, again))
            log.append(
                (event_id, number, "FAILED", worker, attempts, fence, outcome.status_code, outcome.error,
                 outcome.execution_ms, now)
            )  # fmt: skip
        elif isinstance(outcome, Release):
            connection.execute(SQL.release, (number, fence, _later(outcome.delay, now)))
            log.append((event_id, number, "RELEASED", worker, attempts - 1, fence, None, None, None, now))
        else:
            buried.append((row, outcome))
    if log:
        connection.executemany(SQL.write_log, log)
    if gone:
        _remove(connection, gone, now)
    if buried:
        bury(connection, buried, now, last_action="FAILED")


def _later(delay: timedelta, now: int) -> int | None:
    wait = delay // _MICROSECOND
    return now + wait if wait > 0 else None


def _delete(connection: apsw.Connection, numbers: list[int]) -> None:
    connection.execute(SQL.remove, {"ids": ids(numbers)})
    connection.execute(SQL.drop_results, {"ids": ids(numbers)})


def _remove(connection: apsw.Connection, rows: list[tuple[Any, ...]], now: int) -> None:
    """Settled deliveries go, and their keys go on."""
    _delete(connection, [row[0] for row in rows])
    advance(connection, [row[4] for row in rows if row[4] is not None], now)


def advance(connection: apsw.Connection, lanes: list[int], now: int) -> None:
    """Keys whose head has left: the next steps forward, and a key with nothing left is forgotten."""
    if lanes:
        connection.execute(SQL.advance, {"now": now, "lanes": ids(lanes)})
        connection.execute(SQL.drop_lanes, {"lanes": ids(lanes)})


def bury(connection: apsw.Connection, dying: list[tuple[tuple[Any, ...], Bury]], now: int, *, last_action: str) -> None:
    """Write dead letters; the dead leave, or stay parked when their key must be held."""
    log: list[tuple[Any, ...]] = []
    for row, outcome in dying:
        number, event_id, fence, _, _, worker, attempts = row[:7]
        if outcome.error is not None:
            connection.execute(SQL.add_error, (number, outcome.error))
            log.append(
                (event_id, number, last_action, worker, attempts, fence, outcome.status_code, outcome.error,
                 outcome.execution_ms, now)
            )  # fmt: skip
        connection.execute(SQL.bury, (number, outcome.reason, outcome.status, now))
        if outcome.reason != Reason.CANCELLED:  # of which the log tells otherwise
            log.append((event_id, number, "DEAD", worker, attempts, fence, None, outcome.reason, None, now))
    connection.executemany(SQL.write_log, log)
    parked = [
        row[0]
        for row, outcome in dying
        if row[9] and row[4] is not None and row[3] != State.BEHIND and outcome.reason != Reason.CANCELLED
    ]
    if parked:
        connection.execute(SQL.park, {"ids": ids(parked)})
    leaving = [row for row, _ in dying if row[0] not in parked]
    if leaving:
        _remove(connection, leaving, now)


def set_back(seen: int, now: int) -> bool:
    """Whether the clock is well below what a sweep has seen."""
    return now <= seen - CLOCK_STEP


def tend(connection: apsw.Connection, now: int, limit: int) -> Tended:
    """Promote due retries and abandon ended leases, by a clock that may have been set back."""
    ((_, _, seen),) = connection.execute(SQL.sweep)
    if set_back(seen, now):
        connection.execute(SQL.follow_clock, {"high": seen, "now": now})
        connection.execute(SQL.follow_clock_in_fanout, {"high": seen, "now": now})
    if abs(now - seen) >= CLOCK_STEP:
        connection.execute(SQL.note_clock, {"now": now})
    due = [number for (number,) in connection.execute(SQL.due_waiting, {"now": now, "limit": limit})]
    if due:
        connection.execute(SQL.promote, {"ids": ids(due)})
    ended = list(connection.execute(SQL.ended_leases, {"now": now, "limit": limit}))
    abandoned, buried = abandon(connection, ended, now) if ended else (0, ())
    return Tended(promoted=len(due), abandoned=abandoned, buried=buried)


def abandon(connection: apsw.Connection, held: list[tuple[Any, ...]], now: int) -> tuple[int, tuple[int, ...]]:
    """Take claims back: each counts as a failed attempt, and the last one allowed ends in the dead letter queue."""
    rows = standing(connection, [row[0] for row in held])
    dying: list[tuple[tuple[Any, ...], Bury]] = []
    log: list[tuple[Any, ...]] = []
    abandoned = 0
    for number, row in rows.items():
        _, event_id, fence, _, _, worker, attempts, max_attempts = row[:8]
        error = f"Abandoned: {worker} did not report before its lease ended."
        if max_attempts is not None and attempts >= max_attempts:
            dying.append((row, Bury(error, Reason.WORKER_LOST)))
            continue
        connection.execute(SQL.fail, (number, fence, None, error, None))
        log.append((event_id, number, "ABANDONED", worker, attempts, fence, None, error, None, now))
        abandoned += 1
    if log:
        connection.executemany(SQL.write_log, log)
    if dying:
        bury(connection, dying, now, last_action="ABANDONED")
    return abandoned, tuple(row[0] for row, _ in dying)


def current_of(connection: apsw.Connection, wanted: Sequence[int]) -> dict[int, Current]:
    return {row[0]: to_current(row, from_micros) for row in connection.execute(SQL.current, {"ids": ids(wanted)})}


def extend(connection: apsw.Connection, held: Sequence[Held], until: int) -> set[int]:
    """Lengthen leases; returns the ids whose claim is lost."""
    kept = connection.executemany(SQL.extend, [(claim.id, claim.fence, until) for claim in held])
    return {claim.id for claim in held} - {number for (number,) in kept}


def start(connection: apsw.Connection, held: Sequence[Held], until: int, now: int) -> set[int]:
    """Lengthen leases and log that the work has begun; returns the ids whose claim is lost."""
    lost = extend(connection, held, until)
    kept = [claim.id for claim in held if claim.id not in lost]
    if kept:
        connection.execute(SQL.log_started, {"now": now, "ids": ids(kept)})
    return lost
