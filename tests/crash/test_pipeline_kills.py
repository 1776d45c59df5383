"""The pipeline is killed at every step on the way to the lake, and at random: each row is there once, none is missing.

Locks in the database hold the process at the step where it is to die; it knows nothing of that. More random kills:
``EVENTHUB_KILLS=30``.
"""

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from eventhub.lake.place import Lake
from eventhub.lake.tables import LakeTable
from eventhub.pipeline.extraction import Extraction
from eventhub.store import Store, open_store
from eventhub.store.composing import Composer
from eventhub.store.ledger import DATASETS, Dataset
from eventhub.testing.torture.children import Child, Nursery, until
from eventhub.testing.torture.roles.pipeline import no_spark
from tests.crash.conftest import Say
from tests.crash.gates import WHOLE, WRITES, Gate, gate

pytestmark = [pytest.mark.alone, pytest.mark.timeout(300)]
KILLS = int(os.environ.get("EVENTHUB_KILLS", "6"))
LONGEST = 60.0


async def publish(store: Store, count: int) -> None:
    await store.publish(Composer("default").many([{"type": "a", "payload": {"n": n}} for n in range(count)]))


def copied(lake: Lake, dataset: Dataset) -> list[int]:
    table = lake.dataset(dataset)
    return sorted(table.open().to_pyarrow_table(columns=["id"])["id"].to_pylist()) if table.exists else []


async def complete(store: Store, lake: Lake) -> None:
    """A last run that nobody disturbs; then the lake has every row once, and nothing else is left of the dead."""
    for dataset in DATASETS:
        await Extraction(store, lake, spark=no_spark).extract(dataset)
        commits = await store.lake_commits(dataset, limit=10_000)
        assert all(commit.done_at for commit in commits)
        assert [commit.first for commit in commits[:-1]] == [commit.last for commit in commits[1:]]
        rows = copied(lake, dataset)
        assert len(set(rows)) == len(rows) == sum(commit.rows or 0 for commit in commits)
        assert len(rows) == (await store.waiting(dataset, 0)).rows
        table = lake.dataset(dataset)
        table.clean(keep_hours=0)
        assert copied(lake, dataset) == rows
        assert files(table) == table.describe()["files"]


class Killing:
    """A hub with rows to copy, and a process that is killed when it stands before a gate."""

    def __init__(self, url: str, lake: Lake, nursery: Nursery) -> None:
        self.url, self.lake, self._nursery = url, lake, nursery

    def start(self) -> Child:
        return self._nursery.spawn("pipeline", "copier", url=self.url, lake=self.lake.url)

    async def kill_at(self, last: str) -> None:
        """Held where it reads rows, until the gate of its death is closed; then on to that one."""
        child = self.start()
        async with AsyncExitStack() as closed:
            async with gate(self.url, "routes", WHOLE) as reading:
                await reading.reached()
                if last == "routes":
                    await self.die(child, reading)
                    return
                death = await closed.enter_async_context(gate(self.url, last, WRITES))
            await death.reached()
            await self.die(child, death)

    async def die(self, child: Child, gate: Gate) -> None:
        child.kill()
        await child.ended()
        await gate.turn_away()


def files(table: LakeTable) -> int:
    return len(list(Path(table.url).glob("day=*/*.parquet")))


