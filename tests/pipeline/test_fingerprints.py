"""Errors have the same fingerprint in Spark as in the hub itself: one finds in the history what the other shows."""

from pyspark.sql import SparkSession

from eventhub.core.fingerprints import fingerprint as plain
from eventhub.pipeline.facts.fingerprints import fingerprint
from tests.core.test_fingerprints import OTHER, SAME

CORPUS = [
    *{text for pair in (*SAME, *OTHER) for text in pair},
    "x" * 499 + "12345",
    "😀" * 499 + "ab",
    "ünïcode 42 «ñà» '日本' ٣٤ ４",
    "Abandoned: a\nb did not report in 5 s",
    "Abandoned: a\rb did not report\u2028in 5 s",
    "Abandoned: a did not report, b did not report",
    "é0123456789abcdefé _0123456789ab_ -0123456789abcdef-",
    "it's 'quoted' and \"so 'nested' on\" and 'open",
    "0x 0xg 0xFFg 1.5e10 -3 1,000 v2.0.1",
    "00000000-0000-0000-0000-00000000000g 0123456789abc",
    "tab\there\x00\x7f \\d+ $1 ${x} \\b #",
]


def test_spark_and_the_hub_agree(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(text,) for text in CORPUS], "error string")
    found = {row.error: row.mark for row in rows.select("error", fingerprint("error").alias("mark")).collect()}
    assert found == {text: plain(text) for text in CORPUS}
