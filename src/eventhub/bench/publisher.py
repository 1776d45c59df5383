"""The other process of the latency benchmark: for every line it is given it publishes an event and says when."""

from __future__ import annotations

import asyncio
import sys
from time import monotonic

from eventhub.bench.payloads import PAYLOAD
from eventhub.bench.settings import TYPE
from eventhub.queue import EventQueue

__all__: list[str] = []


async def main() -> None:
    url = sys.stdin.readline().strip()
    async with EventQueue(url) as queue:
        _answer("ready")
        while await asyncio.to_thread(sys.stdin.readline):
            began = monotonic()
            await queue.publish(TYPE, PAYLOAD)
            _answer(f"{began} {monotonic()}")


def _answer(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
