"""A process whose host's clock is wrong, by Debian's libfaketime: only the wall clock, as when it was set badly."""

import os
import subprocess

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
