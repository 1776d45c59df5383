"""The database fails over while stores live on: to a standby that has everything, or lacks the last commits.

The same store objects go on with the next host of their URL; nothing that they remembered of the first may reach it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from eventhub.core.lifecycle import Complete
from eventhub.errors import StoreReadOnly, StoreUnavailable
from eventhub.store import Store, open_store
from eventhub.store.claims import Claim
from eventhub.store.messages import FannedOut
from eventhub.store.postgres import PostgresStore
from eventhub.store.values import NewEvent, Report, Route
from eventhub.testing.postgres_cluster import PostgresCluster
from eventhub.testing.postgres_standby import PostgresStandby, failover_url, wait_for_standby
from eventhub.testing.torture.proxy import Proxy
from tests.conformance.hub_support import MINUTE, broadcast, plan, subscriber
from tests.conformance.hub_support import claim as claim_messages

R = TypeVar("R")
PATIENCE = 60.0


class Pair:
    """A primary and its standby, with a database that both have."""

    def __init__(self, primary: PostgresCluster, standby: PostgresStandby) -> None:
        self.primary, self.standby = primary, standby
        self.url = failover_url(primary, standby, database="hub")

    def lose_the_tail(self) -> None:
        """Whatever is committed from now on, the standby will never have."""
        self.standby.catch_up()
        self.standby.disconnect()

    def fail_over(self) -> None:
        self.primary.stop("immediate")
        self.standby.promote()


@pytest.fixture
def pair() -> Iterator[Pair]:
    with PostgresCluster(tcp=True) as primary:
        primary.create_database("hub")
        with PostgresStandby(primary) as standby:
            yield Pair(primary, standby)


@pytest.fixture
async def store(pair: Pair) -> AsyncIterator[Store]:
    async with open_store(pair.url) as opened:
        yield opened


async def insist(work: Callable[[], Awaitable[R]]) -> R:
    """As every interface does: connections that died with the primary are found out one by one."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await work()
            except (StoreUnavailable, StoreReadOnly):  # the standby answers before it is promoted
                await asyncio.sleep(0)


def event(*tags: str, key: str | None = None, payload: str = "1") -> NewEvent:
    return NewEvent(type="a", payload=payload, route=Route("work", tags), ordering_key=key, tags=",".join(tags) or None)


async def publish(store: Store, *events: NewEvent) -> list[int]:
    return [one.id for one in await insist(lambda: store.publish(events))]


async def take(store: Store, *tags: str, limit: int = 100) -> list[Claim]:
    return await insist(
        lambda: store.claim("work", worker="w", lease=MINUTE, limit=limit, tags=frozenset(tags) or None)
    )


async def complete(store: Store, claims: list[Claim]) -> list[bool]:
    settled = await insist(lambda: store.settle([Report(one.held, Complete()) for one in claims]))
    return [one.accepted for one in settled]


async def hand_out(store: Store, number: int) -> list[int]:
    """Fan out everything; the events whose messages there are then, in order."""

    async def round_of_all() -> FannedOut:
        return await store.fan_out(await plan(store, number, keyed=True))

    async with asyncio.timeout(PATIENCE):
        while (done := await insist(round_of_all)).events or done.more or done.busy or done.stale:
            continue
    events: list[int] = []
    while found := await insist(lambda: claim_messages(store, number)):
        events += [one.event_id for one in found]
        await store.settle([Report(one.held, Complete(), detail="{}") for one in found])
    return events


async def test_broadcasts_after_a_failover_with_loss_are_handed_out(pair: Pair, store: Store) -> None:
    number = await subscriber(store)
    await broadcast(store, "1")
    (waiting,) = await broadcast(store, "2")  # the standby has it, and that it was handed out, it has not
    pair.lose_the_tail()
    seen = [one.id for _ in range(30) for one in await broadcast(store, "1", "2", "3")]
    assert set(seen) < set(await hand_out(store, number))
    assert await hand_out(store, number) == []
    pair.fail_over()
    new = [one.id for one in await insist(lambda: broadcast(store, "1", "2", ordering_key="k"))]
    handed = await hand_out(store, number)
    assert handed[-2:] == new
    assert waiting.id in handed
    assert min(new) > max(seen)


