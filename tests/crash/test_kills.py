"""Two hundred SIGKILLs at random moments, spread over publishers and workers: nothing that was acknowledged is lost."""

import asyncio
import random
import signal
import time
from typing import Any

import pytest

from eventhub.store import open_store
from eventhub.testing.torture.checker import check
from eventhub.testing.torture.children import Child, Nursery
from eventhub.testing.torture.draining import drained
from eventhub.testing.torture.evidence import gather_from
from tests.crash.conftest import Say

KILLS = 200
SLOTS: dict[str, dict[str, Any]] = {
    "publisher-a": {"role": "publisher"},
    "publisher-b": {"role": "publisher"},
    "publisher-c": {"role": "publisher"},
    "worker-a": {"role": "worker", "style": "manager"},
    "worker-b": {"role": "worker", "style": "manager", "lease": 1.5},
    "worker-c": {"role": "worker", "style": "bare"},
    "worker-d": {"role": "worker", "style": "bare", "lease": 0.7},
}


class Crew:
    """One child a slot; whoever is killed is replaced at once."""

    def __init__(self, nursery: Nursery, url: str, seed: int) -> None:
        self.nursery = nursery
        self._common = {"url": url, "seed": seed}
        self.children: dict[str, Child] = {}

    def fill(self, name: str) -> None:
        settings = dict(SLOTS[name])
        role = settings.pop("role")
        self.children[name] = self.nursery.spawn(role, name, **self._common, **settings)

    async def kill(self, name: str) -> None:
        child = self.children[name]
        assert child.alive, f"{child.process} ended by itself:\n{self.nursery.errors()}"
        child.kill()
        await child.ended()
        self.fill(name)

    async def end(self, role: str) -> None:
        """Ask the children of a role to end; they do what they owe and go."""
        leaving = [child for name, child in self.children.items() if name.startswith(role)]
        for child in leaving:
            child.send(signal.SIGTERM)
        for child in leaving:
            await child.ended()


@pytest.mark.timeout(300)
async def test_nothing_acknowledged_is_lost_over_two_hundred_kills(
    durable_url: str, nursery: Nursery, seed: int, say: Say
) -> None:
    chance = random.Random(seed)
    crew = Crew(nursery, durable_url, seed)
    async with open_store(durable_url) as store:
        began = time.monotonic()
        for name in SLOTS:
            crew.fill(name)
        for _ in range(KILLS):
            await asyncio.sleep(chance.uniform(0.02, 0.35))
            await crew.kill(chance.choice(list(SLOTS)))
        killing = time.monotonic() - began
        await crew.end("publisher")
        draining = await drained(store)
        await crew.end("worker")
        evidence = nursery.directory / "evidence.db"
        await gather_from(store, nursery.directory, evidence, facts={"seed": seed, "drain.seconds": draining})
    verdict = check(evidence)
    numbers = verdict.figures
    say(", ".join(f"{name}: {count}" for name, count in numbers.items()))
    say(f"{killing:.1f} s of kills, drained in {draining:.1f} s, checked after {time.monotonic() - began:.1f} s")
    assert verdict.clean, "\n".join(verdict.examples)
    assert nursery.errors() == ""
    assert numbers["kills"] == KILLS
    assert numbers["acknowledged"] > KILLS
