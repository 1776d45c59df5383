"""Where a demo runs: a directory made anew each time, never somebody else's nor under a demo that runs; a free port."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from eventhub.errors import SettingsError

__all__ = ["DIRECTORY", "check_port", "fresh"]

DIRECTORY: Final = Path("eventhub-demo")
MARK: Final = "made-by-eventhub-demo.txt"
WORDS: Final = "Made by `eventhub demo`, which replaces this directory the next time.\n"


def check_port(port: int) -> None:
    """Somebody else may listen there; then it is said at once."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise SettingsError(
                f"Cannot listen on 127.0.0.1:{port} ({error.strerror or error}). Choose another with --port, or stop "
                "what listens there."
            ) from None


@contextmanager
def fresh(directory: Path) -> Iterator[Path]:
    """An empty directory of that name for as long as the block lasts; it stays afterwards, to be looked at."""
    mark = directory / MARK
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise SettingsError(f"{directory} is no directory; name another with --dir.")
    if directory.exists() and any(directory.iterdir()):
        if not mark.is_file():
            raise SettingsError(f"{directory} has files that no demo made; name another directory with --dir.")
        os.close(_held(mark))
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    mark.write_text(WORDS)
    holding = _held(mark)
    try:
        yield directory.absolute()
    finally:
        os.close(holding)


def _held(mark: Path) -> int:
    """The mark, locked: whoever has it, runs."""
    file = os.open(mark, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise SettingsError(
            f"A demo is running in {mark.parent}. End it first, or name another directory with --dir."
        ) from None
    return file
