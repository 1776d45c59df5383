"""Teaching Java to start Spark faster: once for each Java and Spark, a short session is run and remembered in a file.

Java 25 and newer read that file (an ahead-of-time cache) at every later start, which halves the time to the first
result. Nothing depends on it: without the file, or with a damaged one, Spark only starts slower.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eventhub.pipeline.java import Java, cache_directory

if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["trained"]

SWITCH: Final = "EVENTHUB_SPARK_TRAINING"
LONGEST_SECONDS: Final = 600
STEP_SECONDS: Final = 0.2
TAIL: Final = 10
LESSON: Final = """
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.Builder().getOrCreate()
rows = spark.range(20_000).selectExpr("id", "id % 7 AS k", "cast(id AS string) AS s", "timestamp_micros(id) AS t")
once = rows.mapInArrow(lambda batches: batches, rows.schema)
once.groupBy("k").agg(F.count("*"), F.percentile_approx("id", 0.5), F.min("t")).orderBy("k").collect()
rows.join(rows.groupBy("k").agg(F.max("id").alias("m")), "k").where("s like '1%'").count()
spark.createDataFrame([(1, "a")], "id long, s string").collect()
spark.stop()
jvm = spark.sparkContext._gateway.proc
jvm.stdin.close()
jvm.wait()
"""
"""Run by a Python of its own, because only the end of a JVM writes the file."""


def trained(java: Java, *, may_train: bool) -> Path | None:
    """The file for this Java and Spark, made now if it must be; None when there is none."""
    if not java.caches or os.environ.get(SWITCH, "").lower() in ("0", "no", "off", "false"):
        return None
    import pyspark

    cache = cache_directory() / f"spark-{pyspark.__version__}-{java.key}.aot"
    if cache.exists():
        return cache
    if not may_train:
        return None
    with cache.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return None  # another process is at it: this one starts as it can
        if cache.exists() or _train(java, cache):
            return cache
    return None


def _train(java: Java, cache: Path) -> bool:
    draft = cache.with_suffix(f".{os.getpid()}.draft")
    options = f"-XX:AOTCacheOutput={draft} -Xlog:aot*=off -Xlog:cds*=off"
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.spark_home()),
        "PYSPARK_SUBMIT_ARGS": f"--master local[2] --conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1 "
        f"--conf spark.log.level=OFF --driver-java-options '{options}' pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    with tempfile.TemporaryFile("w+") as output:
        running = subprocess.Popen(  # noqa: S603 - our own lesson
            [sys.executable, "-c", LESSON],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        ended = _watched(running, sys.stderr)
        if ended and running.returncode == 0 and draft.exists():
            draft.replace(cache)
            return True
        output.seek(0)
        words = "".join(f"  {line}" for line in output.readlines()[-TAIL:])
    with suppress(OSError):
        draft.unlink()
    why = "took too long" if not ended else f"failed:\n{words}"
    _say(sys.stderr, f"Preparing faster starts {why}; Spark works without. {SWITCH}=off stops these attempts.\n")
    return False


def _watched(running: subprocess.Popen[bytes], shown: TextIO) -> bool:
    """Wait for the training with a sign of life; False when it took too long and was ended."""
    began = time.monotonic()
    live = shown.isatty()
    title = "Preparing faster starts of Spark, once for this Java"
    if not live:
        _say(shown, f"{title} …\n")
    try:
        while running.poll() is None:
            took = time.monotonic() - began
            if took > LONGEST_SECONDS:
                return False
            if live:
                _say(shown, f"\r{title} … {took:.0f} s ")
            with suppress(subprocess.TimeoutExpired):
                running.wait(STEP_SECONDS)
    finally:
        if running.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)  # Java is a child of it
            running.wait()
        if live:
            _say(shown, f"\r{title}: {time.monotonic() - began:.0f} s.  \n")
    return True


def _say(shown: TextIO, words: str) -> None:
    with suppress(OSError, ValueError):
        shown.write(words)
        shown.flush()
