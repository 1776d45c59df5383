"""Who holds a lock, in words that a process on the same machine can check: a lock of the dead need not be waited for.

host:pid:machine:birth      machine: this boot and this space of process ids;  birth: when the process began
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

__all__ = ["is_gone", "this_process"]


def this_process() -> str:
    """The name of this process as an owner."""
    pid = os.getpid()
    return ":".join([socket.gethostname(), str(pid), _machine(), _birth(pid) or ""])


def is_gone(owner: str) -> bool:
    """Whether the process is certainly not there any more; False whenever that cannot be known from here."""
    parts = owner.split(":")
    if len(parts) != 4 or not parts[1].isdecimal() or not parts[3]:  # noqa: PLR2004 - as above
        return False
    return bool(parts[2]) and parts[2] == _machine() and _birth(int(parts[1])) != parts[3]


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot[:8]}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _birth(pid: int) -> str | None:
    """When it began, in ticks since the boot; None when it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]
