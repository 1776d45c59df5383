"""What the workloads of the pipeline share: one Spark, hubs with a history, and lakes that are thrown away."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec

from eventhub.bench.workloads import Context
from eventhub.errors import SettingsError
from eventhub.lake.place import Lake
from eventhub.pipeline import register, session
from eventhub.pipeline.running import Pipeline, Run
from eventhub.pipeline.synth import Made, synthesize
from eventhub.store import open_store
from eventhub.store.queries import load_queries

__all__ = [
    "JAR_VARIABLE",
    "UNTIL",
    "Quiet",
    "Stage",
    "driver_memory",
    "fill",
    "forget_copies",
    "jdbc_jar",
    "log_extent",
    "open_stage",
]

SQL = load_queries("eventhub.bench.pipeline")

JAR_VARIABLE: Final = "EVENTHUB_JDBC_JAR"
DEBIAN_JAR: Final = "/usr/share/java/postgresql.jar"
UNTIL: Final = datetime(2026, 1, 8, tzinfo=UTC)
"""When the history ends: always the same, so that runs can be compared."""
WARM_UP: Final = 2000
"""Events of what is done before anything is measured."""
DRIVER_MEMORY: Final = "4g"
MUCH_MEMORY: Final = 8 * 2**30
"""Bytes that the machine must have for that; else Spark has its gigabyte. All work of a run is in this one Spark."""
FILES_AT_ONCE: Final = "32"
"""So many days a task of Spark writes side by side; by default it sorts its rows by day first."""
_MB: Final = 1024.0


def jdbc_jar() -> Path | None:
    """PostgreSQL's driver for Java, if it is there."""
    named = os.environ.get(JAR_VARIABLE)
    jar = Path(named or DEBIAN_JAR)
    if named and not jar.is_file():
        raise SettingsError(f"{JAR_VARIABLE} is {named!r}, and there is no such file.")
    return jar if jar.is_file() else None


class Quiet:
    """Nobody is told what goes on."""

    def begin(self, step: str) -> None: ...
    def note(self, doing: str) -> None: ...
    def end(self, words: str) -> None: ...


class Stage(msgspec.Struct):
    """Spark and a directory, for the length of a run."""

    spark: Any
    directory: Path
    cores: int
    done: set[str] = set()

    async def once(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do what is not measured, so that what is measured is not the first of its kind."""
        if name not in self.done:
            self.done.add(name)
            await work()

    @asynccontextmanager
    async def lake(self) -> AsyncIterator[Lake]:
        """A lake for the length of a block."""
        place = tempfile.mkdtemp(prefix="lake-", dir=self.directory)
        try:
            yield Lake(place)
        finally:
            await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)

    async def run(self, url: str, lake: Lake) -> Run:
        """The whole pipeline, once."""
        async with open_store(url) as store:
            return await Pipeline(store, lake, spark=lambda: self.spark, teller=Quiet()).once()


async def open_stage(context: Context) -> Stage:
    """The stage of this run; the first who asks waits for Spark. Spark ends with this process."""
    known = _stages.get(context)
    if known is not None:
        return known
    directory = Path(tempfile.mkdtemp(prefix="eventhub-bench-"))
    context.stack.callback(shutil.rmtree, directory, ignore_errors=True)
    conf = {"spark.sql.maxConcurrentOutputFileWriters": FILES_AT_ONCE}
    if os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >= MUCH_MEMORY:
        conf["spark.driver.memory"] = DRIVER_MEMORY
    if (jar := jdbc_jar()) is not None:
        conf["spark.driver.extraClassPath"] = str(jar)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    spark = session(master=f"local[{cores}]", conf=conf)  # in this thread, the only one where Spark finds our source
    register(spark)
    stage = _stages[context] = Stage(spark=spark, directory=directory, cores=cores)
    return stage


_stages: WeakKeyDictionary[Context, Stage] = WeakKeyDictionary()


async def fill(url: str, events: int, *, seed: int = 0, until: datetime = UNTIL, days: float = 7.0) -> Made:
    """A history in a hub."""
    return await asyncio.to_thread(lambda: synthesize(url, events, until=until, seed=seed, days=days))


async def log_extent(url: str) -> tuple[datetime, datetime]:
    """From when to when the log of a hub on PostgreSQL goes."""
    from eventhub.store.postgres.connection import connect

    connection: Any = await connect(url)
    try:
        first, last = await connection.fetchrow(SQL.log_extent)
    finally:
        await connection.close()
    return first, last


async def forget_copies(url: str) -> None:
    """Let a hub believe that nothing of it was copied yet."""
    if url.partition("://")[0] in ("postgres", "postgresql"):
        from eventhub.store.postgres.connection import connect as connect_postgres

        connection = await connect_postgres(url)
        try:
            await connection.execute(SQL.forget_postgres)
        finally:
            await connection.close()
    else:
        from eventhub.store.sqlite.connection import connect as connect_sqlite

        connect_sqlite(url).execute(SQL.forget_sqlite)


def driver_memory(spark: Any) -> dict[str, float]:
    """The most memory that Python and Java had at once since they were last asked; empty where nobody tells."""
    found = {}
    java = spark.sparkContext._gateway.proc.pid  # noqa: SLF001 - nobody else knows it
    for name, process in (("Python MB", os.getpid()), ("Java MB", _java(java))):
        try:
            lines = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace").splitlines()
            found[name] = next(float(line.split()[1]) / _MB for line in lines if line.startswith("VmHWM:"))
            Path(f"/proc/{process}/clear_refs").write_text("5", encoding="ascii")  # from here on anew
        except (OSError, StopIteration):
            continue
    return found


def _java(process: int) -> int:
    """Spark is started by a script, which may have become Java, or have it for a child."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    except OSError:
        return process
    return _java(int(children[0])) if children else process
