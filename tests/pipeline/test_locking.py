"""Shared work is done by one; a lock of a process that was killed here is not waited for."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from eventhub.errors import StoreBusy
from eventhub.pipeline.locking import LEASE, hold
from eventhub.store import open_store
from eventhub.store.workers import new_worker


async def test_the_lock_of_the_living_is_kept_and_that_of_the_dead_is_taken(sqlite_path: Path) -> None:
    async with open_store(str(sqlite_path)) as store:
        async with hold(store, "pipeline") as held:
            await held.confirm()
            with pytest.raises(StoreBusy, match=f"held by .*:{os.getpid()}"):
                async with hold(store, "pipeline"):
                    pass
        machine, started, number = new_worker().rpartition(":")[2].split("-")
        ended = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
        await ended.wait()
        dead = f"here:{ended.pid}:{machine}-{started}-{number}"
        assert await store.take_lock("pipeline", dead, LEASE)
        async with hold(store, "pipeline"):
            pass


async def test_who_was_silent_for_too_long_is_told_before_the_next_step(sqlite_path: Path) -> None:
    async with open_store(str(sqlite_path)) as store, hold(store, "pipeline") as held:
        other = await store.take_lock("pipeline", "another", LEASE, now=await store.now() + 2 * LEASE)
        assert other is not None
        with pytest.raises(StoreBusy, match="was lost"):
            await asyncio.wait_for(held.confirm(), 10)
