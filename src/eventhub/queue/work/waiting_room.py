"""Many who wait for work, few who ask for it: one look at the database serves everybody in the room.

   take ──▶ claim at the door ── something ────────────────────────────▶ answer
              │ nothing, or others wait for the same tags already           ▲
              ▼                                                             │
           sit down ──▶ wake-up ──▶ which tags are ready? ──▶ claim for the oldest waiters they fit
                           ▲                                                │ until nothing is ready
                           └────────────────────────────────────────────────┘

Waiters sit in groups of equal tags, first come first served. For each event that is ready one waiter is chosen, a few
at once: so an event costs about one claim and a part of a look, however many wait for it. The loop runs only while
somebody sits here.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import count, islice
from time import monotonic
from typing import Final

from eventhub.core.matching import any_of
from eventhub.errors import EventHubError
from eventhub.store import Store
from eventhub.store.claims import Claim

__all__ = ["Waiter", "WaitingRoom"]

CLAIMS_AT_ONCE: Final = 8
LOOK_SECONDS: Final = 1.0
"""Even without a wake-up the room looks this often: a signal between processes can get lost."""
TEND_SECONDS: Final = 0.1
"""Due retries and ended leases are looked after this often while wake-ups keep coming."""
PAUSE_SECONDS: Final = 0.005
"""After a look that helped nobody: wake-ups for other tags must not keep the database busy."""
LAST_WORDS: Final = 5.0

Tags = frozenset[str] | None


class Waiter:
    """Somebody who wants work, and the answer that is promised."""

    __slots__ = ("answer", "busy", "claimed_by", "lease", "limit", "number", "tags", "time_is_up", "worker")
    _numbers = count()

    def __init__(self, worker: str, tags: Tags, limit: int, lease: timedelta, claimed_by: str | None = None) -> None:
        self.worker = worker
        self.claimed_by = claimed_by
        self.tags = tags
        self.limit = limit
        self.lease = lease
        self.number = next(self._numbers)
        self.busy = False
        self.time_is_up = False
        self.answer: asyncio.Future[list[Claim]]

    def __lt__(self, other: Waiter) -> bool:
        return self.number < other.number

    def say(self, claims: list[Claim]) -> bool:
        """Give the answer; False when it came too late."""
        if self.answer.done():
            return False
        self.answer.set_result(claims)
        return True

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def expire(self) -> None:
        """The time is up; a claim that is on its way may still be the answer."""
        self.time_is_up = True
        if not self.busy:
            self.say([])


class WaitingRoom:
    """The waiters of one queue in this process."""

    def __init__(
        self,
        store: Store,
        queue: str,
        *,
        claim: Callable[[Waiter], Awaitable[list[Claim]]],
        give_back: Callable[[list[Claim]], Awaitable[None]],
        now: Callable[[], datetime | None],
    ) -> None:
        self._store = store
        self._queue = queue
        self._ask_store = claim
        self._give_back = give_back
        self._now = now
        self._groups: dict[Tags, dict[Waiter, None]] = {}
        self._at_the_door = 0
        self._knock = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._returning: set[asyncio.Task[None]] = set()
        self._tend_at = 0.0
        self.stopped = False
        self.claims_asked = 0
        self.looks = 0

    @property
    def waiting(self) -> int:
        """How many sit here and are not being served."""
        return sum(not waiter.busy for waiter in self._everybody())

    async def take(self, waiter: Waiter, wait: float) -> list[Claim]:
        """Claims for a waiter, at once or within ``wait`` seconds; none when the room is closed before."""
        if self.stopped:
            return []
        if wait <= 0:
            return await self._claim(waiter)
        loop = asyncio.get_running_loop()
        waiter.answer = loop.create_future()
        timer = loop.call_at(loop.time() + wait, waiter.expire)
        group = self._groups.setdefault(waiter.tags, {})
        # Whoever waits already goes first; but while all before us are being served there may be plenty.
        may_ask = self._at_the_door < CLAIMS_AT_ONCE and all(before.busy for before in group)
        group[waiter] = None
        try:
            if may_ask and (claims := await self._ask_at_the_door(waiter)):
                return claims
            return await self._answer(waiter)
        finally:
            timer.cancel()
            self._leave(waiter)

    def stop(self) -> None:
        """Everybody leaves at once, with nothing. Claims that are on their way are given back."""
        self.stopped = True
        for waiter in self._everybody():
            waiter.say([])
        self._groups.clear()
        self._knock.set()

    async def close(self) -> None:
        """Stop, and see to it that no claim is left in nobody's hands."""
        self.stop()
        if self._running is not None:
            await _end({self._running})
        await _end(set(self._returning))

    # ------------------------------------------------------------- a waiter

    async def _ask_at_the_door(self, waiter: Waiter) -> list[Claim]:
        """The first claim of somebody who has just come; it may be all there is to do."""
        seen = self._mark()
        waiter.busy = True
        self._at_the_door += 1
        claims: list[Claim] | None = None
        try:
            claims = await self._claim(waiter)
        finally:
            self._at_the_door -= 1
            waiter.busy = False
            if claims == []:
                # The loop may have looked meanwhile, and passed us over because we were busy.
                self._see_to_it(seen if self._mark() == seen else None)
            elif len(self._groups) > 1 or len(self._groups.get(waiter.tags, ())) > 1:
                # There may be more, or it was given back: those who sit behind us want to know.
                self._see_to_it(None)
        if not claims and waiter.time_is_up:
            waiter.say([])
        return claims

    async def _answer(self, waiter: Waiter) -> list[Claim]:
        """Sit and wait for the answer."""
        if not self._is_running:
            self._see_to_it(None)
        answer = waiter.answer
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None and answer.result():
                self._return(answer.result())
            raise

    def _see_to_it(self, seen: int | None) -> None:
        """Keep the loop running; it looks at once, unless nothing has happened since the mark ``seen``."""
        if seen is None:
            self._knock.set()
        if not self._is_running:
            self._running = asyncio.create_task(self._serve(self._mark() if seen is None else seen))

    def _leave(self, waiter: Waiter) -> None:
        group = self._groups.get(waiter.tags)
        if group is not None and group.pop(waiter, waiter) is None and not group:
            del self._groups[waiter.tags]
            if self._is_running and not self._groups:
                self._knock.set()  # the last one puts out the light

    def _return(self, claims: list[Claim]) -> None:
        async def give_back() -> None:
            with suppress(EventHubError):  # the database is away: the leases will see to it
                await self._give_back(claims)

        task = asyncio.create_task(give_back())
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    # ------------------------------------------------------------- the loop

    def _mark(self) -> int:
        return self._store.wakeups.mark(self._queue)

    def _everybody(self) -> list[Waiter]:
        return [waiter for group in self._groups.values() for waiter in group]

    @property
    def _is_running(self) -> bool:
        return self._running is not None and not self._running.done()

    async def _serve(self, since: int) -> None:
        """Serve the room until it is empty; trouble with the database is everybody's trouble."""
        try:
            while self._groups:
                something_due = False
                if self._mark() == since and not self._knock.is_set():
                    something_due = await self._sleep(since)
                since = self._mark()
                self._knock.clear()
                await self._tend(something_due=something_due)
                if not await self._serve_ready():
                    await asyncio.sleep(PAUSE_SECONDS)
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait
            for waiter in self._everybody():
                if not waiter.busy:
                    waiter.fail(error)
                    self._leave(waiter)
        finally:
            self._knock.clear()

    async def _sleep(self, since: int) -> bool:
        """Wait for a wake-up or a knock; True when neither came, so that something may be due."""
        woken = asyncio.ensure_future(self._store.wait(self._queue, since=since, timeout=LOOK_SECONDS))
        knocked = asyncio.ensure_future(self._knock.wait())
        try:
            await asyncio.wait({woken, knocked}, return_when=asyncio.FIRST_COMPLETED)
            return woken.done() and not woken.result()
        finally:
            for task in (woken, knocked):
                task.cancel()
            await asyncio.gather(woken, knocked, return_exceptions=True)

    async def _tend(self, *, something_due: bool) -> None:
        if something_due or monotonic() >= self._tend_at:
            self._tend_at = monotonic() + TEND_SECONDS
            await self._store.tend(now=self._now())

    async def _serve_ready(self) -> bool:
        """Claim for whoever fits what is ready, until nothing is; False when nobody got anything."""
        served = False
        while self._groups:
            self.looks += 1
            ready = await self._store.ready_routes(self._queue, most=CLAIMS_AT_ONCE, tags=self._wanted())
            found = await asyncio.gather(*(self._claim_for(waiter) for waiter in self._choose(ready)))
            if not any(found):
                break
            served = True
        return served

    def _wanted(self) -> Tags:
        """What anybody here waits for."""
        tags: set[str] = set()
        for group in self._groups:
            if group is None:
                return None
            tags |= group
        return frozenset(tags)

    def _choose(self, ready: Sequence[tuple[str, ...]]) -> list[Waiter]:
        """For everything that is ready the oldest waiter that it fits and that has nothing better yet."""
        chosen: dict[Waiter, None] = {}
        for tags, times in Counter(ready).items():
            fitting = (waiter for waiter in self._by_age(tags) if waiter not in chosen)
            chosen |= dict.fromkeys(islice(fitting, times))
        return sorted(chosen)[:CLAIMS_AT_ONCE]

    def _by_age(self, tags: tuple[str, ...]) -> Iterator[Waiter]:
        groups = [group for wanted, group in self._groups.items() if any_of(wanted, tags)]
        return (waiter for waiter in heapq.merge(*groups) if not (waiter.busy or waiter.answer.done()))

    async def _claim_for(self, waiter: Waiter) -> bool:
        """Whether there was something. A waiter that has left meanwhile gives it back."""
        waiter.busy = True
        try:
            claims = await self._claim(waiter)
        except Exception as error:  # noqa: BLE001 - it belongs to this waiter
            waiter.fail(error)
            self._leave(waiter)
            return False
        finally:
            waiter.busy = False
        if claims or waiter.time_is_up:
            if not waiter.say(claims) and claims:
                self._return(claims)
            self._leave(waiter)
        return bool(claims)

    async def _claim(self, waiter: Waiter) -> list[Claim]:
        self.claims_asked += 1
        return await self._ask_store(waiter)


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=LAST_WORDS)
        for task in late:  # the database does not answer: the leases will see to it
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
