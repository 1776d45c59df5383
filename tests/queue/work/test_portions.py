"""Many at once, but never more bytes than a server can carry: payloads bound a claim as its limit does."""

from eventhub.queue.work import WorkQueue
from eventhub.queue.work.work_queue import MOST_BYTES
from eventhub.store.claims import Claim, Wanted
from tests.queue.work.support import publish

LARGE = "x" * 1_000_000


def counted(work: WorkQueue) -> list[int]:
    """How many each claim asks the engine for, from now on."""
    asked: list[int] = []
    claim = work.store._claim

    async def spy(wanted: Wanted) -> list[Claim]:
        asked.append(wanted.limit)
        return await claim(wanted)

    work.store._claim = spy  # type: ignore[method-assign]
    return asked


async def test_large_payloads_come_in_portions_and_none_is_lost(work: WorkQueue) -> None:
    numbers = await publish(work, count=40, payload=LARGE)
    taken: list[int] = []
    while claims := await work.take("host-a:1", "email", limit=1000):
        assert sum(len(claim.event.payload) for claim in claims) <= MOST_BYTES
        taken += [claim.event.id for claim in claims]
    assert taken == numbers


async def test_a_hundred_small_jobs_are_one_claim_once_their_size_is_known(work: WorkQueue) -> None:
    numbers = await publish(work, count=600)
    await work.take("host-a:1", "email", limit=100)
    asked = counted(work)
    claims = await work.take("host-a:1", "email", limit=100)
    assert [claim.event.id for claim in claims] == numbers[100:200]
    assert asked == [100]
    assert len(await work.take("host-a:1", "email", limit=1000)) == 400


async def test_after_small_payloads_large_ones_are_a_surprise_only_once(work: WorkQueue) -> None:
    await publish(work, count=300)
    assert len(await work.take("host-a:1", "email", limit=300)) == 300
    await publish(work, count=140, payload=LARGE)
    assert len(await work.take("host-a:1", "email", limit=1000)) == 100
    assert len(await work.take("host-a:1", "email", limit=1000)) == 16
    assert len(await work.take("host-a:1", "email", limit=1)) == 1
