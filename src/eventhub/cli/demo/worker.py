"""The worker that the demo kills: it takes one job from the hub, says so, and never gets further."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

from eventhub.client import Client

LONGEST_LIFE: Final = 60.0
LEASE: Final = 2.0


async def work(url: str, tag: str) -> None:
    async with Client(url) as client:
        taken = await client.take(tag, f"worker-{os.getpid()}", wait=20, lease=LEASE)
        sys.stdout.write(f"working on {taken[0].id if taken else 'nothing'}\n")
        sys.stdout.flush()
        await asyncio.sleep(LONGEST_LIFE)  # killed before; but it must not outlive a demo that was killed itself


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2]))
