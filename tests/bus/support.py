"""What the bus tests share: waiting for conditions, handlers that record, and quick settings."""

import asyncio
import inspect
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from eventhub.bus import Tuning
from eventhub.core.events import QueuedEvent
from eventhub.core.retry import RetryPolicy

QUICK = RetryPolicy(max_retries=3, base_delay=0.001, max_delay=0.002, jitter=0)
NEVER_AGAIN = RetryPolicy(max_retries=0)
LIVELY = Tuning(poll_interval=0.01)


async def until(condition: Callable[[], Any], *, seconds: float = 20.0) -> Any:
    """Wait until the condition, plain or async, holds; its last value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < end, f"still not so after {seconds} s: {inspect.getsource(condition).strip()}"
        await asyncio.sleep(0.002)


class Recorder:
    """An async handler that records what it gets and fails as often as it is told to."""

    def __init__(
        self, *, failures: int = 0, error: str = "boom", name: str = "", into: list[str] | None = None
    ) -> None:
        self.events: list[QueuedEvent] = []
        self.failures = failures
        self.error = error
        self.name = name
        self.calls: list[str] = [] if into is None else into

    async def __call__(self, event: QueuedEvent) -> None:
        self.events.append(event)
        self.calls.append(self.name)
        if self.failures > 0:
            self.failures -= 1
            raise RuntimeError(self.error)

    @property
    def payloads(self) -> list[Any]:
        return [event.payload for event in self.events]


class Gate:
    """An async handler that stays in until it is let out."""

    def __init__(self) -> None:
        self.inside = 0
        self.cancelled = 0
        self.open = asyncio.Event()

    async def __call__(self, event: QueuedEvent) -> None:
        self.inside += 1
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def lease(seconds: float) -> Tuning:
    return Tuning(lease=timedelta(seconds=seconds), poll_interval=0.01)


def python(script: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python process of its own, with the same modules."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
