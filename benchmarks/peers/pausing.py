"""What a loop does that found nothing: sleep a moment and look again, or wait for a notification."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

__all__ = ["POLL", "Pause"]

POLL: Final = 0.01
"""Seconds until a loop without notifications looks again."""
LONGEST: Final = 1.0
"""Seconds after which one who listens looks by itself."""


class Pause:
    """For one loop: ``begin``, look, and if there was nothing ``wait``. What comes in between is not missed."""

    def __init__(self, *, notified: bool) -> None:
        self._notified = notified
        self._something = asyncio.Event()

    def begin(self) -> None:
        self._something.clear()

    def end(self, *_: object) -> None:
        """There may be something."""
        self._something.set()

    async def wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST if self._notified else POLL):
                await self._something.wait()
