"""A steady flow: as much is published as keeps the dispatcher busy and no more, and what arrives is counted."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

from eventhub.bench.figures import Sample
from eventhub.bench.http.processes import BenchFailed
from eventhub.bench.webhooks.processes import Dispatching
from eventhub.bench.webhooks.receiver import Tally
from eventhub.bench.webhooks.stage import Stage

__all__ = ["Flow", "check"]

BACKLOG: Final = 5000
"""Messages that are published and not received, about."""
TOGETHER: Final = 500
"""Messages of one call of publish_many, about."""
WARM_UP: Final = 3000
GLANCE: Final = 0.01
PATIENCE: Final = 60.0
"""Seconds without a single webhook after which a run is given up."""


class Flow:
    """Events without end for some subscribers; ``copies`` is how many messages that count an event makes on average."""

    def __init__(
        self,
        stage: Stage,
        sending: Dispatching,
        events: Iterator[dict[str, Any]],
        copies: float,
        *,
        counted: Callable[[Tally], int] = lambda tally: tally.received,
    ) -> None:
        self._stage, self._sending = stage, sending
        self._events, self._copies, self._counted = events, copies, counted
        self._batch = max(int(TOGETHER / copies) // 2 * 2, 2)
        self._published = 0

    async def measure(self, count: int) -> Sample:
        """Webhooks a second over the next ``count``, after some that warm up."""
        start = await self._until(min(WARM_UP, count))
        cpu = self._cpu()
        end = await self._until(self._counted(start) + count)
        seconds = end.at - start.at
        used = {
            name: (after - before) / seconds * 100
            for (name, before), after in zip(cpu.items(), self._cpu().values(), strict=True)
            if before is not None and after is not None
        }
        check(end)
        return Sample((self._counted(end) - self._counted(start)) / seconds, used)

    async def end(self) -> None:
        """Publish no more; everything must arrive, once."""
        wanted = round(self._published * self._copies)
        tally = await self._until(wanted, publishing=False)
        if self._counted(tally) != wanted:
            raise BenchFailed(f"{self._counted(tally):,} webhooks were received instead of {wanted:,}.")
        check(tally)

    async def _until(self, count: int, *, publishing: bool = True) -> Tally:
        """Keep it flowing until so many were received in all."""
        before = -1
        quiet = 0.0
        while True:
            tally = await self._stage.receiver.look()
            received = self._counted(tally)
            if received >= count:
                return tally
            self._sending.cpu_seconds()  # is it alive
            quiet = 0.0 if received > before else quiet + GLANCE
            before = received
            if quiet > PATIENCE:
                raise BenchFailed(f"Nothing was received for {PATIENCE:.0f} s, after {received:,} webhooks.")
            if publishing and self._published * self._copies - received < BACKLOG:
                await self._stage.hub.publish_many(itertools.islice(self._events, self._batch))
                self._published += self._batch
            else:
                await asyncio.sleep(GLANCE)

    def _cpu(self) -> dict[str, float | None]:
        return {"dispatcher %": self._sending.cpu_seconds(), "receiver %": self._stage.receiver.cpu_seconds()}


def check(tally: Tally) -> None:
    if tally.forged:
        raise BenchFailed(f"{tally.forged:,} of {tally.checked:,} signatures were wrong.")
    if tally.out_of_order:
        raise BenchFailed(f"{tally.out_of_order:,} webhooks came out of order.")
