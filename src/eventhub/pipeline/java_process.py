"""The Java process behind Spark: noticing that it has ended, saying why, and clearing the way for a new one.

When Java ends, every later call of PySpark fails with an error about sockets. ``lost_java_reported`` replaces these by
one ``SparkLost`` that says what happened; ``forget_java`` lets PySpark start another process.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from eventhub.errors import EventHubError, SparkLost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["forget_java", "is_java_lost", "is_submitted", "lost_java_reported", "stopping"]

EXIT_SECONDS: Final = 5.0
"""How long a process whose connections broke may take to end, for its exit code to be known."""
OUT_OF_MEMORY: Final = 52
"""Spark's own exit code for java.lang.OutOfMemoryError."""
_NOTHING_LOST: Final = "What the lake has is whole; the next run goes on from there."
_OUT_OF_MEMORY: Final = f"Spark ran out of memory. Give it more with --conf spark.driver.memory=4g. {_NOTHING_LOST}"


@contextmanager
def lost_java_reported() -> Iterator[None]:
    """An error inside that comes with the end of Java becomes ``SparkLost``."""
    try:
        yield
    except EventHubError:
        raise
    except Exception as error:
        text = _text(error)
        if text is not None and "java.lang.OutOfMemoryError" in text:
            _exit_code()  # tasks report the error before the process ends
            raise SparkLost(_OUT_OF_MEMORY) from error
        if text is None or is_java_lost():
            raise SparkLost(_description()) from error
        raise


@contextmanager
def stopping(session: SparkSession) -> Iterator[None]:
    """Stop the session at the end, whether Java still answers or not."""
    try:
        yield
    finally:
        try:
            session.stop()
        except Exception:
            if not is_java_lost():
                raise
        if is_java_lost():
            forget_java()


def _text(error: Exception) -> str | None:
    """What the error says. PySpark asks Java for it: None when Java answers no more."""
    with suppress(Exception):
        return str(error)
    return None


def is_submitted() -> bool:
    """Whether Java was there first, as under spark-submit: then this program cannot start another one."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_java_lost() -> bool:
    """Whether PySpark holds on to a Java process that answers no more, or is about to end and has stopped Spark."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark has no public question for it
    if gateway is None:
        return False
    process = getattr(gateway, "proc", None)
    if process is not None and process.poll() is not None:
        return True
    context: Any = SparkContext._active_spark_context  # noqa: SLF001
    try:
        gateway.jvm.java.lang.System.nanoTime()
        return context is not None and bool(context._jsc.sc().isStopped())  # noqa: SLF001
    except (Py4JError, OSError):
        return True


def _description() -> str:
    code = _exit_code()
    if code == OUT_OF_MEMORY:
        return _OUT_OF_MEMORY
    how = "without an exit code"
    if code is not None:
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return (
        f"Spark's Java process ended {how} while it worked; its last messages are above. If the system ended it for "
        f"lack of memory, give it less with --conf spark.driver.memory. {_NOTHING_LOST}"
    )


def _exit_code() -> int | None:
    process = _process()
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        return process.wait(EXIT_SECONDS)
    return None


def _process() -> subprocess.Popen[bytes] | None:
    from pyspark import SparkContext

    process: Any = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - as above
    return process if isinstance(process, subprocess.Popen) else None


def forget_java() -> None:
    """Make PySpark forget a process that has ended, or hangs: the next session starts a new one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.context import SQLContext

    process = _process()
    if process is not None and process.poll() is None:
        process.kill()
        process.wait()
    context: Any = SparkContext._active_spark_context  # noqa: SLF001 - the public ways ask Java first
    gateway: Any = SparkContext._gateway  # noqa: SLF001
    if context is not None:
        context._jsc = None  # noqa: SLF001 - there is nobody left to be told to stop
        context.stop()
    if gateway is not None:
        with suppress(Exception):  # sockets of which the other end is gone
            gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001
    SQLContext._instantiatedContext = None  # noqa: SLF001
