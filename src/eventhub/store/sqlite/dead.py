"""The dead letter queue in SQLite: a fresh start, the end of a parked key, and the purge."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from eventhub.core.lifecycle import State
from eventhub.store.sqlite.publishing import SQL, ids
from eventhub.store.sqlite.settling import advance
from eventhub.store.values import lane_id

__all__ = ["purge", "retry_dead", "unpark"]


def retry_dead(connection: apsw.Connection, wanted: Sequence[int], by: str, now: int) -> set[int]:
    """Give dead deliveries a fresh start in their old place; returns those that were dead."""
    letters = list(connection.execute(SQL.dead_standing, {"ids": ids(wanted)}))
    if not letters:
        return set()
    connection.execute(SQL.return_routes, {"now": now, "ids": ids([letter[0] for letter in letters])})
    connection.execute(SQL.close_dead, {"now": now, "by": by, "ids": ids([letter[0] for letter in letters])})
    log = []
    for letter, number, event_id, lane, fence, key, consumer in letters:
        if not connection.execute(SQL.revive_parked, (number,)).fetchall():
            state = State.READY
            if lane is not None:
                connection.execute(SQL.lock_lanes, (lane, consumer, key))
                if connection.execute(SQL.taken_lanes, (ids([lane]),)).fetchall():
                    state = State.BEHIND
            connection.execute(SQL.revive, (letter, state))
        log.append((event_id, number, "RETRIED", by, 0, fence, None, None, None, now))
    connection.execute(SQL.drop_results, {"ids": ids([letter[1] for letter in letters])})
    connection.executemany(SQL.write_log, log)
    lanes = [letter[3] for letter in letters if letter[3] is not None]
    if lanes:
        connection.execute(SQL.step_back, {"lanes": ids(lanes)})
        advance(connection, lanes, now)
    return {letter[1] for letter in letters}


def purge(connection: apsw.Connection, letters: Sequence[int], retried_before: int | None) -> tuple[int, list[int]]:
    """Delete dead letters and the events that nothing else needs; how many were still dead, and of which events."""
    gone = connection.execute(SQL.purge, {"ids": ids(letters), "before": retried_before})
    events = [event for event, was_open in gone if was_open]
    if events:
        connection.execute(SQL.delete_events, {"ids": ids(events)})
        connection.execute(SQL.delete_keys, {"ids": ids(events)})
    return len(events), events


def unpark(connection: apsw.Connection, queue: str, key: str, by: str, now: int) -> bool:
    """Remove the dead head that holds a key; its dead letter stays."""
    lane = lane_id(queue, key)
    parked = connection.execute(SQL.parked, {"lane": lane}).fetchone()
    if parked is None:
        return False
    number, event_id = parked
    connection.execute(SQL.remove, {"ids": ids([number])})
    connection.execute(SQL.write_log, (event_id, number, "SKIPPED", by, None, None, None, None, None, now))
    advance(connection, [lane], now)
    return True
