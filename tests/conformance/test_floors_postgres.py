"""Floors: claims step over what is dead, and yet find everything that is ready, in a time that is known."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from eventhub.errors import StoreError
from eventhub.store import Store, open_store
from eventhub.store.claims import Claim
from eventhub.store.postgres import PostgresStore
from eventhub.store.postgres import floors as floors_module
from eventhub.store.postgres.floors import Floors, Look
from eventhub.store.postgres.publishing import SQL
from tests.conformance import hub_support, message_support
from tests.conformance.support import QUEUE, ids, new, publish, publish_one, release, take, take_one

NEAR, MOST_IDS, COST = 3, 4, 0.5
FREE_AGAIN = "UPDATE eventhub.deliveries SET state = 0, due = NULL WHERE event_id = $1 AND state = 1"


class Claiming(RuleBasedStateMachine):
    """A route whose looks from the beginning are dear, and claims that overlap with everything else that happens.

    What this process makes ready, and what comes late but near, is found by whoever claims next; the rest when a look
    from the beginning is due.
    """

    looks = Bundle("looks")

    def __init__(self) -> None:
        super().__init__()
        self.before = floors_module.NEAR, floors_module.MOST_IDS
        floors_module.NEAR, floors_module.MOST_IDS = NEAR, MOST_IDS  # type: ignore[misc]
        self.now = 100.0
        self.floors = Floors(clock=lambda: self.now)
        self.next_id = 1
        self.pending: set[int] = set()
        """Ids that were taken and not committed yet."""
        self.ready: set[int] = set()
        self.claimed: set[int] = set()
        self.hidden: set[int] = set()
        """Made ready by others, or so late that one need not find them at once."""
        self.untold: set[int] = set()
        """Made ready by this process, which has not told the floors yet."""
        self.told: set[int] = set()
        """Which has told them."""
        self.in_flight: list[Look] = []
        self.longest = COST

    def teardown(self) -> None:
        floors_module.NEAR, floors_module.MOST_IDS = self.before  # type: ignore[misc]

    def look_costs(self, look: Look) -> None:
        self.now += COST if look.start == 0 else 0.0001

    def take_from(self, look: Look, limit: int) -> list[int]:
        assert all(number < look.start for number in look.ids)
        assert len(look.ids) <= limit
        found = sorted(n for n in self.ready if n >= look.start or n in look.ids)[:limit]
        for number in found:
            self.ready.discard(number)
            self.hidden.discard(number)
            self.told.discard(number)
            self.untold.discard(number)
            self.claimed.add(number)
        return found

    def end(self, look: Look, found: list[int], limit: int) -> None:
        self.longest = max(self.longest, self.now - look.began)
        if found:
            self.floors.claimed(look, found[-1], all_of_it=len(found) < limit)
        elif self.floors.missed(look):
            self.floors.mark(1, self.next_id - 1, way=0.0001)

    @rule(count=st.integers(1, 12))
    def publish(self, count: int) -> None:
        self.ready.update(range(self.next_id, self.next_id + count))
        self.next_id += count

    @rule()
    def take_an_id(self) -> None:
        self.pending.add(self.next_id)
        self.next_id += 1

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def commit_late(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.pending)))
        self.pending.discard(number)
        self.ready.add(number)
        self.hidden.add(number)  # unless it is near, which is looked at when everything rests

    @precondition(lambda self: self.claimed)
    @rule(data=st.data(), ours=st.booleans())
    def make_ready_again(self, data: st.DataObject, *, ours: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.claimed)))
        self.claimed.discard(number)
        self.ready.add(number)
        (self.untold if ours else self.hidden).add(number)

    @rule()
    def tell_the_floors(self) -> None:
        self.floors.free([(1, number) for number in self.untold])
        self.told |= self.untold
        self.untold.clear()

    @precondition(lambda self: self.ready)
    @rule(data=st.data())
    def others_claim(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.ready)))
        for numbers in (self.ready, self.hidden, self.told, self.untold):
            numbers.discard(number)
        self.claimed.add(number)

    @rule(target=looks, limit=st.integers(1, 8), snapped=st.booleans(), by_id=st.booleans())
    def begin(self, limit: int, *, snapped: bool, by_id: bool) -> Any:
        """The statement sees what there is, right when it begins or when it ends."""
        look = self.floors.look(1, by_id=limit if by_id else 0)
        self.in_flight.append(look)
        return look, limit, self.take_from(look, limit) if snapped else None

    @rule(begun=consumes(looks), fails=st.booleans())
    def finish(self, begun: Any, *, fails: bool) -> None:
        look, limit, found = begun
        self.look_costs(look)
        self.in_flight.remove(look)
        if fails:
            self.floors.failed([look])
            self.hidden |= set(found or ())  # it was rolled back, and others are told of nothing
            self.ready |= set(found or ())
            self.claimed -= set(found or ())
            return
        self.end(look, self.take_from(look, limit) if found is None else found, limit)

    @rule(seconds=st.sampled_from([0.001, 0.05, 0.2, 3.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def drain(self) -> set[int]:
        """Claim until nothing is found; returns what was."""
        self.tell_the_floors()
        gone: set[int] = set()
        while True:
            look: Look | None = self.floors.look(1, by_id=5)
            found: list[int] = []
            while look is not None and not found:
                found = self.take_from(look, 5)
                self.look_costs(look)
                self.end(look, found, 5)
                look = self.floors.look_below(look, by_id=5)
            if not found:
                return gone
            gone.update(found)

    @precondition(lambda self: not self.in_flight)
    @rule()
    def rest(self) -> None:
        self.drain()
        assert self.ready <= self.hidden, "what this process made ready is found at once"
        assert all(number < self.floors._of(1).top - NEAR for number in self.ready), "and so is what is near"
        if self.ready:
            wait = self.floors.owed(1)
            assert wait is not None
            assert wait <= min(self.longest * floors_module.LOOK_SHARE, floors_module.LATEST)
            self.now += wait
            self.floors.paid(1)
            self.drain()
            assert not self.ready

    @invariant()
    def what_this_process_made_ready_lies_above_the_floor_or_is_remembered(self) -> None:
        known = self.floors._of(1)
        remembered = {*known.ids, *(number for look in self.in_flight for number in look.ids)}
        assert all(number >= known.floor or number in remembered for number in self.told)
        assert len(known.ids) <= MOST_IDS


TestClaiming = Claiming.TestCase
TestClaiming.settings = settings(max_examples=400, stateful_step_count=40, deadline=None)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def looked(floors: Floors, clock: Clock, seconds: float) -> int:
    """A look that takes so long and finds nothing; where it started."""
    look = floors.look(1)
    clock.now += seconds
    if floors.missed(look):
        floors.mark(1, 0, way=0.0001)
    return look.start


def test_a_look_from_the_beginning_is_taken_a_twentieth_of_the_time_but_several_times_a_minute() -> None:
    for cost, pause in ((0.02, 0.4), (0.5, 10.0), (40.0, 15.0)):
        clock = Clock()
        floors = Floors(clock)
        floors.claimed(floors.look(1), 1_000_000)
        clock.now += 1.0
        assert looked(floors, clock, cost) == 0
        look = floors.look(1)
        assert look.start == 1_000_001
        assert not floors.missed(look)
        below = floors.look_below(look)
        assert below is not None
        assert below.start == 1_000_001 - floors_module.NEAR
        assert floors.look_below(below) is None
        clock.now += pause - 0.01
        assert looked(floors, clock, 0.0001) > 0
        clock.now += 0.02
        assert looked(floors, clock, cost) == 0


def test_what_lies_low_is_worked_off_from_there() -> None:
    floors = Floors(Clock())
    floors.claimed(floors.look(1), 1_000_000)
    floors.claimed(floors.look(1, everywhere=True), 500)
    assert floors.look(1).start == 501


def test_two_do_not_take_the_same_dear_look() -> None:
    clock = Clock()
    floors = Floors(clock)
    floors.claimed(floors.look(1), 1_000_000)
    clock.now += 1.0
    assert looked(floors, clock, 0.5) == 0
    clock.now += 20.0
    assert floors.look(1).start == 0
    clock.now += 0.4
    assert floors.look(1).start > 0


def test_the_way_to_a_distant_server_is_not_dear() -> None:
    clock = Clock()
    floors = Floors(clock)
    floors.claimed(floors.look(1), 1_000_000)
    for start in (1_000_001, 0, 0):
        look: Look | None = floors.look(1)
        while look is not None and look.start != start:
            look = floors.look_below(look)
        assert look is not None
        clock.now += 0.2
        if floors.missed(look):
            floors.mark(1, 1_000_000, way=0.199)
    assert floors.owed(1) is None


def test_what_became_ready_below_the_floor_is_taken_by_id_and_does_not_lower_it() -> None:
    floors = Floors(Clock())
    floors.claimed(floors.look(1), 1_000_000)
    floors.free([(1, 700), (1, 500), (1, 600)])
    first, second = floors.look(1, by_id=2), floors.look(1, by_id=2)
    assert (first.ids, second.ids) == ((500, 600), (700,)), "each to one claim, the oldest first"
    assert first.start == second.start == 1_000_001
    floors.claimed(first, 600)
    assert floors.look(1, by_id=2) == Look(1, 1_000_001, 1000.0, first.frees)


def test_what_a_look_from_below_sees_itself_takes_no_place_of_others() -> None:
    for seconds, near in ((0.2, 0), (0.0, 10_000)):
        clock = Clock()
        floors = Floors(clock)
        floors.claimed(floors.look(1), 1_000_000)
        floors.free([(1, 999_997), (1, 999_998)])
        clock.now += seconds
        if near:
            floors._of(1).near_at = 0.0
        look = floors.look(1, by_id=2)
        assert look.start == (1_000_001 - near if near else 0)
        assert look.ids == ()
        floors.claimed(look, 1_000_100)
        floors.free([(1, 999_999), (1, 1_000_000)])
        following = floors.look(1, by_id=2)
        assert (following.ids, following.start) == ((999_999, 1_000_000), 1_000_101)


def test_who_takes_nothing_by_id_looks_from_the_oldest_on() -> None:
    floors = Floors(Clock())
    floors.claimed(floors.look(1), 1_000_000)
    early = floors.look(1)
    floors.free([(1, 500)])
    assert floors.look(1).start == 500
    floors.claimed(early, 1_000_500)
    assert floors.look(1).start == 500


def test_what_a_look_that_failed_took_along_lies_above_the_floor() -> None:
    floors = Floors(Clock())
    floors.claimed(floors.look(1), 1_000_000)
    floors.free([(1, 500), (1, 600)])
    floors.failed([floors.look(1, by_id=5)])
    assert floors.look(1, by_id=5) == Look(1, 500, 1000.0, 1)


def test_more_than_can_be_remembered_lowers_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors_module, "MOST_IDS", 2)
    floors = Floors(Clock())
    floors.claimed(floors.look(1), 1_000_000)
    floors.free([(1, 500), (1, 600), (1, 700), (1, 800)])
    look = floors.look(1, by_id=5)
    assert (look.ids, look.start) == ((500, 600), 700)


def test_a_floor_that_was_lowered_rises_again_however_much_is_made_ready_meanwhile() -> None:
    floors = Floors(Clock())
    floors.claimed(floors.look(1), 1_000_000)
    floors.free([(1, 500)])
    look = floors.look(1)
    assert look.start == 500
    for number in range(1000):
        floors.free([(1, 999_000 + number % 7)])
    floors.claimed(look, 500, all_of_it=True)
    assert floors.look(1).start == 999_000
    look = floors.look(1)
    for number in range(1000):
        floors.free([(1, 999_500 + number)])
    floors.claimed(look, 1_500_000)
    assert floors.look(1).start == 999_500, "what became ready since then does not lie below the floor"


def test_a_look_during_which_very_much_became_ready_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors_module, "REMEMBERED", 10)
    floors = Floors(Clock())
    floors.claimed(floors.look(1), 1_000_000)
    look = floors.look(1)
    for number in range(12):
        floors.free([(1, 500 + number)])
    floors.claimed(look, 1_000_500)
    assert floors.look(1).start == 500


def test_the_newest_id_says_nothing_to_a_look_that_began_before() -> None:
    clock = Clock()
    floors = Floors(clock)
    early, other = floors.look(1), floors.look(1)
    clock.now += 1.0
    assert floors.missed(other)
    floors.mark(1, 1_000_000, way=0.0001)
    assert floors.missed(early)
    assert floors.look_below(Look(1, 1, clock.now)) == Look(1, 0, clock.now), "there may be work from the first id on"
    later = Look(1, 0, clock.now)
    clock.now += 1.0
    assert floors.missed(later)
    assert floors.look(1).start >= 1_000_000 - 2 * floors_module.NEAR


def test_who_was_passed_over_is_looked_for_lower_next_time() -> None:
    clock = Clock()
    floors = Floors(clock)
    floors.claimed(floors.look(1), 1_000_000)
    look = floors.look(1)
    assert look.start == 1_000_001
    floors.passed_over(look)
    assert floors.look(1).start == 0


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[Store]:
    async with open_store(postgres_url) as opened:
        yield opened


@pytest.fixture
def dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look from the beginning is dear, and hardly anything is near."""
    monkeypatch.setattr(floors_module, "DEAR", -1.0)
    monkeypatch.setattr(floors_module, "NEAR", 2)


