"""Starting Spark so that it just runs: on this machine, under ``spark-submit``, or with the master that is named.

session() ── JVM of spark-submit is there ──▶ use it as it is set up
    └── none yet ──▶ find Java ──▶ train its start-up once (Java 25 and newer) ──▶ start the JVM
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eventhub.errors import SettingsError
from eventhub.pipeline.java import Java, find_java
from eventhub.pipeline.training import trained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DEFAULTS", "session"]

LOCAL: Final = "127.0.0.1"
DEFAULTS: Final[dict[str, str]] = {
    "spark.log.level": "ERROR",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # INT96, the default, has no statistics: readers could not skip files by time.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""What is set unless the caller, or spark-submit, says otherwise."""
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_QUIET: Final = "-XX:+IgnoreUnrecognizedVMOptions --sun-misc-unsafe-memory-access=allow"
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[(\d+),\s*(\d+),\s*\d+\]$")
_LOCAL_MASTER: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?$")


def session(
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    app: str = "eventhub",
    train: bool = True,
) -> SparkSession:
    """The Spark of this process, started when there is none; later settings go to the one that runs.

    ``master`` is as for Spark, by default all cores of this machine, or what ``spark-submit`` says. ``conf`` overrides
    every setting of ours. With ``train=False`` the first start on a new Java is not made slower for the others' sake.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    wanted = dict(conf or {})
    if submitted:
        return _start(_without_set(wanted), master, app)
    master = master or wanted.pop("spark.master", None) or "local[*]"
    settings = {**DEFAULTS, **_for_local(master), **wanted}
    if not _is_running():
        java = find_java()
        os.environ["JAVA_HOME"] = str(java.spark_home())
        _find_shell()
        settings[_JAVA_OPTIONS] = _java_options(java, settings.get(_JAVA_OPTIONS, ""), train=train)
    return _start(settings, master, app)


def _is_running() -> bool:
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None  # noqa: SLF001 - there is no public question for it


def _start(settings: Mapping[str, str], master: str | None, app: str) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every connection that it closes
    builder = SparkSession.Builder().appName(app)
    if master is not None:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise SettingsError(
            f"Java ({os.environ.get('JAVA_HOME')}) ended before Spark was up; its own words are above. Check the "
            "memory settings (spark.driver.memory) and JAVA_HOME."
        ) from error


def _without_set(wanted: Mapping[str, str]) -> dict[str, str]:
    """Our defaults below what spark-submit was told."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001 - else the JVM's settings are not seen
    given = SparkConf()
    return {name: value for name, value in {**DEFAULTS, **wanted}.items() if name in wanted or not given.contains(name)}


def _for_local(master: str) -> dict[str, str]:
    if not master.startswith("local"):
        return {}
    # Names of this machine need not resolve, and nobody else has to reach it.
    os.environ.setdefault("SPARK_LOCAL_IP", LOCAL)
    settings = {"spark.driver.host": LOCAL, "spark.driver.bindAddress": LOCAL}
    threads = _LOCAL_MASTER.match(master)
    if threads:
        cores = threads[1] or "1"
        settings["spark.sql.shuffle.partitions"] = str(_cores()) if cores == "*" else cores
    workers = _LOCAL_CLUSTER.match(master)
    if workers:
        settings["spark.sql.shuffle.partitions"] = str(int(workers[1]) * int(workers[2]))
    return settings


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _find_shell() -> None:
    """Spark's start is a shell script: it must find the shell, however short the PATH is."""
    if shutil.which("bash") is None:
        os.environ["PATH"] = os.pathsep.join(
            filter(None, [os.environ.get("PATH"), "/usr/local/bin", "/usr/bin", "/bin"])
        )


def _java_options(java: Java, given: str, *, train: bool) -> str:
    options = [_QUIET, given]
    if "log4j" not in given:
        options.append(shlex.quote(f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"))
    cache = trained(java, may_train=train)
    if cache is not None:
        options.append(f"-XX:AOTCache={cache} -Xlog:aot*=off -Xlog:cds*=off")
    return " ".join(filter(None, options))
