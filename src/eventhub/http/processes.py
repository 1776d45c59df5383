"""Several server processes on one socket: started, told when to stop, and started again when one of them dies.

A child is ``python -m eventhub.http.processes``; what it needs comes in one variable of its environment. It takes
orders from its parent only, over its standard input: a byte means stop, a second one means now, and the end of it
means that the parent is gone. Signals reach the parent alone, so that one sent to the whole group counts once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from eventhub.config import Settings
from eventhub.handling.logs import get_logger

__all__ = ["Processes"]

log = get_logger("eventhub.http")

VARIABLE: Final = "_EVENTHUB_SERVER"
AGAIN_AFTER: Final = 1.0
"""Seconds that a process must have lived to be started again at once."""
TOLD: Final = (signal.SIGTERM, signal.SIGINT)
ORDER: Final = b"!"
MOST_ORDERS: Final = 2


class Orders(msgspec.Struct, frozen=True):
    """What a child must know."""

    settings: Settings
    secret: str
    file: int


class Child:
    """A process, and how often it was told to stop."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.started = time.monotonic()
        self._told = 0

    def tell(self, times: int) -> None:
        """See to it that it was told so often."""
        while self._told < min(times, MOST_ORDERS) and self.process.stdin is not None:
            self._told += 1
            with contextlib.suppress(OSError):  # it is gone already
                os.write(self.process.stdin.fileno(), ORDER)


class Processes:
    """The parent: it serves nothing itself."""

    def __init__(self, settings: Settings, secret: Path, listening: socket.socket) -> None:
        self._listening = listening
        self._orders = Orders(settings, str(secret), listening.fileno())
        self._running: dict[int, Child] = {}
        self._signals = 0

    def run(self, announce: Callable[[], None]) -> int:
        """Until all children have ended after a signal."""
        before = {number: signal.signal(number, self._tell) for number in TOLD}
        try:
            with tempfile.TemporaryDirectory(prefix="eventhub-metrics-") as metrics:
                for _ in range(self._orders.settings.workers):
                    self._start(metrics)
                if not self._signals:
                    announce()
                while self._running:
                    self._wait(metrics)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return 0

    def _start(self, metrics: str) -> None:
        environment = {
            **os.environ,
            "PROMETHEUS_MULTIPROC_DIR": metrics,
            VARIABLE: msgspec.json.encode(self._orders).decode(),
        }
        command = [sys.executable, "-m", "eventhub.http.processes"]
        with _undisturbed():
            if self._signals:
                return
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command, env=environment, pass_fds=[self._orders.file], stdin=subprocess.PIPE
            )
            self._running[process.pid] = Child(process)

    def _wait(self, metrics: str) -> None:
        try:
            number, status = os.waitpid(-1, 0)
        except ChildProcessError:  # somebody else has asked for their ends
            self._running.clear()
            return
        child = self._running.pop(number, None)
        if child is None:
            return
        child.process.returncode = os.waitstatus_to_exitcode(status)
        _forget(number, metrics)
        if self._signals:
            return
        log.error("server process ended", process=number, status=child.process.returncode)
        while not self._signals and time.monotonic() - child.started < AGAIN_AFTER:
            time.sleep(0.05)
        self._start(metrics)

    def _tell(self, _: int, __: FrameType | None) -> None:
        self._signals += 1
        self._listening.close()  # or clients would be let in whom nobody serves
        for child in self._running.values():
            child.tell(self._signals)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Without a signal in between; a child starts with none held back."""
    signal.pthread_sigmask(signal.SIG_BLOCK, TOLD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, TOLD)


def _forget(number: int, metrics: str) -> None:
    """A dead process's gauges count no longer; its counters do."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(number, metrics)  # type: ignore[no-untyped-call]


def main() -> int:
    """A child's life."""
    from eventhub.http.server import serve_one
    from eventhub.observe.logging import configure

    for number in TOLD:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, TOLD)
    orders = msgspec.json.decode(os.environ.pop(VARIABLE), type=Orders)
    configure(orders.settings.log_level, orders.settings.log_format)
    return serve_one(
        orders.settings, Path(orders.secret), socket.socket(fileno=orders.file), told_by=sys.stdin.fileno()
    )


if __name__ == "__main__":
    sys.exit(main())