async def test_every_step_of_the_protocol_survives_a_kill(postgres_url: str, tmp_path: Path, nursery: Nursery) -> None:
    lake = Lake(str(tmp_path / "lake"))
    killing = Killing(postgres_url, lake, nursery)
    async with open_store(postgres_url) as store:
        source = f"{await store.hub_id()}/events"
        table = lake.dataset("events")

        async def state() -> tuple[int, bool, int]:
            """The last intention, whether it is done, and the last copy in the lake."""
            newest = next(iter(await store.lake_commits("events", limit=1)), None)
            return (newest.number if newest else 0, bool(newest and newest.done_at), table.last_number(source))

        await publish(store, 20)
        async with gate(postgres_url, "lake_commits", WRITES) as before:
            child = killing.start()
            await before.reached()
            await killing.die(child, before)
        assert (await state(), files(table)) == ((0, False, 0), 0)  # before the intention

        await killing.kill_at("routes")
        assert (await state(), files(table)) == ((1, False, 0), 0)  # intended, nothing written

        await publish(store, 20)
        await killing.kill_at("locks")
        assert (await state(), files(table)) == ((1, False, 0), 1)  # written, not committed

        await killing.kill_at("lake_commits")
        assert (await state(), files(table)) == ((1, False, 1), 2)  # committed to the lake, not done
        assert len(copied(lake, "events")) == 20

        child = killing.start()
        await until(lambda: len(copied(lake, "event_log")) >= 40, LONGEST, "the copy of everything")
        child.kill()
        await child.ended()
        await publish(store, 5)
        await complete(store, lake)
        assert len(copied(lake, "events")) == 45


async def test_kills_at_random_lose_and_double_nothing(
    store_url: str, tmp_path: Path, nursery: Nursery, seed: int, say: Say
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    chance = random.Random(seed)
    states: Counter[str] = Counter()
    async with open_store(store_url) as store:
        await publish(store, 1)
        publishing = asyncio.create_task(_publish_on(store))
        for _ in range(KILLS):
            before = await _copies(store)
            child = nursery.spawn("pipeline", "copier", url=store_url, lake=lake.url)
            while await _copies(store) < before + 2:  # until it is at work
                assert child.alive, nursery.errors()
            await asyncio.sleep(chance.random() * 0.3)
            child.kill()
            await child.ended()
            states[await _state(store, lake)] += 1
        publishing.cancel()
        say(f"{KILLS} kills: {dict(states)}")
        await complete(store, lake)


async def _copies(store: Store) -> int:
    newest = [await store.lake_commits(dataset, limit=1) for dataset in DATASETS]
    return sum(commits[0].number for commits in newest if commits)


async def _publish_on(store: Store) -> None:
    while True:
        await publish(store, 3)
        await asyncio.sleep(0.01)


async def _state(store: Store, lake: Lake) -> str:
    for dataset in DATASETS:
        newest = next(iter(await store.lake_commits(dataset, limit=1)), None)
        if newest is not None and newest.done_at is None:
            in_lake = lake.dataset(dataset).last_number(f"{await store.hub_id()}/{dataset}")
            return "committed" if in_lake == newest.number else "intended"
    return "nothing begun"


async def test_a_driver_of_spark_is_killed_while_its_tasks_read(postgres_url: str, tmp_path: Path) -> None:
    """The command as it is, with Java and its workers; of them nothing stays, and no state of Spark is needed."""
    lake = Lake(str(tmp_path / "lake"))
    work = tmp_path / "work"
    work.mkdir()
    async with open_store(postgres_url) as store:
        await publish(store, 500)
        async with gate(postgres_url, "routes", WHOLE) as reading:
            driver = start_driver(work, "--db", postgres_url, "--lake", lake.url, "--partitions", "2")
            try:
                await reading.reached()
                java = javas(driver.pid)
                assert java
            finally:
                driver.kill()
                driver.wait()
            await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in java), LONGEST, "the end of Java")
            await reading.turn_away()
        assert (await store.lake_commits("events"))[0].done_at is None
        assert list(work.iterdir()) == []
        await complete(store, lake)


def start_driver(directory: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "eventhub.pipeline", "run", "--only", "copy", "--master", "local[2]", *options]
    environment = {**os.environ, "EVENTHUB_SPARK_TRAINING": "off"}
    return subprocess.Popen(command, cwd=directory, env=environment, stderr=subprocess.DEVNULL)


def javas(pid: int) -> list[int]:
    """The processes below one that are Java."""
    return [child.pid for child in psutil.Process(pid).children(recursive=True) if child.name() == "java"]
