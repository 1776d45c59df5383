"""What every adapter in Python has in common: it reads one JSON document a line and answers each with another.

    runner ── {"do": "prepare", "url": …, "payload": {…}, "notify": …} ──▶ adapter    the tables of the peer are made
           ◀─ {"versions": {"pgqueuer": "1.6.0"}, "settings": "…"} ─
           ── {"do": "publish", "count": 100, "at_once": 16} ─▶            also: batch, fill, drain, ordered, latency,
           ◀─ {"seconds": 0.05, "count": 100} ─────────────────                  memory, waiting, publish_batch
           ── {"do": "work"} ─▶  ◀─ {"ready": true}, then {"at": clock} for each event handled, until {"do": "rest"}
           ── {"do": "work", "quiet": true} ─▶  ◀─ {"ready": true}; {"do": "handled"} asks how many there were

A peer that cannot do something answers {"unsupported": "why"}; one that fails, {"error": "what"}. Only the peer's own
package and the standard library are needed here, because adapters run in the peers' environment. All clocks are
CLOCK_MONOTONIC, which the processes of a machine share.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.peers.peer import Peer, Tally, Unsupported, post

__all__ = ["speak"]

Answer = dict[str, Any]


class Speaker:
    """Answers the runner for one peer: a method for each thing that can be asked for."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._resting = asyncio.Event()
        self._tally = Tally(sys.maxsize)

    async def answer(self, do: str, asked: Answer) -> Answer:
        method = getattr(self, f"do_{do}", None)
        if method is None:
            raise Unsupported(f"it knows no {do!r}")
        found: Answer = await method(**asked)
        return found

    async def do_prepare(self, url: str, payload: dict[str, Any], *, notify: bool = False) -> Answer:
        self.peer.url, self.peer.payload, self.peer.notify = url, payload, notify
        await self.peer.prepare()
        versions = {name: version(name) for name in self.peer.packages}
        return {"versions": versions, "settings": self.peer.settings}

    async def do_publish(self, count: int, at_once: int) -> Answer:
        return timing(await self.peer.publish(count, at_once), count)

    async def do_fill(self, count: int) -> Answer:
        await self.peer.fill(count)
        return {"count": count}

    async def do_drain(self, count: int, seconds: float, *, settle: bool = False) -> Answer:
        return asdict(await self.peer.drain(count, seconds, settle=settle)) | {"left": await self.peer.waiting()}

    async def do_ordered(self, count: int, keys: int, seconds: float) -> Answer:
        return asdict(await self.peer.ordered(count, keys, seconds)) | {"left": await self.peer.waiting()}

    async def do_publish_one(self) -> Answer:
        began = monotonic()
        await self.peer.publish_one(self.peer.payload)
        return {"began": began, "committed": monotonic()}

    async def do_publish_batch(self, count: int) -> Answer:
        await self.peer.publish_batch([self.peer.payload] * count)
        return {"count": count}

    async def do_handled(self) -> Answer:
        return {"count": self._tally.count}

    async def do_memory(self, seconds: float) -> Answer:
        await self.peer.ready()
        async with self.peer.worker(lambda _: None):
            await asyncio.sleep(seconds)
            return {"bytes": resident()}

    async def do_waiting(self) -> Answer:
        return {"count": await self.peer.waiting()}

    async def do_batch(self, count: int, size: int) -> Answer:
        return timing(await self.peer.batches(count, size), count)

    async def do_latency(self, count: int) -> Answer:
        return asdict(await self.peer.latencies(count)) | {"count": count}

    async def work(self, say: Callable[[Answer], None], *, quiet: bool = False) -> None:
        """Tell the clock for each event until it is time to rest, or only count them."""
        try:
            await self.peer.ready()
            await (self._work_quietly(say) if quiet else self._work(say))
        except Exception as error:  # noqa: BLE001 - told to the runner
            say({"unsupported" if isinstance(error, Unsupported) else "error": str(error)})

    async def _work(self, say: Callable[[Answer], None]) -> None:
        loop = asyncio.get_running_loop()
        at: asyncio.Queue[float] = asyncio.Queue()
        async with self.peer.worker(lambda _: post(loop, at, monotonic())):
            say({"ready": True})
            resting = asyncio.create_task(self._resting.wait())
            while True:
                heard = asyncio.create_task(at.get())
                await asyncio.wait({heard, resting}, return_when=asyncio.FIRST_COMPLETED)
                if not heard.done():
                    heard.cancel()
                    break
                say({"at": heard.result()})
        say({"rested": True})

    async def _work_quietly(self, say: Callable[[Answer], None]) -> None:
        async with self.peer.worker(self._tally):
            say({"ready": True})
            await self._resting.wait()
        say({"rested": True})

    def rest(self) -> None:
        self._resting.set()


def timing(seconds: float, count: int) -> Answer:
    return {"seconds": seconds, "count": count}


def resident() -> int:
    """Bytes of memory that this process and its children have."""
    page = os.sysconf("SC_PAGE_SIZE")
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    found = 0
    for process in ("self", *children):
        found += int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]) * page
    return found


async def converse(peer: Peer) -> None:
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def listen() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what peers print is no answer

    def say(answer: Answer) -> None:
        output.write(json.dumps(answer) + "\n")
        output.flush()

    threading.Thread(target=listen, daemon=True).start()
    speaker = Speaker(peer)
    working: asyncio.Task[None] | None = None
    while line := await lines.get():
        asked = json.loads(line)
        do = asked.pop("do")
        try:
            if do == "work":
                working = asyncio.create_task(speaker.work(say, **asked))
            elif do == "rest":
                speaker.rest()
                if working is not None:
                    await working
            else:
                say(await speaker.answer(do, asked))
        except Unsupported as why:
            say({"unsupported": str(why)})
        except Exception as error:  # noqa: BLE001 - told to the runner
            traceback.print_exc()
            say({"error": f"{type(error).__name__}: {error}"})
    await peer.close()


def speak(peer: Peer) -> None:
    """Be the adapter of this peer until standard input ends."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(converse(peer))
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(converse(peer))
