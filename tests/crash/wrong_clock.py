"""A process whose host's clock is wrong, by Debian's libfaketime: only the wall clock, as when it was set badly."""

import os
import subprocess
from pathlib import Path

import pytest


def set_clock(patch: pytest.MonkeyPatch, shift: str) -> None:
    """Processes that are started from now on live so far from the right time; this one does not."""
    told = subprocess.run(
        ["faketime", "-m", "--exclude-monotonic", "-f", shift, "env"],
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"]},
    ).stdout
    for line in told.splitlines():
        name, _, value = line.partition("=")
        if name == "LD_PRELOAD" or "FAKETIME" in name:
            patch.setenv(name, value)


def set_clock_by_file(patch: pytest.MonkeyPatch, file: Path) -> None:
    """Processes that are started from now on live as far from the right time as this file says at that moment."""
    set_clock(patch, "+0")
    for name in ("FAKETIME", "FAKETIME_SHARED"):  # they would go before the file
        patch.delenv(name)
    patch.setenv("FAKETIME_TIMESTAMP_FILE", str(file))
    patch.setenv("FAKETIME_NO_CACHE", "1")
