"""Claiming work from PostgreSQL: which routes are looked at, from where on, and who gets what was found."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import repeat
from typing import Any, Final, TypeVar

import msgspec

from eventhub.core.lifecycle import Release
from eventhub.errors import StoreError
from eventhub.store.claims import FIRST_CLAIM, Claim, Held, Lease, Unread, Wanted
from eventhub.store.postgres.floors import Look
from eventhub.store.postgres.memory import in_one_incarnation
from eventhub.store.postgres.publishing import SQL
from eventhub.store.postgres.reading import same
from eventhub.store.postgres.route_numbers import PostgresRoutes
from eventhub.store.retirement import ROUTE_KEPT
from eventhub.store.routes import KnownRoutes
from eventhub.store.rows import to_claimed, to_claims
from eventhub.store.values import Report

__all__ = ["PostgresClaiming"]

T = TypeVar("T")
ROUTES_SECONDS: Final = 1.0
"""How long the known routes are trusted while they yield work."""
LEAST_OF_EACH: Final = 16
"""Deliveries of each of several routes that a claim looks at, at least."""
SPREAD: Final = 4
"""So many times what would do if all of them had as much."""
BETWEEN: Final = "\x1e"
"""What stands between two payloads of an answer."""

_numbers = msgspec.json.Decoder(list[int]).decode
_shares = msgspec.json.Decoder(dict[str, int | None]).decode
_specials = msgspec.json.Decoder(list[list[Any]]).decode


class Taken(msgspec.Struct):
    """What was claimed, in order, and whose each of it is."""

    claims: list[Claim] = []
    workers: list[str] = []

    def add(self, more: Taken) -> None:
        self.claims += more.claims
        self.workers += more.workers

    def is_enough(self, limit: int, workers: list[str]) -> bool:
        """One worker is content with some; of many, each wants one."""
        return len(self.claims) >= limit or (len(workers) == 1 and bool(self.claims))

    def left_of(self, workers: list[str]) -> list[str]:
        """Those who still have nothing, in their order; the one worker gets everything."""
        if len(workers) == 1 or not self.claims:
            return workers
        served = Counter(self.workers)
        left = []
        for worker in workers:
            if served[worker]:
                served[worker] -= 1
            else:
                left.append(worker)
        return left

    def without_those_of(self, texts: list[str]) -> Taken:
        """Without those whose event is gone: an operator was quicker."""
        kept = [at for at, text in enumerate(texts) if text]
        return Taken([self.claims[at] for at in kept], [self.workers[at] for at in kept])

    def shared_out(self, wanted: Sequence[Wanted]) -> list[list[Claim]]:
        """Who gets what: as the rows say, and between claims of the same name the first comes first."""
        of_worker: dict[str, deque[Claim]] = {}
        for worker, claim in zip(self.workers, self.claims, strict=True):
            of_worker.setdefault(worker, deque()).append(claim)
        shared = []
        for one in wanted:
            mine = of_worker.get(one.worker, deque())
            shared.append([mine.popleft() for _ in range(min(one.limit, len(mine)))])
        return shared


class PostgresClaiming(PostgresRoutes):
    """The claiming part of the PostgreSQL store."""

    @abstractmethod
    async def _fetch(self, query: str, *args: Any) -> list[Any]: ...
    @abstractmethod
    async def _read(self, query: str, *args: Any) -> list[Any]: ...

    @in_one_incarnation
    async def _claim(self, wanted: Wanted) -> list[Claim]:
        return (await self._take(wanted, [wanted.worker])).claims

    @in_one_incarnation
    async def _claim_together(self, wanted: Sequence[Wanted]) -> list[list[Claim]]:
        if len(wanted) == 1:
            return [await self._claim(wanted[0])]
        workers = [one.worker for one in wanted for _ in range(one.limit)]
        taken = await self._take(msgspec.structs.replace(wanted[0], limit=len(workers)), workers)
        return taken.shared_out(wanted)

    @in_one_incarnation
    async def _claim_ids(self, ids: Sequence[int], worker: str, lease: timedelta, now: datetime | None) -> list[Claim]:
        rows = await self._fetch(SQL.claim_ids, sorted(ids), worker, lease, now, self._memory.incarnation.fence)
        if not rows:
            return []
        until = rows[0][17]
        begins, incarnation = until - lease, self._memory.incarnation
        return to_claims(rows, raised=0, queue="", now=begins, until=until, time=same, incarnation=incarnation)

    async def _known_routes(self, *, fresh: bool = True) -> KnownRoutes:
        """The routes: another process may have added one, so an empty claim looks again."""
        if fresh or time.monotonic() - self._memory.known_at > ROUTES_SECONDS:
            asked_at = time.monotonic()
            if asked_at - self._memory.asked_at > ROUTE_KEPT.total_seconds() / 2:  # some may have gone unheard
                self._memory.known = KnownRoutes()
            self._memory.known.learn(await self._read(SQL.new_routes, self._memory.known.last))
            self._memory.known_at = self._memory.asked_at = asked_at
        return self._memory.known

    def _doubt_known_routes(self) -> None:
        """The next claim asks for routes that have changed before it looks for work."""
        self._memory.known_at = 0.0

    async def _take(self, wanted: Wanted, workers: list[str]) -> Taken:
        """For the one worker, or for many of whom each gets one: then as many as possible, not just some."""
        taken = Taken()
        for fresh in (False, True):
            known = await self._known_routes(fresh=fresh or wanted.now is not None)
            for routes in known.choose(wanted.queue, wanted.tags, wanted.types):
                left = wanted.limit - len(taken.claims)
                if left > 0:
                    taken.add(await self._take_from(routes, left, wanted, taken.left_of(workers)))
            if wanted.now is not None or taken.is_enough(wanted.limit, workers):
                break
        return taken

    async def _take_from(self, routes: list[int], limit: int, wanted: Wanted, workers: list[str]) -> Taken:
        if len(routes) == 1:
            return await self._take_from_one(routes[0], limit, wanted, workers)
        taken = Taken()
        looks = [self._memory.floors.look(route, everywhere=wanted.now is not None) for route in routes]
        while looks:
            held_by_others = await self._take_by_age(looks, limit, taken, wanted, workers)
            if taken.is_enough(limit, workers):
                return taken
            for route in held_by_others:  # the oldest of it; by itself, what follows is found
                left = limit - len(taken.claims)
                if left > 0:
                    taken.add(await self._take_from_one(route, left, wanted, taken.left_of(workers)))
            looks = [below for look in looks if (below := self._memory.floors.look_below(look)) is not None]
            if taken.is_enough(limit, workers):
                return taken
        for route in routes:
            self._look_later(route, wanted.queue)
        return taken

    async def _take_by_age(
        self, looks: list[Look], limit: int, taken: Taken, wanted: Wanted, workers: list[str]
    ) -> list[int]:
        """Take the oldest of several routes; returns those that have anything more."""
        each = max(LEAST_OF_EACH, SPREAD * limit // len(looks))
        while True:
            left = limit - len(taken.claims)
            each = min(left, each)
            more, had, deeper = await self._look_at_all(looks, left, each, wanted, taken.left_of(workers))
            taken.add(more)
            if not (deeper and more.claims and each < left and len(taken.claims) < limit):
                return had
            each = limit  # one of them has nearly all

    async def _look_at_all(
        self, looks: list[Look], limit: int, each: int, wanted: Wanted, workers: list[str]
    ) -> tuple[Taken, list[int], bool]:
        """What was taken, the routes that had anything, and whether one has more than was looked at."""
        routes, starts = [look.route for look in looks], [look.start for look in looks]
        beside = wanted.max_attempts, wanted.now, wanted.claimed_by, self._memory.incarnation.fence
        asked = (routes, limit, workers, wanted.lease, *beside, starts, each)
        try:
            answer = await self._fetch(SQL.claim_routes, *asked)
            taken = await self._told([row[:8] for row in answer], wanted, workers)
        except BaseException:
            self._memory.floors.failed(looks)
            raise
        *_, shares, seen, deeper = answer[0]
        last: dict[str, int | None] = _shares(shares) if shares else {}
        had = set(seen or ())
        missed = [look for look in looks if look.route not in had]
        for look in looks:
            newest_taken = last.get(str(look.route))
            if newest_taken is not None:
                self._memory.floors.claimed(look, newest_taken)
        dear = [look.route for look in missed if self._memory.floors.missed(look)]
        if dear and not taken.claims:
            await self._mark(dear)
        return taken, sorted(had), bool(deeper)

    async def _mark(self, routes: list[int]) -> None:
        asked_at = time.monotonic()
        ((newest,),) = await self._read(SQL.newest_id)
        way = time.monotonic() - asked_at
        for route in routes:
            self._memory.floors.mark(route, newest, way=way)

    async def _take_from_one(self, route: int, limit: int, wanted: Wanted, workers: list[str]) -> Taken:
        taken = Taken()
        look: Look | None = self._memory.floors.look(route, by_id=limit, everywhere=wanted.now is not None)
        while look is not None:
            taken.add(await self._look(look, limit - len(taken.claims), wanted, taken.left_of(workers)))
            if taken.is_enough(limit, workers):
                return taken
            look = self._memory.floors.look_below(look, by_id=limit - len(taken.claims))
        self._look_later(route, wanted.queue)
        return taken

    async def _look(self, look: Look, limit: int, wanted: Wanted, workers: list[str]) -> Taken:
        beside = wanted.max_attempts, wanted.now, wanted.claimed_by, self._memory.incarnation.fence
        asked = (look.route, limit, workers, wanted.lease, look.start, *beside)
        try:
            if look.ids:
                answer = await self._fetch(SQL.claim_route_by_id, *asked, look.ids)
            else:
                answer = await self._fetch(SQL.claim_route, *asked)
            taken = await self._told(answer, wanted, workers)
        except BaseException:
            self._memory.floors.failed([look])
            raise
        if taken.claims:
            self._memory.floors.claimed(look, taken.claims[-1].held.id, all_of_it=len(taken.claims) < limit)
        elif self._memory.floors.missed(look):
            await self._mark([look.route])
        return taken

    def _look_later(self, route: int, queue: str) -> None:
        """Whoever waits for work that a look could not be afforded for is woken when it can."""
        seconds = self._memory.floors.owed(route)
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, self._look_now, route, queue)

    def _look_now(self, route: int, queue: str) -> None:
        self._memory.floors.paid(route)
        self.wakeups.wake(queue)

    async def _told(self, answer: list[Any], wanted: Wanted, workers: list[str]) -> Taken:
        """The one row that a claim is answered with. A delivery of work has the id of its event."""
        ((until, numbers, payloads, types, times, more, whose, changed),) = answer
        if (changed or 0) > self._memory.known.last:  # what is older than this may wait on a route that we do not know
            self._doubt_known_routes()
        if numbers is None:
            return Taken()
        ids, texts = _numbers(f"[{numbers[1:-1]}]"), payloads.split(BETWEEN)
        if len(ids) != len(texts):
            raise StoreError(f"{self.name}: a claim of {len(ids)} events came with {len(texts)} payloads.")
        specials = {} if more is None else {special[0]: special for special in _specials(more)}
        if "" in texts:
            await self._fill_in(ids, texts, specials, wanted)
        first, older = self._memory.incarnation.fence + FIRST_CLAIM, self._memory.incarnation.began_at
        lease = Lease(wanted.queue, until - wanted.lease, until, first, older)
        columns = zip(ids, _of_each(types), texts, _of_each(times), strict=False)
        claims = [
            Claim(
                Held(number, first),
                Unread(number, type_, text, created_at, lease),
                wanted.max_attempts,
                len(text),
                number <= older,
            )
            if number not in specials
            else _special(specials[number], type_, text, created_at, lease)
            for number, type_, text, created_at in columns
        ]
        taken = Taken(claims, whose or [workers[0]] * len(claims))
        return taken if all(texts) else taken.without_those_of(texts)

    async def _fill_in(self, ids: list[int], texts: list[str], specials: dict[int, list[Any]], wanted: Wanted) -> None:
        """Large payloads and metadata come row by row. If they do not come at all, what was claimed is given back."""
        large = {number: at for at, (number, text) in enumerate(zip(ids, texts, strict=True)) if not text}
        try:
            rows = await self._fetch(SQL.claimed_large, list(large))
        except StoreError:
            first = self._memory.incarnation.fence + FIRST_CLAIM
            held = [_held(number, specials.get(number), first) for number in ids]
            with suppress(StoreError):
                await self._settle([Report(each, Release()) for each in held], wanted.now)
            raise
        for number, payload, metadata in rows:
            texts[large[number]] = payload
            if number in specials:
                specials[number][6] = metadata


def _of_each(column: list[T]) -> Iterable[T]:
    """A column that says the same of all says it once."""
    return repeat(column[0]) if len(column) == 1 else column


def _held(number: int, special: list[Any] | None, first: int) -> Held:
    """The claim of a row, which is the first of its delivery if there is nothing special about it."""
    return Held(number, first) if special is None else Held(number, special[1], special[4])


def _special(special: list[Any], type_: str, text: str, created_at: datetime, lease: Lease) -> Claim:
    row = (*special[:6], type_, text, *special[6:], created_at, special[0], None)
    held = Held(special[0], special[1], special[4])
    return Claim(held, to_claimed(row, 0, lease, same), special[5], len(text), lease.is_again(held))
