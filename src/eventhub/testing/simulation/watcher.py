"""The watcher: hears every call and reply, and knows from them alone what the store may and must do.

It has no part in any decision. The numbers are those of the invariants in ``INVARIANTS``; the tenth, of the lake, is
not simulated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from eventhub.core.lifecycle import Bury, Complete, Release, Retry, State
from eventhub.store.messages import consumer_of
from eventhub.store.values import Report
from eventhub.testing.simulation.arrivals import Arrivals
from eventhub.testing.simulation.calls import (
    Call,
    Claim,
    ClaimMessages,
    Extend,
    Grant,
    Publish,
    Reply,
    Reset,
    RetryDead,
    Settle,
    TakeBack,
    Tend,
    Unpark,
)
from eventhub.testing.simulation.memory import Memory
from eventhub.testing.simulation.model import WORK, Row
from eventhub.testing.simulation.setup import Setup
from eventhub.testing.simulation.tracks import Broken, Track, agree, signature
from eventhub.testing.simulation.waits import check_decision

__all__ = ["INVARIANTS", "Broken", "Watcher"]

INVARIANTS: Final = {
    0: "the real store does what the model does",
    1: "what was acknowledged is completed or dead in the end",
    2: "nothing is delivered that was not published, and as it was published",
    3: "a key is in order, one at a time",
    4: "attempts are counted without gaps, and no more than allowed",
    5: "a delivery ends once",
    6: "claims do not overlap, and only the current fence is heard",
    7: "the log tells how everything stands",
    8: "every dead letter is complete",
    9: "each event is stored once, and each wanted message made once",
    11: "everything comes to its end in bounded time",
    12: "there are no more duplicates than faults can explain",
    13: "retries wait as long as their policy says",
}
_IN_FLIGHT: Final = 3


class Watcher:
    """Raises Broken from ``ended`` at the first step after which a promise is broken, or from ``end``."""

    def __init__(self, setup: Setup, memory: Memory) -> None:
        self._setup, self._memory = setup, memory
        self.arrivals = Arrivals(setup, memory)
        self.tracks, self._lanes = self.arrivals.tracks, self.arrivals.lanes
        self.operated = 0
        self.figures: Counter[str] = Counter()
        self._invoked: set[str] = set()
        self._revived: set[int] = set()
        self._said: dict[tuple[int, int], str] = {}

    # ---------------------------------------------------------------- hearing

    def begins(self, call: Call) -> None:
        if isinstance(call, Publish):
            self._invoked.update(event.payload for event in call.events)

    def heard(self, call: Call, reply: Reply) -> None:
        """The reply reached whoever asked."""
        if isinstance(call, Publish):
            self.arrivals.heard(call, reply)

    def handled(self, grant: Grant, *, ok: bool, said: str) -> None:
        """A handler or a receiver was asked, and said this."""
        self.figures["effects"] += 1
        self._said[grant.held.id, grant.held.fence] = said
        self.tracks[grant.held.id].oks += ok

    def ended(self, call: Call, reply: Reply, now: datetime) -> None:
        """The store has answered; everything must be as it was promised."""
        self.figures["calls"] += 1
        if isinstance(call, Publish):
            self.arrivals.published(call, reply)
        self.arrivals.new_rows(call)
        if isinstance(call, Claim | Tend):
            self._set_back()
            self._lapse(now)
        if isinstance(call, Claim | ClaimMessages):
            self._claimed(call, reply, now)  # type: ignore[arg-type]
        elif isinstance(call, Settle):
            for report, accepted in zip(call.reports, reply, strict=True):  # type: ignore[arg-type]
                self._reported(report, bool(accepted), now)
        else:
            self._changed(call, reply, now)
        self._agree(call, now)

    def _changed(self, call: Call, reply: Reply, now: datetime) -> None:
        if isinstance(call, Extend):
            self._extended(call, bool(reply), now)
        elif isinstance(call, TakeBack):
            for track in self.tracks.values():
                if track.worker == call.worker:
                    track.lapses()
        elif isinstance(call, Reset | RetryDead | Unpark) and reply:
            self._operated(call)

    # ------------------------------------------------------------------ claims

    def _set_back(self) -> None:
        """Waits keep their length when the clock is set back."""
        step = self._memory.step
        if step:
            for track in self.tracks.values():
                track.due, track.until, track.changed = step.moved(track.due), step.moved(track.until), True

    def _lapse(self, now: datetime) -> None:
        for track in self.tracks.values():
            if track.until is not None and track.until < now:
                self.figures["abandoned"] += 1  # perhaps by one that was only slow
                track.lapses()

    def _claimed(self, call: Claim | ClaimMessages, grants: Sequence[Grant], now: datetime) -> None:
        self.figures["claims"] += len(grants)
        for grant in grants:
            track = self.tracks[grant.held.id]
            name = f"delivery {track.id} (attempt {track.attempts + 1})"
            if track.worker is not None or track.settled or track.parked:
                raise Broken(6, f"{name} is given to {call.worker}, and {track.worker or 'nobody'} has it")
            if track.due is not None and track.due > now:
                raise Broken(13, f"{name} is given out at {now}, and was to wait until {track.due}")
            if grant.payload not in self._invoked or self.arrivals.events[grant.payload] != track.event:
                raise Broken(2, f"{name} brings {grant.payload}")
            if isinstance(call, Claim) and call.max_attempts is not None:
                track.max_attempts = call.max_attempts
            track.attempts, track.fence = track.attempts + 1, track.fence + 1
            if (grant.held.fence, grant.attempts) != (track.fence, track.attempts):
                raise Broken(4, f"{name} is told as attempt {grant.attempts} with fence {grant.held.fence}")
            if track.max_attempts is not None and track.attempts > max(track.max_attempts, track.granted):
                raise Broken(4, f"{name} is beyond its {track.max_attempts} attempts")
            self._in_order(track)
            track.worker, track.until, track.due, track.changed = call.worker, now + call.lease, None, True
        self._all_ready(call, grants)

    def _in_order(self, track: Track) -> None:
        if track.key is None:
            return
        for other in self._lanes[track.consumer, track.key]:
            before = other.id < track.id and not other.settled and other.id not in self._revived
            if other is not track and (other.worker is not None or before):
                raise Broken(3, f"delivery {track.id} starts before {other.id} of the same key has ended")

    def _all_ready(self, call: Claim | ClaimMessages, grants: Sequence[Grant]) -> None:
        """The oldest work is taken first, and nobody goes away empty while something is ready."""
        most = call.limit if isinstance(call, Claim) else call.most
        consumer = WORK if isinstance(call, Claim) else consumer_of(call.subscriber)
        left = next((row for row in self._memory.model.rows.values()
                     if row.state is State.READY and row.consumer == consumer), None)  # fmt: skip
        if left is None:
            return
        if len(grants) < most:
            raise Broken(11, f"delivery {left.id} was ready, and {call.worker} did not get it")
        if isinstance(call, Claim) and left.id < grants[-1].held.id:
            raise Broken(3, f"delivery {grants[-1].held.id} was given out before {left.id}, which is older")

    def _extended(self, call: Extend, kept: bool, now: datetime) -> None:  # noqa: FBT001
        track = self.tracks[call.held.id]
        holds = track.worker is not None and track.fence == call.held.fence
        if kept != holds:
            raise Broken(6, f"delivery {track.id}: fence {call.held.fence} {'was' if kept else 'was not'} extended")
        if kept and track.until is not None:
            track.until, track.changed = max(track.until, now + call.lease), True

    # ----------------------------------------------------------------- reports

    def _reported(self, report: Report, accepted: bool, now: datetime) -> None:  # noqa: FBT001
        track, outcome = self.tracks[report.held.id], report.outcome
        holds = track.worker is not None and track.fence == report.held.fence
        if accepted != holds:
            word = "heard" if accepted else "refused"
            raise Broken(6, f"delivery {track.id}: a report with fence {report.held.fence} was {word}")
        if not accepted:
            self.figures["late"] += 1
            return
        check_decision(track, outcome, self._said.get((track.id, track.fence)), self._setup, self.arrivals.subscribers)
        track.worker = track.until = None
        track.changed = True
        if isinstance(outcome, Complete):
            track.completed = True
        elif isinstance(outcome, Bury):
            track.failures += outcome.error is not None
            track.dies(outcome.reason)
        else:
            track.failures += isinstance(outcome, Retry)
            track.attempts -= isinstance(outcome, Release)
            track.due = now + outcome.delay if outcome.delay else None

    def _operated(self, call: Reset | RetryDead | Unpark) -> None:
        self.operated += 1
        if isinstance(call, Unpark):
            track = next(each for each in self._lanes[call.consumer, call.key] if each.parked)
            track.parked = False
        else:
            track = self.tracks[call.delivery]
        track.changed = True
        if isinstance(call, Reset):
            track.worker = track.until = None
            if track.max_attempts is not None and track.max_attempts <= track.attempts:
                track.max_attempts = track.granted = track.attempts + 1
        elif isinstance(call, RetryDead):
            if not track.dead:
                raise Broken(5, f"delivery {track.id} is tried again, and was not dead")
            track.dead = track.parked = False
            track.attempts = track.failures = track.granted = 0
            self._revived.add(track.id)

    # --------------------------------------------------------------- agreement

    def _agree(self, call: Call, now: datetime) -> None:
        lanes: set[tuple[str, str]] = set()
        tended = isinstance(call, Claim | Tend)
        for track, row in zip(self.tracks.values(), self._memory.model.rows.values(), strict=True):
            if track.due is not None:
                self._waits(track, row, now, tended=tended)
            if track.changed or track.seen != signature(row):
                agree(track, row)
                track.changed, track.seen = False, signature(row)
                if row.key is not None:
                    lanes.add((row.consumer, row.key))
        for lane in sorted(lanes):
            states = [self._memory.model.rows[each.id].state for each in self._lanes[lane]]
            heads = sum(state is not None and state is not State.BEHIND for state in states)
            if heads > 1 or (heads == 0 and State.BEHIND in states):
                raise Broken(3 if heads else 11, f"the key {lane[1]!r} of {lane[0]} has {heads} heads")

    def _waits(self, track: Track, row: Row, now: datetime, *, tended: bool) -> None:
        due = track.due
        assert due is not None  # noqa: S101 - for the types
        if row.state is State.READY or (row.state is State.BEHIND and row.due is None):
            if due > now:
                raise Broken(13, f"delivery {track.id} is ready at {now}, and was to wait until {due}")
            track.due = None
        elif tended and due <= now and row.state is State.WAITING:
            raise Broken(11, f"delivery {track.id} was due at {due}, and still waits at {now}")

    # --------------------------------------------------------------------- end

    def end(self, harms: int) -> None:
        """Everything is quiet: nothing may be missing, and little may have been done twice."""
        self.arrivals.end()
        for track in self.tracks.values():
            if not (track.settled or track.parked):
                raise Broken(1, f"delivery {track.id} is neither completed nor dead in the end")
        self._count(harms)

    def _count(self, harms: int) -> None:
        duplicates = sum(max(track.oks - 1, 0) for track in self.tracks.values())
        processes = self._setup.workers + self._setup.dispatchers
        harms += self.figures["abandoned"]
        if duplicates > harms * processes * _IN_FLIGHT:
            raise Broken(12, f"{duplicates} effects were there twice, after {harms} faults")
        self.figures["duplicates"] = duplicates
        self.figures["events"] = len(self.arrivals.events)
        self.figures["deliveries"] = len(self.tracks)
        self.figures["dead"] = sum(track.dead for track in self.tracks.values())