async def test_events_go_to_routes_that_the_new_primary_has(pair: Pair, store: Store) -> None:
    await publish(store, event("common"))
    pair.lose_the_tail()
    await publish(store, event("lost"), event("lost", "more"))  # the standby will give these numbers to others
    async with open_store(pair.url) as other:
        assert len(await take(other, "lost")) == 2
        pair.fail_over()
        new = await publish(other, *(event(f"new{n}") for n in range(50)))
        (first,) = await publish(store, event("lost"))
        async with open_store(pair.url) as third:
            assert [one.held.id for one in await take(third, *(f"new{n}" for n in range(50)))] == new
            assert [one.held.id for one in await take(third, "lost")] == [first]


async def test_no_id_is_given_twice(pair: Pair, store: Store) -> None:
    before = await publish(store, *(event() for _ in range(10)))
    pair.lose_the_tail()
    lost = [number for _ in range(20) for number in await publish(store, *(event() for _ in range(10)))]
    pair.fail_over()
    after = await publish(store, *(event() for _ in range(10)))
    assert not set(after) & {*before, *lost}
    assert [one.held.id for one in await take(store)] == before + after


async def test_a_claim_that_the_new_primary_does_not_know_settles_nothing(pair: Pair, store: Store) -> None:
    """Its fence must not be given to somebody else."""
    (number,) = await publish(store, event())
    pair.lose_the_tail()
    (lost,) = await take(store)
    pair.fail_over()
    (current,) = await take(store)
    assert lost.held.id == current.held.id == number
    assert await complete(store, [lost]) == [False]
    assert await complete(store, [current]) == [True]


async def test_a_claim_that_the_new_primary_knows_is_still_good(pair: Pair, store: Store) -> None:
    await publish(store, event(), event())
    claims = await take(store)
    pair.standby.catch_up()
    pair.fail_over()
    assert await complete(store, claims) == [True, True]


async def test_work_that_was_settled_in_the_lost_tail_is_done_again(pair: Pair, store: Store) -> None:
    """It lies far below what was claimed since: a floor that was remembered would hide it."""
    numbers = await publish(store, *(event("t") for _ in range(20)))
    pair.lose_the_tail()
    await complete(store, await take(store, "t"))
    await publish(store, *(event("t") for _ in range(20)))
    await complete(store, await take(store, "t"))
    pair.fail_over()
    assert [one.held.id for one in await take(store, "t")] == numbers


async def test_keys_stay_in_order(pair: Pair, store: Store) -> None:
    await publish(store, *(event(key="k") for _ in range(3)))
    pair.lose_the_tail()
    await complete(store, await take(store))
    pair.fail_over()
    await publish(store, event(key="k"))
    order: list[int] = []
    while claims := await take(store):
        assert len(claims) == 1
        order += [one.held.id for one in claims]
        assert await complete(store, claims) == [True]
    assert order == sorted(order)
    assert len(order) == 4


async def test_nothing_is_lost_to_a_synchronous_standby(pair: Pair, store: Store) -> None:
    wait_for_standby(pair.primary)
    acknowledged: list[int] = []

    async def publish_on() -> None:
        while len(acknowledged) < 150:
            acknowledged.extend(await publish(store, event("t", key="k")))
            if len(acknowledged) == 100:
                await asyncio.to_thread(pair.fail_over)

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(publish_on(), publish_on())
    order: list[int] = []
    while claims := await take(store, "t"):
        order += [one.held.id for one in claims]
        await complete(store, claims)
    assert set(acknowledged) <= set(order)
    assert order == sorted(order)


async def test_changes_of_subscribers_in_the_lost_tail_are_forgotten(pair: Pair, store: Store) -> None:
    """Both sides have seen as many changes: only the incarnation tells that they were not the same."""
    kept = await subscriber(store)
    pair.lose_the_tail()
    lost = await subscriber(store)
    way = await plan(store, kept, lost)
    pair.fail_over()
    await insist(lambda: subscriber(store))
    await broadcast(store, "1")
    assert (await store.fan_out(way)).stale


