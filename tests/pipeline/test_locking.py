"""Shared work is done by one; a lock of a process that was killed here is not waited for."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eventhub.errors import StoreBusy
from eventhub.pipeline.locking import LEASE, hold
from eventhub.pipeline.owners import is_gone, this_process
from eventhub.store import open_store


def test_only_a_process_of_this_machine_that_has_ended_is_gone() -> None:
    owner = this_process()
    host, pid, machine, birth = owner.split(":")
    assert int(pid) == os.getpid()
    assert not is_gone(owner)
    assert is_gone(":".join([host, pid, machine, f"{int(birth) - 1}"]))  # another process had this number before
    assert not is_gone(":".join([host, pid, "elsewhere", f"{int(birth) - 1}"]))
    assert not is_gone("somebody")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert is_gone(":".join([host, str(ended.pid), machine, birth]))
    zombie = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(":".join([host, str(zombie.pid), machine, birth]))
    zombie.wait()


async def test_the_lock_of_the_living_is_kept_and_that_of_the_dead_is_taken(sqlite_path: Path) -> None:
    async with open_store(str(sqlite_path)) as store:
        async with hold(store, "pipeline") as held:
            await held.confirm()
            with pytest.raises(StoreBusy, match=f"held by .*:{os.getpid()}"):
                async with hold(store, "pipeline"):
                    pass
        host, pid, machine, birth = this_process().split(":")
        dead = ":".join([host, pid, machine, f"{int(birth) - 1}"])
        assert await store.take_lock("pipeline", dead, LEASE)
        async with hold(store, "pipeline"):
            pass


async def test_who_was_silent_for_too_long_is_told_before_the_next_step(sqlite_path: Path) -> None:
    async with open_store(str(sqlite_path)) as store, hold(store, "pipeline") as held:
        other = await store.take_lock("pipeline", "another", LEASE, now=await store.now() + 2 * LEASE)
        assert other is not None
        with pytest.raises(StoreBusy, match="was lost"):
            await asyncio.wait_for(held.confirm(), 10)
