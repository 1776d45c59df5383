"""What processes use, as Linux tells it; elsewhere nothing is known and nothing is said."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cpu_seconds", "memory_mb"]


def cpu_seconds(process: int) -> float | None:
    """The time that a process has had a core, in user and system mode."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(process: int) -> float | None:
    """The memory that a process has resident now."""
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    sizes = [int(line.split()[1]) for line in lines if line.startswith("VmRSS:")]
    return sizes[0] / 1024 if sizes else None
