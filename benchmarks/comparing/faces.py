"""What is no queue: Spark reading a hub beside its own JDBC source, and webhooks beside the bare HTTP client.

The workloads are those of `eventhub bench`; here their sides take turns as systems do.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import msgspec

from benchmarks.comparing.conversation import Missing, Trouble
from benchmarks.comparing.results import OURS, Result, SystemFacts
from benchmarks.comparing.rounds import Planned, Rounds, Tell
from benchmarks.comparing.settings import FACE_WORKLOADS, Face, Settings, chosen
from benchmarks.comparing.systems import Kind
from eventhub.bench import BenchSettings
from eventhub.bench.databases import PostgresDatabases
from eventhub.bench.figures import Sample
from eventhub.bench.machine import machine_facts
from eventhub.bench.pipeline.stage import JAR_VARIABLE, jdbc_jar
from eventhub.bench.workloads import Context, Measure, Workload
from eventhub.errors import EventHubError

__all__ = ["SIDES", "Side", "needed", "run_face", "sides_of"]

CLIENT: Final = "webhook-client"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One that takes part."""

    name: str
    kind: Kind
    language: str
    settings: str
    packages: tuple[str, ...]

    @property
    def facts(self) -> SystemFacts:
        versions = {name: version(name) for name in self.packages}
        if self.name == JDBC.name and (jar := jdbc_jar()) is not None:
            versions["PostgreSQL JDBC"] = _jar_version(jar)
        return SystemFacts(
            name=self.name, kind=self.kind, language=self.language, settings=self.settings, versions=versions
        )


JDBC: Final = Side(
    name="spark-jdbc",
    kind="peer",
    language="Scala",
    settings="Spark's own source with PostgreSQL's driver, fetchsize 10,000, parts by created_at",
    packages=("pyspark",),
)
SIDES: Final[dict[Face, tuple[Side, ...]]] = {
    "spark": (
        Side(
            name=OURS,
            kind="ours",
            language="Python",
            settings="defaults; copies are safe to repeat and are committed to a Delta table; "
            "one part is copied by the driver, without a task of Spark",
            packages=("eventhub", "pyspark", "asyncpg", "pyarrow", "deltalake"),
        ),
        JDBC,
    ),
    "webhooks": (
        Side(
            name=OURS,
            kind="ours",
            language="Python",
            settings="eventhub serve --roles fanout,dispatcher,janitor, 5 subscribers with their defaults, PostgreSQL",
            packages=("eventhub", "asyncpg", "uvloop"),
        ),
        Side(
            name="aiohttp",
            kind="peer",
            language="Python",
            settings="the client alone: requests signed beforehand, no database; 160 at once",
            packages=("aiohttp", "uvloop"),
        ),
        Side(
            name="sender",
            kind="limit",
            language="Python",
            settings="the same with the HTTP client of Event Hub",
            packages=("eventhub", "uvloop"),
        ),
    ),
}


def sides_of(face: Face, settings: Settings) -> list[Side]:
    return [side for side in SIDES[face] if not settings.systems or side.name in settings.systems]


def needed(face: Face) -> None:
    """Say at once what is missing."""
    if face == "spark" and jdbc_jar() is None:
        raise ValueError(
            "Spark's JDBC source needs PostgreSQL's driver for Java, and it is not there. Install Debian's package "
            f"(apt-get install libpostgresql-jdbc-java), name a file with {JAR_VARIABLE}=…/postgresql.jar, "
            "or leave Spark out with --engine."
        )


async def run_face(face: Face, settings: Settings, *, db: str | None, tell: Tell) -> AsyncIterator[Result]:
    """Measure every side, on PostgreSQL. After each round the result so far is given out."""
    sides = sides_of(face, settings)
    names = chosen(settings.only, FACE_WORKLOADS[face])
    async with PostgresDatabases(db, tcp=True) as databases:
        context = Context(databases, _bench_settings(face, settings))
        plan = [one for one in _planned(face, context) if one.name in names]
        rounds = Rounds(settings, [side.name for side in sides], plan, tell)
        facts = machine_facts({databases.engine: databases.facts})
        async with context.stack:
            async for _ in rounds.go():
                yield rounds.result(face, facts, [side.facts for side in sides])


def _bench_settings(face: Face, settings: Settings) -> BenchSettings:
    if face == "spark":
        return BenchSettings(pipeline=True, events=settings.history, rounds=settings.rounds)
    return BenchSettings(webhooks=True, events=settings.events, rounds=settings.rounds)


def _planned(face: Face, context: Context) -> list[Planned]:
    """The workloads of `eventhub bench`, each with a measure for every side."""
    if face == "spark":
        from eventhub.bench.pipeline.workloads import pipeline_workloads

        found = {one.name: one for one in pipeline_workloads(context)}
        return [_turns(context, found[name], {JDBC.name: found[name].raw}) for name in FACE_WORKLOADS[face]]
    from eventhub.bench.webhooks.workloads import webhook_workloads

    found = {one.name: one for one in webhook_workloads(context)}
    others = {"aiohttp": found[CLIENT].raw, "sender": found[CLIENT].ours}
    return [_turns(context, found[name], others) for name in FACE_WORKLOADS[face]]


def _turns(context: Context, workload: Workload, others: Mapping[str, Measure | None]) -> Planned:
    measures = {OURS: workload.ours, **others}

    async def measure(side: str) -> Sample:
        one = measures[side]
        if one is None:
            raise Missing(workload.note)
        try:
            return await one(context)
        except EventHubError as error:
            raise Trouble(str(error)) from error

    return Planned(name=workload.name, title=workload.title, unit=workload.unit, measure=measure)


def _jar_version(jar: Path) -> str:
    with ZipFile(jar) as archive:
        manifest = archive.read("META-INF/MANIFEST.MF").decode("utf-8", "replace")
    found = re.search(r"^(?:Implementation|Bundle)-Version: *(\S+)", manifest, re.MULTILINE)
    return found[1] if found else "unknown"