def starts(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From where claims look, as they do it."""
    seen: list[int] = []
    assert isinstance(store, PostgresStore)
    fetch = store._fetch

    async def watched(query: str, *arguments: Any) -> list[Any]:
        if query in (SQL.claim_route, SQL.claim_route_by_id):
            seen.append(arguments[4])
        return await fetch(query, *arguments)

    monkeypatch.setattr(store, "_fetch", watched)
    return seen


async def free_elsewhere(url: str, event_id: int) -> None:
    """As another process does, whose signal is lost."""
    other = await asyncpg.connect(url)
    await other.execute(FREE_AGAIN, event_id)
    await other.close()


async def all_claimed(store: Store, count: int) -> list[Claim]:
    await publish(store, *(new() for _ in range(count)), now=None)
    claims = await take(store, count, now=None)
    assert await take(store, now=None) == []
    return claims


@pytest.mark.usefixtures("dear")
async def test_who_waits_is_woken_for_a_look_that_could_not_be_afforded(store: Store, postgres_url: str) -> None:
    claims = await all_claimed(store, 20)
    await free_elsewhere(postgres_url, claims[0].event.id)
    mark = store.wakeups.mark(QUEUE)
    while not (found := await take(store, now=None)):
        assert await store.wait(QUEUE, since=mark, timeout=60.0, until_due=False)
        mark = store.wakeups.mark(QUEUE)
    assert ids(found) == [claims[0].event.id]


@pytest.mark.usefixtures("dear")
async def test_what_this_process_frees_is_found_at_once(store: Store) -> None:
    claims = await all_claimed(store, 20)
    for claim in (claims[3], claims[11]):
        assert await release(store, claim, now=None)
    assert ids(await take(store, 5, now=None)) == [claims[3].event.id, claims[11].event.id]
    assert await take(store, now=None) == []
    assert await publish_one(store, None) == (await take_one(store, None)).event.id


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never again time to look from below."""
    monkeypatch.setattr(floors_module, "LOOK_EVERY", 1e9)
    monkeypatch.setattr(floors_module, "LATEST", 1e9)


@pytest.mark.usefixtures("dear", "once")
async def test_what_this_process_frees_is_older_than_what_follows_and_found_without_looking_lower(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = await all_claimed(store, 20)
    follows = await publish(store, new(), new(), new(), now=None)
    for claim in (claims[11], claims[3], claims[7]):
        assert await release(store, claim, now=None)
    seen = starts(store, monkeypatch)
    assert ids(await take(store, 2, now=None)) == [claims[3].event.id, claims[7].event.id]
    assert ids(await take(store, 3, now=None)) == [claims[11].event.id, *follows[:2]]
    assert ids(await take(store, 3, now=None)) == follows[2:]
    assert min(seen) > claims[-1].event.id


@pytest.mark.usefixtures("dear", "once")
async def test_what_another_process_has_taken_is_stepped_over(store: Store, postgres_url: str) -> None:
    claims = await all_claimed(store, 20)
    for claim in claims[:4]:
        assert await release(store, claim, now=None)
    async with open_store(postgres_url) as other:
        assert ids(await take(other, 2, now=None)) == ids(claims[:2])
        holder = await asyncpg.connect(postgres_url)
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute("SELECT FROM eventhub.deliveries WHERE id = $1 FOR UPDATE", claims[2].event.id)
        follows = await publish_one(store, None)
        assert ids(await take(store, 4, now=None)) == [claims[3].event.id, follows]
        await transaction.rollback()
        await holder.close()
        assert await take(store, 4, now=None) == [], "it was passed over, as whatever is locked"
    async with open_store(postgres_url) as later:
        assert ids(await take(later, 4, now=None)) == [claims[2].event.id]


@pytest.mark.usefixtures("dear", "once")
async def test_a_claim_that_fails_leaves_what_it_asked_for_by_id_to_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = await all_claimed(store, 20)
    for claim in claims[:2]:
        assert await release(store, claim, now=None)
    with monkeypatch.context() as broken:
        broken.setattr(SQL, "claim_route_by_id", "SELECT this is refused")
        with pytest.raises(StoreError):
            await take(store, 2, now=None)
    assert ids(await take(store, 2, now=None)) == ids(claims[:2])


@pytest.mark.usefixtures("dear")
async def test_what_is_committed_late_is_found_at_once(store: Store) -> None:
    await all_claimed(store, 20)
    late = await asyncpg.connect(store.url)
    transaction = late.transaction()
    await transaction.start()
    (low,) = await store.publish([new()], connection=late)
    high = await publish_one(store, None)
    assert (await take_one(store, None)).event.id == high > low.id
    await transaction.commit()
    await late.close()
    assert (await take_one(store, None)).event.id == low.id


async def test_an_empty_queue_is_looked_through_as_rarely_as_that_is_dear(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await all_claimed(store, 20)
    seen = starts(store, monkeypatch)
    for _ in range(5):
        assert await take(store, now=None) == []
    assert seen.count(0) >= 5, "as long as it costs little, every time"
    monkeypatch.setattr(floors_module, "DEAR", -1.0)
    monkeypatch.setattr(floors_module, "NEAR", 2)
    monkeypatch.setattr(floors_module, "LOOK_SHARE", 1e9)
    assert await take(store, now=None) == []
    seen.clear()
    for _ in range(20):
        assert await take(store, now=None) == []
    assert seen.count(0) <= 1
    assert len(seen) >= 40, "near the end, every time"


@pytest.mark.parametrize("has_claimed", [False, True])
async def test_a_process_that_others_outrun_steps_over_what_they_claimed(
    store: Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch, *, has_claimed: bool
) -> None:
    monkeypatch.setattr(floors_module, "DEAR", -1.0)
    monkeypatch.setattr(floors_module, "NEAR", 2)
    async with open_store(postgres_url) as slow:
        await publish_one(store, None)
        await take_one(slow if has_claimed else store, None)
        claims = await all_claimed(store, 50)
        seen = starts(slow, monkeypatch)
        for _ in range(3):
            assert await take(slow, now=None) == []
        seen.clear()
        assert await take(slow, now=None) == []
        assert min(seen) >= claims[-1].event.id - 2 * floors_module.NEAR
        (number,) = await publish(slow, new(), now=None)
        assert ids(await take(slow, now=None)) == [number]


async def test_messages_that_others_free_are_found_at_the_next_look(store: Store, postgres_url: str) -> None:
    number = await hub_support.subscriber(store)
    await message_support.send(store, number, count=20, now=None)
    claims = await hub_support.claim(store, number)
    assert len(claims) == 20
    assert await hub_support.claim(store, number) == []
    await free_elsewhere(postgres_url, claims[0].event_id)
    found = await hub_support.claim(store, number) or await hub_support.claim(store, number)
    assert [claim.event_id for claim in found] == [claims[0].event_id]
