"""A PostgreSQL server whose clock is set back under a retry, a lease and an appointment."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial

import pytest

from eventhub.store import Store, open_store
from eventhub.store.claims import Claim
from eventhub.testing.postgres_cluster import PostgresCluster
from tests.conformance.support import fail, new, publish, take
from tests.crash.wrong_clock import set_clock_by_file

pytestmark = [pytest.mark.alone]

SOON = 60.0
HOUR = timedelta(hours=1)

SetBack = Callable[[], int]


@pytest.fixture
async def stepped(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Store, SetBack]]:
    """A store on a server of its own, and what sets that server's clock back by an hour."""
    with PostgresCluster() as cluster:
        url = cluster.create_database("clock")
        cluster.stop()
        clock = cluster.directory / "clock"
        clock.write_text("+0\n")
        with monkeypatch.context() as patch:
            set_clock_by_file(patch, clock)
            cluster.start()
        async with open_store(url) as store:
            yield store, partial(clock.write_text, "-1h\n")


async def _claimed(store: Store, count: int) -> list[Claim]:
    claims: list[Claim] = []
    async with asyncio.timeout(SOON):
        while len(claims) < count:
            claims += await take(store, count, now=None)
            await asyncio.sleep(0.05)
    return claims


async def test_nothing_waits_for_the_step(stepped: tuple[Store, SetBack]) -> None:
    store, set_back = stepped
    start = await store.now()
    retried, leased = await publish(store, new(), new(), now=None)
    (timed,) = await publish(store, new(deliver_at=start + timedelta(seconds=10)), now=None)
    first, _ = await take(store, 2, now=None, lease=timedelta(seconds=5))
    assert await fail(store, first, after=5, now=None)
    await store.tend()
    set_back()
    assert await store.now() < start - HOUR / 2
    again = await _claimed(store, 2)
    assert {claim.event.id for claim in again} == {retried, leased}
    assert await store.now() < start
    event = await store.event(timed)
    assert event is not None
    assert event.next_retry_at == start + timedelta(seconds=10)
