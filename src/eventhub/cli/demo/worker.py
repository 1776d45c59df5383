"""The worker that the demo kills: it takes one job, says so, and never gets further."""

from __future__ import annotations

import asyncio
import os
import sys

from eventhub.queue import EventQueue

LONGEST_LIFE = 60.0


async def work(url: str, name: str) -> None:
    async with EventQueue(url, queue=name, abandoned_after=5.0) as queue:
        event = await queue.poll()
        sys.stdout.write(f"working on {event.id if event else 'nothing'}\n")
        sys.stdout.flush()
        await asyncio.sleep(LONGEST_LIFE)  # killed before; but it must not outlive a demo that was killed itself


if __name__ == "__main__":
    asyncio.run(work(os.environ["EVENTHUB_DB"], sys.argv[1]))
