"""Real processes that may be killed, and the hand that kills, stops and replaces them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self

from eventhub.testing.torture.history import History, Record, read_all

__all__ = ["Child", "Nursery", "until"]

ROLES: Final = "eventhub.testing.torture.roles"


class Child:
    """A running process. Signals go through its descriptor, so they can never hit a stranger."""

    def __init__(self, process: str, pid: int, orders: History) -> None:
        self.process, self.pid, self._orders = process, pid, orders
        self.told_to_end = False
        self._descriptor: int | None = None
        with contextlib.suppress(ProcessLookupError):  # its life may be over already
            self._descriptor = os.pidfd_open(pid)

    @property
    def alive(self) -> bool:
        if self._descriptor is not None and select.select([self._descriptor], [], [], 0)[0]:
            self.close()
        return self._descriptor is not None

    def send(self, number: signal.Signals) -> bool:
        """Whether the signal found it alive."""
        if self._descriptor is None or not self.alive:
            return False
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> bool:
        """SIGKILL; the order is written down before it is given. This and the others tell whether it was alive."""
        return self._order("kill", signal.SIGKILL)

    def stop(self) -> bool:
        """SIGSTOP: it stands still in the middle of whatever it does."""
        return self._order("stop", signal.SIGSTOP)

    def resume(self) -> bool:
        return self._order("cont", signal.SIGCONT)

    def terminate(self) -> bool:
        """SIGTERM: it is asked to end."""
        return self._order("terminate", signal.SIGTERM)

    def _order(self, op: str, number: signal.Signals) -> bool:
        """Whoever has ended already did so by himself: nothing is written down that was not done."""
        if not self.alive:
            return False
        self.told_to_end |= number in (signal.SIGKILL, signal.SIGTERM)
        self._orders.note(op, worker=self.process)
        return self.send(number)

    async def ended(self, seconds: float = 30.0) -> None:
        await until(lambda: not self.alive, seconds, f"the end of {self.process}")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Nursery:
    """Starts children and ends every one of them, whatever happens. Histories and errors are in ``directory``.

    ``packages`` are where modules of further roles are. ``plant`` names a function, ``module:function``, that each
    child calls before its role begins: for tests that break something on purpose.
    """

    def __init__(self, directory: Path, *, packages: Sequence[str] = (), plant: str | None = None) -> None:
        self.directory = directory
        self.orders = History(directory, "orders")
        self.children: list[Child] = []
        self._plant = plant
        self._numbers: dict[str, int] = {}
        with (directory / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own
                [sys.executable, "-m", "eventhub.testing.torture.nursery", ROLES, *packages],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,  # Ctrl-C is for the owner, who ends them in good order
            )

    def spawn(self, role: str, name: str, **arguments: Any) -> Child:
        """A new child; the life number in its process name keeps its history apart from its predecessors'."""
        life = self._numbers[name] = self._numbers.get(name, 0) + 1
        process = f"{name}.{life}"
        arguments |= {"process": process, "directory": str(self.directory)}
        request = {"role": role, "arguments": arguments, "plant": self._plant}
        answer = self._ask(json.dumps(request))
        child = Child(process, int(answer), self.orders)
        self.children.append(child)
        return child

    def _ask(self, line: str) -> str:
        asked, answers = self._process.stdin, self._process.stdout
        if asked is None or answers is None:
            raise RuntimeError("The nursery was started without pipes.")
        asked.write(line + "\n")
        asked.flush()
        answer = answers.readline()
        if not answer:
            raise RuntimeError(f"The nursery has ended:\n{self.errors()}")
        return answer

    def records(self, pattern: str = "*") -> list[Record]:
        return read_all(self.directory, pattern)

    def errors(self) -> str:
        """What children wrote to standard error: tracebacks of those that ended by an error."""
        return (self.directory / "stderr").read_text()

    async def end_all(self) -> None:
        """Whoever is still there is killed; the nursery itself goes on."""
        self._kill_all()
        for child in self.children:
            await child.ended()

    def _kill_all(self) -> None:
        for child in self.children:
            child.send(signal.SIGCONT)
            child.send(signal.SIGKILL)

    def close(self) -> None:
        self._kill_all()
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
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        await asyncio.sleep(0.005)
    return value
