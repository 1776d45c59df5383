"""Judges what every process wrote down against what the store says in the end.

    histories ──┐
                ├──▶ Story ──▶ one function a promise ──▶ violations, in words
    snapshot ───┘

The log's ids are its order: whoever acts on what another transaction has committed gets a higher one.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

import msgspec

from eventhub.core.events import Action, DeadEvent, LogEntry, QueuedEvent, Status
from eventhub.store import Store
from eventhub.store.values import EventFilter
from eventhub.testing.torture.history import Record, hash_of

Claimed = tuple[int, int]
"""A claim: event id and fence."""

DRAIN_SECONDS: Final = 60.0
DEAD: Final = (Status.FAILED, Status.COMPLETED_WITH_ERRORS)
SETTLED: Final = (Status.COMPLETED, *DEAD)
LAST: Final = (Action.COMPLETED, Action.DEAD)
REPORTED: Final = {
    "Complete": Action.COMPLETED,
    "Retry": Action.FAILED,
    "Release": Action.RELEASED,
    "Bury": Action.DEAD,
}


class Snapshot(msgspec.Struct):
    """Everything the store holds after the faults."""

    events: dict[int, QueuedEvent]
    logs: dict[int, list[LogEntry]]
    dead: dict[int, DeadEvent]

    @classmethod
    async def take(cls, store: Store, queue: str = "crash") -> "Snapshot":
        events = {event.id: event for event in await store.events(EventFilter(queue=queue, limit=1_000_000))}
        logs = {number: await store.log(number) for number in events}
        dead = await store.dead(queue=queue, limit=1_000_000)
        return cls(events, logs, {letter.id: letter for letter in dead.events})


async def drained(store: Store, queue: str = "crash") -> float:
    """Wait until no work is open; returns how long it took."""
    began = time.monotonic()
    while True:
        depth = (await store.stats(queue))[0].depth
        left = depth[Status.PENDING] + depth[Status.PROCESSING]
        if not left:
            return time.monotonic() - began
        assert time.monotonic() - began < DRAIN_SECONDS, f"{left} events are still open"
        await asyncio.sleep(0.1)


class Publication(msgspec.Struct, kw_only=True):
    """One event that somebody wanted to publish: when it may have begun to exist, and since when it surely does."""

    token: str
    hash: str
    batch: str
    size: int
    key: str | None
    idempotency: str | None
    limit: int | None
    began: float
    acknowledged: float | None = None
    ids: set[int] = set()


class Story:
    """The records by what they tell, and the snapshot beside them."""

    def __init__(self, records: list[Record], snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.publications: dict[str, Publication] = {}
        self.claims = _only(records, "claim", "ok")
        self.extensions = [record for record in _only(records, "extend", "ok") if record.accepted]
        self.handled = _only(records, "handle", "invoke")
        self.handlings = _only(records, "handle", "ok")
        self.reports = _only(records, "report", "invoke")
        self.accepted = [record for record in _only(records, "report", "ok") if record.accepted]
        self.refused = [record for record in _only(records, "report", "ok") if not record.accepted]
        self.invoked_at = {(r.process, r.call): r.time for r in records if r.kind == "invoke"}
        self.killed = {r.worker: r.wall for r in _only(records, "kill", "ok")}
        self.ended = {r.process: r.wall for r in _only(records, "end", "ok")}
        for record in _only(records, "publish", "invoke"):
            self._publication(record)
        for record in _only(records, "publish", "ok"):
            publication = self._publication(record)
            if publication.acknowledged is None:
                publication.acknowledged = record.time
            if record.id is not None:
                publication.ids.add(record.id)

    def _publication(self, record: Record) -> Publication:
        token = record.token or ""
        if token not in self.publications:
            self.publications[token] = Publication(
                token=token,
                hash=record.hash or "",
                batch=record.batch or "",
                size=record.size or 1,
                key=record.key,
                idempotency=record.idempotency,
                limit=record.limit,
                began=record.time,
                ids=set(),
            )
        return self.publications[token]

    def of(self, event: QueuedEvent) -> Publication | None:
        return self.publications.get(event.payload["token"])

    def whole_log(self) -> list[LogEntry]:
        return sorted((entry for log in self.snapshot.logs.values() for entry in log), key=lambda entry: entry.id)


def check(story: Story) -> list[str]:
    """Every broken promise, in words; an empty list is a proof as far as histories can prove."""
    return [f"{promise.__name__}: {violation}" for promise in PROMISES for violation in promise(story)]


# ------------------------------------------------------------------ publishing


def acknowledged_events_are_settled(story: Story) -> Iterator[str]:
    for publication in story.publications.values():
        for number in publication.ids:
            event = story.snapshot.events.get(number)
            if event is None:
                yield f"event {number} ({publication.token}) was acknowledged and is lost"
            elif event.status not in SETTLED:
                yield f"event {number} ({publication.token}) is {event.status} after the drain"


def dead_letters_are_complete(story: Story) -> Iterator[str]:
    for number, event in story.snapshot.events.items():
        letter = story.snapshot.dead.get(number)
        if event.status not in DEAD:
            if letter is not None:
                yield f"event {number} is {event.status} and has an open dead letter"
        elif letter is None:
            yield f"event {number} is {event.status} without a dead letter"
        elif not letter.errors or not letter.reason or hash_of(letter.payload) != hash_of(event.payload):
            yield f"the dead letter of event {number} is incomplete: {letter}"


def nothing_is_invented(story: Story) -> Iterator[str]:
    hashes = {number: hash_of(event.payload) for number, event in story.snapshot.events.items()}
    for number, event in story.snapshot.events.items():
        publication = story.of(event)
        if publication is None:
            yield f"event {number} was never published: {event.payload}"
        elif (publication.hash, publication.key) != (hashes[number], event.ordering_key):
            yield f"event {number} ({publication.token}) is not what was published"
    for record in story.handled:
        if record.id is None or hashes.get(record.id) != record.hash:
            yield f"{record.process} handled event {record.id} with content that is not in the store"


def calls_are_whole_or_absent(story: Story) -> Iterator[str]:
    stored = Counter(p.batch for event in story.snapshot.events.values() if (p := story.of(event)) is not None)
    for publication in story.publications.values():
        if stored[publication.batch] not in (0, publication.size):
            yield f"{stored[publication.batch]} of {publication.size} events of call {publication.batch} are there"


def a_publication_is_one_event(story: Story) -> Iterator[str]:
    stored = defaultdict(set)
    for number, event in story.snapshot.events.items():
        stored[event.payload["token"]].add(number)
    for token, publication in story.publications.items():
        if len(stored[token]) > 1:
            yield f"{token} was stored {len(stored[token])} times: {sorted(stored[token])}"
        if not publication.ids <= stored[token]:
            yield f"{token} was acknowledged as {publication.ids} and stored as {stored[token]}"


# ------------------------------------------------------------- claims, reports


def the_log_folds_to_the_state(story: Story) -> Iterator[str]:
    """One event: PUBLISHED, then claims with rising fences, each ended once under its own fence, then the end."""
    for number, event in story.snapshot.events.items():
        publication = story.of(event)
        yield from _fold(event, story.snapshot.logs[number], publication.limit if publication else None)


def _fold(event: QueuedEvent, log: list[LogEntry], limit: int | None) -> Iterator[str]:
    said = f"event {event.id}, {[f'{e.action}:{e.attempt}:{e.fence}' for e in log]}"
    if not log or log[0].action is not Action.PUBLISHED:
        yield f"{said}: it does not begin with PUBLISHED"
        return
    attempts, fence, leased, end = 0, 0, False, None
    for entry in log[1:]:
        if end is not None:
            yield f"{said}: {entry.action} after {end}"
        if entry.action is Action.PICKED:
            attempts, fence = attempts + 1, fence + 1
            if leased or (entry.attempt, entry.fence) != (attempts, fence):
                yield f"{said}: claim {entry.attempt}:{entry.fence} where {attempts}:{fence} was next"
            if limit is not None and attempts > limit:
                yield f"{said}: more than {limit} attempts"
            leased = True
            continue
        if entry.fence != fence or (not leased and entry.action is not Action.DEAD):
            yield f"{said}: {entry.action} under fence {entry.fence}, the current claim is {fence}"
        leased = False
        attempts -= entry.action is Action.RELEASED
        if entry.action in LAST:
            end = entry.action
    folded = {Action.COMPLETED: (Status.COMPLETED,), Action.DEAD: DEAD, None: (Status.PENDING, Status.PROCESSING)}
    if event.status not in folded[end] or event.attempts != attempts:
        yield f"{said}: the event is {event.status} after {event.attempts} attempts"


def reports_carry_the_current_fence(story: Story) -> Iterator[str]:
    """No zombie: once a higher fence was handed out, nothing reported afterwards under a lower one is accepted."""
    claimed: dict[int, list[Record]] = defaultdict(list)
    for claim in story.claims:
        claimed[claim.id or 0].append(claim)
    logged = {
        (e.event_id, e.fence, e.action) for log in story.snapshot.logs.values() for e in log if e.fence is not None
    }
    for report in story.accepted:
        if (report.id, report.fence, REPORTED[report.outcome or ""]) not in logged:
            yield f"{report.process}: {report.outcome} of {report.id}:{report.fence} was accepted and is not in the log"
        began = story.invoked_at[report.process, report.call]
        for claim in claimed[report.id or 0]:
            if (claim.fence or 0) > (report.fence or 0) and claim.time < began:
                late = f"{report.process} reported {report.id}:{report.fence}"
                yield f"{late} after {claim.process} had claimed {claim.fence}"
    for claimed_as, times in Counter((r.id, r.fence) for r in story.accepted).items():
        if times > 1:
            yield f"{times} reports of claim {claimed_as} were accepted"


def what_is_logged_was_reported(story: Story) -> Iterator[str]:
    reported = {(r.id, r.fence, REPORTED[r.outcome or ""]) for r in story.reports}
    for number, log in story.snapshot.logs.items():
        lost = {entry.fence for entry in log if entry.action is Action.ABANDONED}
        for entry in log:
            if entry.action in REPORTED.values() and entry.fence is not None and entry.fence not in lost:
                kind = Action.DEAD if entry.action is Action.FAILED and _died(log, entry.fence) else entry.action
                if (number, entry.fence, kind) not in reported:
                    yield f"event {number}: {entry.action} under fence {entry.fence}, and nobody reported it"


def _died(log: list[LogEntry], fence: int | None) -> bool:
    return any(entry.action is Action.DEAD and entry.fence == fence for entry in log)


def leases_are_respected(story: Story) -> Iterator[str]:
    """A claim is abandoned only after its lease has ended, or after its process has."""
    until: dict[Claimed, tuple[float, Record]] = {}
    for record in (*story.claims, *story.extensions):
        claim = (record.id or 0, record.fence or 0)
        known = until.get(claim)
        holder = record if known is None else known[1]
        until[claim] = (max(record.until or 0, known[0] if known else 0), holder)
    for number, log in story.snapshot.logs.items():
        for entry in log:
            claimed = until.get((number, entry.fence or 0))
            if entry.action is not Action.ABANDONED or claimed is None:
                continue
            end, holder = claimed
            at = entry.created_at.timestamp()
            gone = min(story.killed.get(holder.process, at), story.ended.get(holder.process, at))
            if at <= end and at <= gone:
                yield f"claim {number}:{entry.fence} of {holder.process} was taken {end - at:.3f} s before its end"


def lost_work_was_abandoned(story: Story) -> Iterator[str]:
    """Handled well and not completed by it: only because the claim was lost. So duplicates have a reason."""
    ends = {(e.event_id, e.fence): e.action for log in story.snapshot.logs.values() for e in log if e.fence is not None}
    for record in story.handlings:
        end = ends.get((record.id or 0, record.fence or 0))
        allowed = (Action.COMPLETED, Action.ABANDONED, Action.DEAD, Action.RELEASED)
        if record.outcome == "success" and end not in allowed:
            yield f"{record.process} handled {record.id}:{record.fence} well, and the log says {end}"


# ------------------------------------------------------------------------ keys


def keys_have_one_in_flight(story: Story) -> Iterator[str]:
    """From the first claim of an event to its end, retries included, no other event of its key is claimed."""
    begun: dict[str, int] = {}
    for entry in story.whole_log():
        key = story.snapshot.events[entry.event_id].ordering_key
        if key is None:
            continue
        if entry.action is Action.PICKED and begun.setdefault(key, entry.event_id) != entry.event_id:
            yield f"{key}: event {entry.event_id} was claimed while {begun[key]} was not settled"
        if entry.action in LAST and begun.get(key) == entry.event_id:
            del begun[key]


def keys_go_in_order(story: Story) -> Iterator[str]:
    """First claims of a key follow the order of publishing: acknowledged before the other began, so earlier."""
    picked: dict[str, list[Publication]] = defaultdict(list)
    seen: set[int] = set()
    for entry in story.whole_log():
        publication = story.of(story.snapshot.events[entry.event_id])
        if entry.action is Action.PICKED and entry.event_id not in seen and publication and publication.key:
            seen.add(entry.event_id)
            picked[publication.key].append(publication)
    for key, order in picked.items():
        latest = order[0]
        for publication in order[1:]:
            if publication.acknowledged is not None and publication.acknowledged < latest.began:
                yield f"{key}: {latest.token} was claimed before {publication.token}, which was published before it"
            latest = max(latest, publication, key=lambda p: p.began)
        for one, other in pairwise(order):
            if one.batch == other.batch and one.token > other.token:
                yield f"{key}: {other.token} comes before {one.token} in their call"


PROMISES: Final[tuple[Callable[[Story], Iterator[str]], ...]] = (
    acknowledged_events_are_settled,
    dead_letters_are_complete,
    nothing_is_invented,
    calls_are_whole_or_absent,
    a_publication_is_one_event,
    the_log_folds_to_the_state,
    reports_carry_the_current_fence,
    what_is_logged_was_reported,
    leases_are_respected,
    lost_work_was_abandoned,
    keys_have_one_in_flight,
    keys_go_in_order,
)


def figures(story: Story) -> dict[str, int]:
    """The story in numbers."""
    kills = Counter((process or "").partition("-")[0] for process in story.killed)
    successes = Counter(record.id for record in story.handlings if record.outcome == "success")
    reasons = Counter(letter.reason for letter in story.snapshot.dead.values())
    actions = Counter(entry.action for log in story.snapshot.logs.values() for entry in log)
    return {
        "kills": len(story.killed),
        **{f"kills of {role}s": count for role, count in sorted(kills.items())},
        "events": len(story.snapshot.events),
        "acknowledged": sum(bool(publication.ids) for publication in story.publications.values()),
        "completed": sum(event.status is Status.COMPLETED for event in story.snapshot.events.values()),
        **{f"dead: {reason}": count for reason, count in sorted(reasons.items())},
        "claims": actions[Action.PICKED],
        "abandoned": actions[Action.ABANDONED],
        "late reports refused": len(story.refused),
        "handled well twice": sum(count - 1 for count in successes.values()),
    }


def _only(records: list[Record], op: str, kind: str) -> list[Record]:
    return [record for record in records if record.op == op and record.kind == kind]
