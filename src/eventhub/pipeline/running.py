"""Running the pipeline: its stages one after the other, once or again and again, by one process at a time.

    copy (events, event_log) ─▶ derive (facts, marts) ─▶ tidy (compact, delete what is not needed)

Every step commits by itself under its own number, so a run can be stopped or killed anywhere; the next one goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from eventhub.errors import LakeMismatch, SchemaMismatch, SparkLost, StoreBusy, StoreUnavailable
from eventhub.handling.logs import get_logger
from eventhub.lake.standing import LOCK
from eventhub.lake.tidying import Tidied, tidy
from eventhub.lake.troubles import told
from eventhub.pipeline.agreement import check_agreement, check_owner, is_new_to
from eventhub.pipeline.baseline import baseline_name, intend_baseline
from eventhub.pipeline.deriving import DERIVED, Updated, position_of, update
from eventhub.pipeline.extraction import Copied, Extraction
from eventhub.pipeline.java_process import is_submitted, lost_java_reported
from eventhub.pipeline.lazy_spark import ProgressReporter
from eventhub.pipeline.locking import Hold, hold
from eventhub.store.ledger import COPIED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eventhub.lake.place import Lake
    from eventhub.store import Store
    from eventhub.store.ledger import Dataset

__all__ = ["STAGES", "Pipeline", "Run", "Stage"]

log = get_logger("eventhub.pipeline")

Stage = Literal["copy", "derive", "tidy"]
STAGES: Final[tuple[Stage, ...]] = ("copy", "derive", "tidy")
CLEAN_EVERY: Final = 3600.0
MAX_LOST: Final = 3
"""So many runs in a row may end with Spark's Java process before it is given up."""


class Run(msgspec.Struct, kw_only=True):
    """What a run did, and how long each stage took; not ``finished`` when it was stopped between two steps."""

    copied: list[Copied] = []
    derived: list[Updated] = []
    tidied: list[Tidied] = []
    seconds: dict[str, float] = {}
    finished: bool = False

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.copied)


class _StoppedError(Exception):
    """It was told to stop, and there is another step to do."""


