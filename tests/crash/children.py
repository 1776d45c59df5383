"""Real processes for the crash tests, and the hand that kills, stops and replaces them."""

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from eventhub.testing.torture.history import History, Record, read_all

ROOT = Path(__file__).parents[2]


class Child:
    """A running process. Signals go through its descriptor, so they can never hit a stranger."""

    def __init__(self, process: str, pid: int, orders: History) -> None:
        self.process, self.pid, self._orders = process, pid, orders
        self._descriptor: int | None = None
        with contextlib.suppress(ProcessLookupError):  # its life may be over already
            self._descriptor = os.pidfd_open(pid)

    @property
    def alive(self) -> bool:
        if self._descriptor is not None and select.select([self._descriptor], [], [], 0)[0]:
            self.close()
        return self._descriptor is not None

    def send(self, number: signal.Signals) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        """SIGKILL; the order is written down before it is given."""
        self._orders.note("kill", worker=self.process)
        self.send(signal.SIGKILL)

    async def ended(self, seconds: float = 30.0) -> None:
        await until(lambda: not self.alive, seconds, f"the end of {self.process}")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Nursery:
    """Starts children and ends every one of them, whatever happens. Histories and errors are in ``directory``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.orders = History(directory, "orders")
        self.children: list[Child] = []
        self._numbers: dict[str, int] = {}
        with (directory / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.nursery"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def spawn(self, role: str, name: str, **arguments: Any) -> Child:
        """A new child; the life number in its process name keeps its history apart from its predecessors'."""
        life = self._numbers[name] = self._numbers.get(name, 0) + 1
        process = f"{name}.{life}"
        arguments |= {"process": process, "directory": str(self.directory)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"role": role, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the nursery has ended:\n{self.errors()}"
        child = Child(process, int(answer), self.orders)
        self.children.append(child)
        return child

    def records(self, pattern: str = "*") -> list[Record]:
        return read_all(self.directory, pattern)

    def errors(self) -> str:
        """What children wrote to standard error: tracebacks of those that ended by an error."""
        return (self.directory / "stderr").read_text()

    def close(self) -> None:
        for child in self.children:
            child.send(signal.SIGCONT)
            child.send(signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        for child in self.children:
            child.close()
        self.orders.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def until(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """Wait until the condition holds; other processes cannot be asked to tell us."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        await asyncio.sleep(0.005)
    return value