class Both(Pair):
    """Both servers run; a proxy leads new connections to one of them, as a virtual address does."""

    def __init__(self, primary: PostgresCluster, standby: PostgresStandby, proxy: Proxy) -> None:
        super().__init__(primary, standby)
        self.proxy = proxy
        self.url = failover_url(primary, database="hub").replace(str(primary.port), str(proxy.port))

    def promote(self) -> None:
        self.lose_the_tail()
        self.standby.promote()

    def lead_to(self, cluster: PostgresCluster) -> None:
        assert cluster.port is not None
        self.proxy.lead_to(cluster.port)


@pytest.fixture
async def both(pair: Pair) -> AsyncIterator[Both]:
    assert pair.primary.port is not None
    async with Proxy(pair.primary.port) as proxy:
        yield Both(pair.primary, pair.standby, proxy)


async def test_a_former_primary_is_refused(both: Both) -> None:
    """It still runs, and whoever comes to it by mistake is told so; nothing is acknowledged there."""
    async with open_store(both.url) as store:
        await publish(store, event())
        await asyncio.to_thread(both.promote)
        both.lead_to(both.standby)
        both.proxy.reset()
        (second,) = await publish(store, event())
        both.lead_to(both.primary)
        both.proxy.reset()
        async with asyncio.timeout(PATIENCE):
            while True:
                with pytest.raises(StoreUnavailable) as refused:
                    await store.publish([event()])
                if "has seen a later one (2)" in str(refused.value):
                    break
        both.lead_to(both.standby)
        (third,) = await publish(store, event())
        assert [one.held.id for one in await take(store)][1:] == [second, third]


async def test_connections_that_are_open_to_the_former_primary_are_not_used(both: Both) -> None:
    """The first new connection finds the new one; from then on nothing goes the old way."""
    async with open_store(both.url) as store:
        assert isinstance(store, PostgresStore)
        await publish(store, event())
        await asyncio.to_thread(both.promote)
        both.lead_to(both.standby)
        old = await publish(store, event())  # nobody can know yet
        gate = asyncio.Event()

        async def hold() -> None:
            async with store._transaction():
                await gate.wait()

        holders = [asyncio.create_task(hold()) for _ in range(4)]  # more than are open
        async with asyncio.timeout(PATIENCE):
            while store.incarnation_met.number == 1:  # noqa: ASYNC110 - it is met by one of them
                await asyncio.sleep(0)
        gate.set()
        over = await asyncio.gather(*holders, return_exceptions=True)
        assert any(isinstance(error, StoreUnavailable) for error in over), "what was under way there is in doubt"
        new = [number for _ in range(20) for number in await publish(store, event())]
        assert min(new) > old[0] + 1_000_000
        there = both.standby.execute("SELECT count(*) FROM eventhub.events WHERE id > 1000000", database="hub")
        assert int(there) == len(new)
        assert both.primary.execute("SELECT count(*) FROM eventhub.events", database="hub") == "2"


async def test_a_standby_can_be_read_and_is_not_written_when_it_is_promoted(pair: Pair, store: Store) -> None:
    """Its connections are made for reading: what it becomes they have not looked at."""
    await publish(store, event())
    pair.standby.catch_up()
    async with open_store(failover_url(pair.standby, database="hub")) as reader:
        assert await reader.last_event() == 1
        assert reader.incarnation_met.standby
        with pytest.raises(StoreReadOnly):
            await reader.publish([event()])
        pair.lose_the_tail()
        lost = await publish(store, event())
        pair.fail_over()
        (new,) = await publish(reader, event())
        assert new > lost[0] + 1_000_000
        assert (await reader.incarnation()).number == 2


async def test_the_log_says_what_happened(pair: Pair, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    pair.standby.catch_up()
    pair.fail_over()
    await take(store)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "eventhub.store"]
    assert "incarnation 2" in line
    assert (await store.incarnation()).number == 2
