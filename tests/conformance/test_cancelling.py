"""Cancelling is not an outcome: whoever stops waiting for a claim charges nothing and holds nothing up."""

from __future__ import annotations

import asyncio

import pytest

from eventhub.core.events import Status
from eventhub.store import Store, open_store
from tests.conformance.support import MINUTE, QUEUE, publish_one


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8])
async def test_a_claim_that_nobody_waits_for_is_given_back_uncharged(store: Store, steps: int) -> None:
    number = await publish_one(store, max_attempts=1, now=None)
    claiming = asyncio.create_task(store.claim(QUEUE, worker="w", lease=MINUTE))
    for _ in range(steps):
        await asyncio.sleep(0)
    claiming.cancel()
    await asyncio.wait({claiming})
    assert claiming.cancelled()
    for _ in range(1000):
        claims = await store.claim(QUEUE, worker="v", lease=MINUTE)
        if claims:
            break
    assert [claim.event.id for claim in claims] == [number]
    assert claims[0].event.attempts == 1
    event = await store.event(number)
    assert event is not None
    assert (event.status, event.attempts, event.retry_count) == (Status.PROCESSING, 1, 0)


async def test_closing_gives_back_what_a_cancelled_claim_took(store: Store, store_url: str) -> None:
    number = await publish_one(store, now=None)
    claiming = asyncio.create_task(store.claim(QUEUE, worker="w", lease=MINUTE))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    claiming.cancel()
    await asyncio.wait({claiming})
    await store.close()
    async with open_store(store_url) as again:
        assert [claim.event.id for claim in await again.claim(QUEUE, worker="v", lease=MINUTE)] == [number]
