"""Who holds a claim or a lock: names that tell host, process and instance, and whether that process still lives.

A name is ``host:pid:machine-start-number``. ``machine`` is a hash of the boot and the namespaces in which process ids
and start times mean something. A process is declared dead only on proof, by one that shares them: its id is unknown to
the kernel, or belongs to a process that began at another time. What is hidden (``hidepid``, ``ProtectProc``) is no
proof, and all others wait for the lease to end.
"""

from __future__ import annotations

import itertools
import os
import secrets
import socket
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

__all__ = ["is_dead", "new_worker", "retire"]

PROC: Final = Path("/proc")
_numbers = itertools.count(1)
_alive_here: set[str] = set()


def new_worker() -> str:
    """A name for a worker in this process, alive until it is retired or the process ends."""
    name = f"{socket.gethostname()}:{os.getpid()}:{_machine()}-{_started_here()}-{next(_numbers)}"
    _alive_here.add(name)
    return name


def retire(worker: str) -> None:
    """The worker has stopped: what it still holds may be taken at once."""
    _alive_here.discard(worker)


def is_dead(worker: str) -> bool:
    """True only when the worker is known to be gone; a worker elsewhere is never declared dead."""
    host, _, rest = worker.rpartition(":")
    pid_text = host.rpartition(":")[2]
    machine, _, life = rest.partition("-")
    started = life.partition("-")[0]
    if not pid_text.isascii() or not pid_text.isdecimal() or not started or machine != _machine():
        return False
    pid = int(pid_text)
    if pid == os.getpid() and started == _started_here():
        return worker not in _alive_here
    return _has_ended(pid, started)


def _has_ended(pid: int, started: str) -> bool:
    """Whether it is certain that the process that began then is no more."""
    fields = _stat(pid)
    if fields is not None:
        return fields[0] in ("Z", "X") or fields[19] != started
    try:  # gone, or hidden from us: the kernel tells by a signal that is not sent, whatever /proc shows
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


@cache
def _machine() -> str:
    """Where ids and start times of processes can be compared; where that cannot be known, this process alone."""
    try:
        if (PROC / "self").readlink() != Path(str(os.getpid())):
            return secrets.token_hex(4)  # this /proc is that of another namespace
        parts = [
            (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii"),
            str((PROC / "self/ns/pid").readlink()),
        ]
        time_namespace = PROC / "self/ns/time"  # start times are shifted by it; kernels before 5.6 have none
        parts += [str(time_namespace.readlink())] if time_namespace.is_symlink() else []
    except OSError:
        return secrets.token_hex(4)
    return blake2b("".join(parts).encode(), digest_size=4).hexdigest()


@cache
def _started_here() -> str:
    """When this process started, in ticks since boot; '0' where that cannot be known."""
    fields = _stat(os.getpid())
    return "0" if fields is None else fields[19]


def _stat(pid: int) -> list[str] | None:
    """The fields of a process from its state on; None when it is gone or hidden."""
    try:
        stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split() or None


def _after_fork() -> None:
    _machine.cache_clear()
    _started_here.cache_clear()
    _alive_here.clear()


os.register_at_fork(after_in_child=_after_fork)