class Pipeline:
    """The pipeline of one hub into one lake. ``stop`` is set by whoever wants it to end after the step under way."""

    def __init__(
        self,
        store: Store,
        lake: Lake,
        *,
        spark: Callable[[], SparkSession],
        teller: ProgressReporter,
        stages: Sequence[Stage] = STAGES,
        partitions: int | None = None,
        rebaseline: bool = False,
    ) -> None:
        self._rebaseline = rebaseline
        self._store, self._lake, self._spark, self._teller = store, lake, spark, teller
        self._stages, self._partitions = stages, partitions
        self._cleaned_at: float | None = None
        self.stop = asyncio.Event()

    async def once(self) -> Run:
        """One run: all stages that were asked for. StoreBusy when another process is at it."""
        run = Run(copied=[], derived=[], tidied=[], seconds={})
        steps: dict[Stage, Callable[[Run, Hold], Awaitable[None]]] = {
            "copy": self._copy,
            "derive": self._derive,
            "tidy": self._tidy,
        }
        async with hold(self._store, LOCK) as held:
            with suppress(_StoppedError), told(self._lake.url), lost_java_reported():
                for stage in STAGES:
                    if stage in self._stages:
                        self._go_on()
                        began = time.monotonic()
                        await steps[stage](run, held)
                        run.seconds[stage] = round(time.monotonic() - began, 3)
                run.finished = True
        return run

    def _go_on(self) -> None:
        """Before each step."""
        if self.stop.is_set():
            raise _StoppedError

    async def again_and_again(self, interval: float, done: Callable[[Run | Exception], None]) -> None:
        """Run after run until it is stopped, each begun ``interval`` seconds after the last has ended.

        A database or lake that is away, another process at work, or the end of Spark's Java process ends no more than
        one run. The next one starts Spark anew; when it ends run after run, or cannot be started, that is raised.
        """
        lost = 0
        while not self.stop.is_set():
            try:
                done(await self.once())
                lost = 0
            except (StoreUnavailable, StoreBusy) as error:
                done(error)
            except SparkLost as error:
                lost += 1
                if lost == MAX_LOST or is_submitted():
                    raise
                done(error)
            try:
                await asyncio.wait_for(self.stop.wait(), interval)
            except TimeoutError:
                continue

    async def _copy(self, run: Run, held: Hold) -> None:
        extraction = Extraction(
            self._store, self._lake, spark=self._spark, before_commit=held.confirm, partitions=self._partitions
        )
        if self._rebaseline:
            for dataset in ("event_log", "events", "audit"):
                await intend_baseline(self._store, self._lake, dataset)
            self._rebaseline = False
        for dataset in COPIED:
            if await self._fell_apart(extraction, dataset):
                await intend_baseline(self._store, self._lake, dataset)
        # What the log tells of is copied no later than the log itself.
        upto = await extraction.horizon("event_log")
        ends: tuple[tuple[Dataset, int | None], ...] = (("events", None), ("event_log", upto), ("audit", None))
        for dataset, end in ends:
            self._go_on()
            self._teller.begin(f"copying {dataset}")
            copied = await extraction.extract(dataset, upto=end)
            run.copied.append(copied)
            self._teller.end(f"{copied.rows:,} rows of {dataset} copied" if copied.rows else "")

    async def _fell_apart(self, extraction: Extraction, dataset: Dataset) -> bool:
        """Whether lake and database do not agree because it was restored or has failed over since the last copy."""
        table = self._lake.dataset(dataset)
        try:
            await check_agreement(self._store, table, dataset, await extraction.horizon(dataset))
        except (LakeMismatch, SchemaMismatch) as error:
            if not await is_new_to(self._store, table, dataset):
                raise
            number = (await self._store.incarnation()).number
            log.warning("new_incarnation", dataset=dataset, incarnation=number, found=str(error))
            self._teller.note(f"the database is incarnation {number} of itself: all {dataset} are compared")
            return True
        return False

    async def _derive(self, run: Run, held: Hold) -> None:
        copied = [one for one in await self._store.lake_commits("event_log", limit=2) if one.done_at is not None]
        upto = copied[0].last if copied else 0
        source = await self._derived_from()
        await asyncio.to_thread(check_owner, self._lake.dataset("event_log"), f"{await self._store.hub_id()}/event_log")

        def is_behind() -> bool:
            tables = (self._lake.derived(path, schema) for path, schema in DERIVED.items())
            return any(position_of(table, source) < upto for table in tables)

        def make() -> list[Updated]:
            spark = self._spark()
            self._teller.note("looking for what is new")
            return update(spark, self._lake, source=source, upto=upto, progress=progress)

        def progress(path: str) -> None:
            held.check()
            self._go_on()
            self._teller.note(f"making {path}")

        if upto and await asyncio.to_thread(is_behind):
            await held.confirm()
            self._teller.begin("deriving")
            run.derived = await asyncio.to_thread(make)
            self._teller.end(f"{len(run.derived)} tables made from it" if run.derived else "")

    async def _derived_from(self) -> str:
        """Whose positions these are: after the lake was put right, what was derived before is made anew."""
        hub = await self._store.hub_id()
        baseline = self._lake.dataset("event_log").last_number(baseline_name(f"{hub}/event_log"))
        return f"{hub}@{await self._store.origin()}" + (f"#{baseline}" if baseline else "")

    async def _tidy(self, run: Run, held: Hold) -> None:
        now = time.monotonic()
        clean = self._cleaned_at is None or now - self._cleaned_at > CLEAN_EVERY
        await held.confirm()
        self._teller.begin("tidying up")
        run.tidied = await asyncio.to_thread(tidy, self._lake, clean=clean)
        if clean:
            self._cleaned_at = now
        merged, deleted = sum(one.merged for one in run.tidied), sum(one.deleted for one in run.tidied)
        words = [f"{merged:,} files merged"] * bool(merged) + [f"{deleted:,} files deleted"] * bool(deleted)
        self._teller.end(", ".join(words))
