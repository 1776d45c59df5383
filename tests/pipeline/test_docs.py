"""The examples of docs/how-to/pipeline.md run, one after the other, as a reader would try them."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.support import numbered, publish

pytestmark = pytest.mark.alone
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "pipeline.md"
EXAMPLES = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_examples_work(spark: SparkSession, tmp_path: Path) -> None:
    publish(str(tmp_path / "app.db"), numbered(9))
    assert len(EXAMPLES) == 5
    names: dict[str, object] = {}
    for text in EXAMPLES:
        placed = text.replace('"app.db"', repr(str(tmp_path / "app.db")))
        exec(placed.replace('"checkpoint"', repr(str(tmp_path / "checkpoint"))), names)
    found = spark.read.format("eventhub").option("url", str(tmp_path / "app.db")).load()
    counts = {row["queue"]: row["count"] for row in found.groupBy("queue").count().collect()}
    assert counts == {"default": 109, "derived": 9}
