"""Who holds a claim: worker names that tell host, process and instance, and whether that process still lives.

A name is ``host:pid:machine-start-number``. ``machine`` is a hash of the boot id and the process namespace, so a
process is only ever declared dead by one that can see its process table; all others wait for the lease to end.
"""

from __future__ import annotations

import itertools
import os
import socket
from functools import cache
from hashlib import blake2b
from pathlib import Path

__all__ = ["is_dead", "new_worker", "retire"]

_numbers = itertools.count(1)
_alive_here: set[str] = set()


def new_worker() -> str:
    """A name for a worker in this process, alive until it is retired or the process ends."""
    pid = os.getpid()
    name = f"{socket.gethostname()}:{pid}:{_machine()}-{_started(pid)}-{next(_numbers)}"
    _alive_here.add(name)
    return name


def retire(worker: str) -> None:
    """The worker has stopped: what it still holds may be taken at once."""
    _alive_here.discard(worker)


def is_dead(worker: str) -> bool:
    """True only when the worker is known to be gone; a worker elsewhere is never declared dead."""
    host, _, rest = worker.rpartition(":")
    _, _, pid_text = host.rpartition(":")
    machine, _, life = rest.partition("-")
    started = life.partition("-")[0]
    if not pid_text.isdigit() or not started or machine != _machine():
        return False
    pid = int(pid_text)
    if pid == os.getpid() and started == _started(pid):
        return worker not in _alive_here
    return _started(pid) != started


@cache
def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot, namespace = socket.gethostname(), "-"
    return blake2b(f"{boot}{namespace}".encode(), digest_size=4).hexdigest()


def _started(pid: int) -> str:
    """When a process started, in ticks since boot; '0' when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "0" if Path("/proc/self/stat").exists() else _started_without_proc(pid)
    fields = stat.rpartition(")")[2].split()
    return "0" if fields[0] in ("Z", "X") else fields[19]


def _started_without_proc(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "0"
    except PermissionError:
        return "1"
    return "1"
