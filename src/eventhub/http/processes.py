"""Several server processes on one socket: started, told when to stop, and started again when one of them dies.

A child is ``python -m eventhub.http.processes``; what it needs comes in one variable of its environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
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


class Orders(msgspec.Struct, frozen=True):
    """What a child must know."""

    settings: Settings
    secret: str
    file: int
    parent: int
    """A pipe that the parent holds open as long as it lives."""


class Processes:
    """The parent: it serves nothing itself."""

    def __init__(self, settings: Settings, secret: Path, listening: socket.socket) -> None:
        mine, self._alive = os.pipe()
        self._orders = Orders(settings, str(secret), listening.fileno(), mine)
        self._running: dict[int, tuple[subprocess.Popen[bytes], float]] = {}
        self._stopping = False

    def run(self) -> int:
        """Until all children have ended after a signal."""
        before = {number: signal.signal(number, self._tell) for number in TOLD}
        try:
            with tempfile.TemporaryDirectory(prefix="eventhub-metrics-") as metrics:
                for _ in range(self._orders.settings.workers):
                    self._start(metrics)
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
        # In a session of its own: an interrupt from the terminal reaches it through us, once.
        child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command, env=environment, pass_fds=[self._orders.file, self._orders.parent], start_new_session=True
        )
        self._running[child.pid] = child, time.monotonic()

    def _wait(self, metrics: str) -> None:
        with contextlib.suppress(ChildProcessError):
            number, status = os.waitpid(-1, 0)
            found = self._running.pop(number, None)
            if found is None or self._stopping:
                return
            log.error("server process ended", process=number, status=os.waitstatus_to_exitcode(status))
            while not self._stopping and time.monotonic() - found[1] < AGAIN_AFTER:
                time.sleep(0.05)
            if not self._stopping:
                self._start(metrics)

    def _tell(self, number: int, _: FrameType | None) -> None:
        self._stopping = True
        for child, _started in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(number)


def main() -> int:
    """A child's life."""
    from eventhub.http.server import serve_one
    from eventhub.observe.logging import configure

    orders = msgspec.json.decode(os.environ.pop(VARIABLE), type=Orders)
    configure(orders.settings.log_level, orders.settings.log_format)
    threading.Thread(target=_end_with, args=(orders.parent,), daemon=True).start()
    return serve_one(orders.settings, Path(orders.secret), socket.socket(fileno=orders.file))


def _end_with(parent: int) -> None:
    """A child whose parent was killed stops too: nobody else could tell it."""
    os.read(parent, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
