"""Rows of either engine turned into values; only the form of times and JSON differs, and is passed in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from eventhub.core.events import Action, DeadEvent, LogEntry, QueuedEvent, Status
from eventhub.core.lifecycle import State, event_status
from eventhub.core.strict_json import decode, dump, readable
from eventhub.store.claims import FIRST_CLAIM, Claim, Held, Lease, Unread
from eventhub.store.incarnations import Incarnation
from eventhub.store.routes import KnownRoutes
from eventhub.store.values import ApiKey, Current, NewEvent, Orphan, Published, QueueStats, WorkerSeen

__all__ = [
    "as_published",
    "from_micros",
    "key_columns",
    "micros",
    "queue_stats",
    "split_tags",
    "to_claimed",
    "to_claims",
    "to_current",
    "to_dead",
    "to_key",
    "to_log",
    "to_orphan",
    "to_queued",
    "to_tag_sets",
    "to_worker",
]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PROCESSING = Status.PROCESSING  # to name it by its class each time costs more than to make the rest of a row
_NOTHING_MORE = (None,) * 6  # metadata, tags, title, description, ordering key, idempotency key


def micros(moment: datetime) -> int:
    """Microseconds since 1970, exact."""
    return (moment - EPOCH) // _MICROSECOND


def from_micros(value: int) -> datetime:
    """The time; a number that is none, which somebody else wrote, becomes the nearest: it must not stop the others."""
    try:
        return EPOCH + timedelta(microseconds=value)
    except OverflowError:
        return LAST if value > 0 else FIRST


def split_tags(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()


def _metadata(text: str) -> dict[str, str]:
    """The metadata; one that was damaged reads as none, for the same reason."""
    found = readable(text)
    return found if isinstance(found, dict) else {}


def to_claims(
    rows: Iterable[Sequence[Any]],
    *,
    raised: int,
    queue: str,
    now: datetime,
    until: datetime,
    time: Callable[[Any], datetime],
    incarnation: Incarnation | None = None,
) -> list[Claim]:
    """Claimed rows: id, fence, attempts, failures, lane, max_attempts, the event's columns, and its queue if it may be
    another than ``queue``.

    ``raised`` is what the claim added to fence and attempts after the row was read. Most events have nothing but a type
    and a payload and are claimed for the first time: these are not even read here.
    """
    lease, before = Lease(queue, now, until), FIRST_CLAIM - raised
    if incarnation is not None:
        lease = Lease(queue, now, until, incarnation.fence + FIRST_CLAIM, incarnation.began_at)
    return [
        Claim(Held(row[0], FIRST_CLAIM), Unread(row[15], row[6], row[7], time(row[14]), lease), row[5], len(row[7]))
        if row[1] == row[2] == before and row[8:14] == _NOTHING_MORE and row[4] is None and row[16] is None
        else _claim(row, raised, lease, time)
        for row in rows
    ]


def _claim(row: Sequence[Any], raised: int, lease: Lease, time: Callable[[Any], datetime]) -> Claim:
    held = Held(row[0], row[1] + raised, row[4])
    return Claim(held, to_claimed(row, raised, lease, time), row[5], len(row[7]), lease.is_again(held))


def to_claimed(row: Sequence[Any], raised: int, lease: Lease, time: Callable[[Any], datetime]) -> QueuedEvent:
    """The event of a claimed row."""
    return QueuedEvent(
        id=row[15],
        type=row[6],
        payload=readable(row[7]),
        metadata=_metadata(row[8]) if row[8] else {},
        tags=split_tags(row[9]) if row[9] else (),
        sent_tags=row[9],
        title=row[10],
        description=row[11],
        ordering_key=row[12],
        idempotency_key=row[13],
        created_at=time(row[14]),
        status=_PROCESSING,
        attempts=row[2] + raised,
        retry_count=row[3],
        queue=row[16] or lease.queue,
        fence=row[1] + raised,
        updated_at=lease.begins,
        lease_expires_at=lease.ends,
    )


def as_published(new: NewEvent, published: Published) -> QueuedEvent:
    """An event just as it was stored, without reading it again."""
    leased_until = published.created_at + new.lease if published.leased and new.lease is not None else None
    due = published.created_at + new.delay if new.delay is not None else new.deliver_at
    return QueuedEvent(
        id=published.id,
        type=new.type,
        payload=decode(new.payload),
        metadata=decode(new.metadata) if new.metadata else {},
        tags=split_tags(new.tags),
        sent_tags=new.tags,
        title=new.title,
        description=new.description,
        ordering_key=new.ordering_key,
        idempotency_key=new.idempotency_key,
        created_at=published.created_at,
        status=Status.PROCESSING if published.leased else Status.PENDING,
        attempts=int(published.leased),
        queue=new.route.queue,
        fence=int(published.leased),
        updated_at=published.created_at,
        lease_expires_at=leased_until,
        next_retry_at=due,
    )


def _facts(row: Sequence[Any], time: Callable[[Any], datetime]) -> dict[str, Any]:
    """The event's own columns, which every reading query has first and in this order."""
    id_, type_, payload, metadata, tags, title, description, ordering_key, idempotency_key, created_at = row[:10]
    return {
        "id": id_,
        "type": type_,
        "payload": readable(payload),
        "metadata": _metadata(metadata) if metadata else {},
        "tags": split_tags(tags),
        "title": title,
        "description": description,
        "ordering_key": ordering_key,
        "idempotency_key": idempotency_key,
        "created_at": time(created_at),
    }


