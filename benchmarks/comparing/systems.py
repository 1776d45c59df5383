"""The systems: what they are called, which engine they work on, and how their adapter is started."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, Literal

import msgspec

from benchmarks.comparing.settings import ENGINES, Engine

__all__ = ["ROOT", "SYSTEMS", "System", "systems_of"]

ROOT: Final = Path(__file__).resolve().parents[2]
PEERS: Final = ROOT / ".venv-peers" / "bin"

Kind = Literal["ours", "peer", "limit"]


class System(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: Kind
    engines: tuple[Engine, ...]
    language: str
    command: tuple[str, ...]

    @property
    def installed(self) -> bool:
        return Path(self.command[0]).exists()


def _ours(name: str, module: str, kind: Kind, *engines: Engine) -> System:
    command = (sys.executable, "-m", f"benchmarks.peers.{module}")
    return System(name=name, kind=kind, engines=engines or ENGINES, language="Python", command=command)


def _python(name: str, engine: Engine, *arguments: str, module: str = "") -> System:
    command = (str(PEERS / "python"), "-m", f"benchmarks.peers.{module or name}", *arguments)
    return System(name=name, kind="peer", engines=(engine,), language="Python", command=command)


def _sql(name: str, end: str, loops: int) -> System:
    """Functions in the database, called without the client that their package has."""
    return msgspec.structs.replace(_python(name, "postgres", end, str(loops), module="pgmq_sql"), language="SQL")


def _node(name: str) -> System:
    command = (str(PEERS / "node"), str(ROOT / "benchmarks" / "peers" / f"{name}.mjs"))
    return System(name=name, kind="peer", engines=("postgres",), language="JavaScript", command=command)


SYSTEMS: Final = (
    _ours("eventhub", "eventhub", "ours"),
    _python("pgqueuer", "postgres"),
    _python("procrastinate", "postgres"),
    _python("awa", "postgres"),
    _python("chancy", "postgres"),
    _node("graphile-worker"),
    _node("pg-boss"),
    _python("pgmq", "postgres"),
    _sql("pgmq-sql-one-loop", "archive", 1),
    _sql("pgmq-sql", "archive", 2),
    _sql("pgmq-sql-delete", "delete", 2),
    _python("huey", "sqlite"),
    _python("litequeue", "sqlite"),
    _python("litequeue-normal", "sqlite", "normal", module="litequeue"),
    _python("persist-queue", "sqlite", module="persistqueue"),
    _ours("raw", "raw", "limit"),
    _ours("pgbench", "pgbench", "limit", "postgres"),
)


def systems_of(engine: Engine) -> list[System]:
    return [system for system in SYSTEMS if engine in system.engines]
