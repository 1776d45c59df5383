"""A Spark that is started by the first who needs it, and started anew when its Java process has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from eventhub.errors import SparkLost
from eventhub.pipeline.java_process import forget_java, is_java_lost, is_submitted, stopping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LazySpark", "ProgressReporter"]


class ProgressReporter(Protocol):
    """Hears of what goes on: steps that begin and end, and in between what they are at."""

    def begin(self, step: str) -> None: ...
    def note(self, doing: str) -> None: ...
    def end(self, words: str) -> None: ...


class SessionReporter(Protocol):
    """Hears of what becomes of the session: what it is at, and what is worth a line."""

    def note(self, doing: str) -> None: ...
    def say(self, words: str) -> None: ...


class LazySpark:
    """The session of a pipeline."""

    def __init__(self, start: Callable[[], SparkSession], reporter: SessionReporter) -> None:
        self._start, self._reporter = start, reporter
        self._session: SparkSession | None = None
        self._lock = threading.Lock()

    def __call__(self) -> SparkSession:
        with self._lock:
            if self._session is not None and is_java_lost():
                if is_submitted():
                    raise SparkLost(
                        "Spark's Java process has ended, and spark-submit cannot start another: submit again."
                    )
                self._reporter.say("Spark's Java process has ended: starting another.")
                self._session = None
                forget_java()
            if self._session is None:
                self._reporter.note("starting Spark")
                self._session = self._start()
            return self._session

    def stop(self) -> None:
        with self._lock:
            if self._session is not None:
                with stopping(self._session):
                    self._session = None