def to_queued(row: Sequence[Any], time: Callable[[Any], datetime], *, published_by: str | None = None) -> QueuedEvent:
    """A row of the view ``event_states``; where its deliveries stand is told as lists of words."""
    (queue, states, dead, completed, attempts, failures, fence, lease_ends, next_retry, errors, updated_at) = row[10:21]
    status = event_status(
        open_states=frozenset(State(int(state)) for state in states.split(",")) if states else frozenset(),
        dead=frozenset(Status(each) for each in dead.split(",")) if dead else frozenset(),
        completed=bool(completed),
    )
    return QueuedEvent(
        **_facts(row, time),
        sent_tags=row[4],
        status=status,
        attempts=attempts,
        retry_count=failures,
        queue=queue,
        fence=fence or 0,
        updated_at=time(updated_at),
        lease_expires_at=None if lease_ends is None else time(lease_ends),
        next_retry_at=None if next_retry is None else time(next_retry),
        errors=tuple(decode(errors)) if errors else (),
        published_by=published_by,
    )


def to_current(row: Sequence[Any], time: Callable[[Any], datetime]) -> Current:
    number, _, fence, state, lane, worker, attempts, max_attempts, due, failures, queue, claimed_by = row
    until = _maybe(due, time)
    return Current(
        number, fence, attempts, State(state), worker, until, lane, max_attempts, failures, queue, claimed_by
    )


def to_tag_sets(rows: Iterable[Sequence[Any]], known: KnownRoutes, most: int) -> list[tuple[str, ...]]:
    """The tags of (route, event id), the most urgent first, then the oldest.

    None stands there more often than ``most``: one set may stand in several routes.
    """
    seen: Counter[str] = Counter()
    sets: list[tuple[str, ...]] = []
    for route in (known[number] for number, _ in sorted(rows, key=lambda row: (-known[row[0]].priority, row[1]))):
        tags = route.tags
        seen[tags] += 1
        if seen[tags] <= most:
            sets.append(tuple(tags.split(",")) if tags else ())
    return sets


def to_orphan(row: Sequence[Any], time: Callable[[Any], datetime]) -> Orphan:
    """A row of the view ``event_states`` and the claim: its worker and fence, since when it is silent and its end."""
    worker, fence, since, lease_ends = row[21:25]
    return Orphan(
        event=to_queued(row, time),
        worker=worker,
        fence=fence,
        silent_since=time(since),
        lease_expires_at=time(lease_ends),
    )


def to_worker(row: Sequence[Any], time: Callable[[Any], datetime]) -> WorkerSeen:
    queue, name, first_seen, last_seen, last_action, open_claims, lease_ends, now = row
    seen = _maybe(last_seen, time)
    return WorkerSeen(
        queue=queue,
        name=name,
        first_seen=_maybe(first_seen, time),
        last_seen=seen,
        last_action=last_action,
        silent=None if seen is None else time(now) - seen,
        open_claims=open_claims,
        lease_expires_at=_maybe(lease_ends, time),
    )


