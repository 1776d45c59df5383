"""One Spark for all tests of this process: its start costs more than all that they do with it."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FOR_SMALL_DATA = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.streaming.pollingDelay": "20ms",
}
"""A few rows are done sooner than code for millions is compiled. Commands that start Spark do compile."""


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """Spark with two threads and our data source, started when the first test asks for it."""
    from eventhub.pipeline import register, session

    before = dict(os.environ)
    started = session(master="local[2]", train=False, conf=FOR_SMALL_DATA)
    register(started)
    yield started
    started.stop()
    os.environ.clear()
    os.environ.update(before)
