"""Telling on standard error what the pipeline is doing: live on a terminal, a line for each thing done elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from eventhub.cli.output import console, duration, plain

if TYPE_CHECKING:
    from rich.status import Status

__all__ = ["Progress"]


class Progress:
    """Steps come one after the other; a step without words has done nothing worth a line."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = console(stderr=True)
        self._live = sys.stderr.isatty() and not quiet
        self._quiet = quiet
        self._status: Status | None = None
        self._began = time.monotonic()

    def begin(self, step: str) -> None:
        self._began = time.monotonic()
        self.note(step)

    def note(self, doing: str) -> None:
        if not self._live:
            return
        if self._status is None:
            self._status = self._console.status(plain(doing))
            self._status.start()
        self._status.update(plain(f"{doing} …"))

    def end(self, words: str) -> None:
        if words and not self._quiet:
            self._console.print(plain(f"{words} in {duration(time.monotonic() - self._began)}"))

    def say(self, words: str) -> None:
        """Something that is no step, such as a run that could not be."""
        self._console.print(plain(words))

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
