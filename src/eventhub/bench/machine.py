"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from eventhub._version import __version__

__all__ = ["Facts", "file_system", "machine_facts"]

_PACKAGES = ("apsw", "asyncpg", "msgspec", "uvloop", "uvicorn", "starlette", "fastapi")


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The machine, the versions, and by engine the settings that decide what a commit costs."""

    cores: int
    load: float
    """Programs that wanted a core on average in the last minute, before the run."""
    memory_mb: int
    system: str
    python: str
    eventhub: str
    packages: dict[str, str]
    engines: dict[str, dict[str, str]]


def machine_facts(engines: dict[str, dict[str, str]]) -> Facts:
    return Facts(
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        load=round(os.getloadavg()[0], 2),
        memory_mb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        eventhub=__version__,
        packages={name: found for name in _PACKAGES if (found := _version(name))},
        engines=engines,
    )


def file_system(path: Path) -> str:
    """The kind of file system a path is on: on tmpfs a commit costs nothing, and a figure says nothing."""
    best, kind = "", "unknown"
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return kind
    place = str(path.resolve())
    for line in mounts:
        _, mounted, type_ = line.split()[:3]
        if len(mounted) >= len(best) and (place == mounted or place.startswith(mounted.rstrip("/") + "/")):
            best, kind = mounted, type_
    return kind


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