def to_key(row: Sequence[Any], time: Callable[[Any], datetime]) -> ApiKey:
    id_, name, digest, scopes, created_at, expires_at, revoked_at, last_used_at, rotated_from = row
    return ApiKey(
        id=id_,
        name=name,
        digest=digest,
        scopes=tuple(decode(scopes)),
        created_at=time(created_at),
        expires_at=_maybe(expires_at, time),
        revoked_at=_maybe(revoked_at, time),
        last_used_at=_maybe(last_used_at, time),
        rotated_from=rotated_from,
    )


def key_columns(key: ApiKey, time: Callable[[datetime], Any]) -> tuple[Any, ...]:
    """What is stored of a key, in the order of its table."""
    return (
        key.id,
        key.name,
        key.digest,
        dump(list(key.scopes)),
        time(key.created_at),
        _maybe(key.expires_at, time),
        _maybe(key.revoked_at, time),
        _maybe(key.last_used_at, time),
        key.rotated_from,
    )


def _maybe(moment: Any, time: Callable[[Any], Any]) -> Any:
    return None if moment is None else time(moment)


def to_dead(row: Sequence[Any], time: Callable[[Any], datetime]) -> DeadEvent:
    (status, attempts, failures, errors, dead_at, reason, queue, worker, retried_at, retried_by) = row[10:20]
    return DeadEvent(
        **_facts(row, time),
        status=Status(status),
        attempts=attempts,
        retry_count=failures,
        errors=decode(errors) if errors else [],
        dead_at=time(dead_at),
        reason=reason,
        queue=queue,
        worker=worker,
        retried_at=None if retried_at is None else time(retried_at),
        retried_by=retried_by,
    )


def to_log(row: Sequence[Any], time: Callable[[Any], datetime]) -> LogEntry:
    id_, event_id, delivery_id, action, worker, attempt, fence, status_code, error, execution_ms, created_at, to = row
    return LogEntry(
        id=id_,
        event_id=event_id,
        delivery_id=delivery_id,
        action=Action(action),
        worker=worker,
        attempt=attempt,
        fence=fence,
        status_code=status_code,
        error=error,
        execution_ms=execution_ms,
        created_at=time(created_at),
        subscriber=to,
    )


def queue_stats(counts: dict[str, list[Sequence[Any]]], only: str | None) -> list[QueueStats]:
    """Numbers by queue from the counting queries, keyed by the queries' names."""
    names = sorted({row[0] for rows in counts.values() for row in rows} | ({only} if only else set()))
    return [_one_queue(name, counts) for name in names if only in (None, name)]


def _one_queue(name: str, counts: dict[str, list[Sequence[Any]]]) -> QueueStats:
    mine = {query: [row for row in rows if row[0] == name] for query, rows in counts.items()}
    by_state = {State(row[1]): row[2] for row in mine["count_open"]}
    by_status = {Status(row[1]): row[2] for row in mine["count_dead"]}
    total = sum(row[1] for row in mine["count_events"])
    pending = sum(count for state, count in by_state.items() if state is not State.LEASED)
    processing = by_state.get(State.LEASED, 0)
    dead = sum(by_status.values())
    depth = {
        Status.PENDING: pending,
        Status.PROCESSING: processing,
        Status.COMPLETED: max(total - pending - processing - dead, 0),
        Status.COMPLETED_WITH_ERRORS: by_status.get(Status.COMPLETED_WITH_ERRORS, 0),
        Status.FAILED: by_status.get(Status.FAILED, 0),
    }
    ends = [row[1] for row in mine["recent_ends"]]
    latencies = sorted(float(row[2]) for row in mine["recent_ends"] if row[1] == Action.COMPLETED)
    return QueueStats(
        queue=name,
        depth=depth,
        waiting_for_retry=by_state.get(State.WAITING, 0),
        oldest_pending_seconds=max((float(row[3]) for row in mine["ages"]), default=None),
        ages={row[1]: row[2] for row in mine["ages"]},
        attempts={row[1]: row[2] for row in mine["attempts"]},
        handler_results={row[1]: row[2] for row in mine["count_results"]},
        latency_p50_seconds=_share(latencies, 0.5),
        latency_p99_seconds=_share(latencies, 0.99),
        failure_rate=1 - ends.count(Action.COMPLETED) / len(ends) if ends else None,
    )


def _share(ordered: list[float], share: float) -> float | None:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else None
