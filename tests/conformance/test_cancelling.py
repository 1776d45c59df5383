"""Cancelling is not an outcome: whoever stops waiting for a claim charges nothing and holds nothing up."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from eventhub.core.events import Status
from eventhub.core.lifecycle import Bury
from eventhub.store import Store, open_store
from eventhub.store.claims import Held
from eventhub.store.values import Report
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


@pytest.mark.parametrize("steps", range(0, 40, 2))
async def test_what_is_published_after_a_cancelled_transaction_is_really_committed(
    postgres_url: str, steps: int
) -> None:
    async with open_store(postgres_url, pool_size=1) as store:
        publishing = asyncio.create_task(publish_one(store, key="k", idempotency_key="x", now=None))
        await cancelled_twice(publishing, steps)
        settling = asyncio.create_task(store.settle([Report(Held(1, 1, 1), Bury("never"))]))
        await cancelled_twice(settling, steps)
        number = await publish_one(store, now=None)
        connection = await asyncpg.connect(postgres_url)
        try:
            assert await connection.fetchval("SELECT count(*) FROM eventhub.events WHERE id = $1", number) == 1
        finally:
            await connection.close()


async def cancelled_twice(task: asyncio.Task[Any], steps: int) -> None:
    """Cancelled after some steps of the loop, and again in the middle of its clean-up."""
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
