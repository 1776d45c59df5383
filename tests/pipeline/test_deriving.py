"""Facts and marts in the lake: kept up in steps they are what they are when made at once, whatever is interrupted."""

from collections.abc import Callable
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from eventhub.lake.place import Lake
from eventhub.pipeline.deriving import DERIVED, position_of, update
from eventhub.pipeline.facts.schemas import DELIVERIES
from tests.pipeline.histories import History, fill, made_up

pytestmark = pytest.mark.timeout(300)


class PulledPlugError(Exception):
    """The end of a run in the middle of it."""


def pulled_before(path: str) -> Callable[[str], None]:
    def progress(table: str) -> None:
        if table == path:
            raise PulledPlugError

    return progress


def rows_of(lake: Lake, path: str) -> list[dict[str, Any]]:
    """All but the sketches, which are not the same bytes for the same values."""
    schema = DERIVED[path]
    columns = [name for name in schema.names if not name.endswith("_sketch")]
    found: list[dict[str, Any]] = lake.derived(path, schema).open().to_pyarrow_table(columns=columns).to_pylist()
    return found


def contents(lake: Lake) -> dict[str, list[str]]:
    return {path: sorted(map(repr, rows_of(lake, path))) for path in DERIVED}


def ids(lake: Lake, path: str) -> list[int]:
    return sorted(row["event_id"] for row in rows_of(lake, path))


def test_in_steps_and_interrupted_it_is_the_same_as_at_once(spark: SparkSession, tmp_path: Path) -> None:
    history = made_up(seed=5, events=150)
    last = max(row["position"] for row in history.log) + 1
    slow, quick = Lake(str(tmp_path / "slow")), Lake(str(tmp_path / "quick"))
    for number, (after, upto) in enumerate(pairwise([1, last // 3, last // 2, last]), start=1):
        fill(slow, history, after=after, upto=upto, number=number)
        if number == 2:  # tables are left at three different positions
            with pytest.raises(PulledPlugError):
                update(spark, slow, source="hub", upto=upto - 50, progress=pulled_before("facts/deliveries"))
            with pytest.raises(PulledPlugError):
                update(spark, slow, source="hub", upto=upto, progress=pulled_before("marts/daily"))
        else:
            update(spark, slow, source="hub", upto=upto)
    fill(quick, history, after=1, upto=last, number=1)
    update(spark, quick, source="hub", upto=last)
    expected = contents(quick)
    assert min(len(rows) for rows in expected.values()) > 2
    for path, rows in contents(slow).items():
        assert rows == expected[path], path


def test_only_days_that_changed_are_written(spark: SparkSession, tmp_path: Path) -> None:
    lake, history = Lake(str(tmp_path)), History()
    day = 86_400
    for event in (1, 2, 3):
        history.publish(event, event * day)
        history.attempt(event, 1, "FAILED", (event * day + 5, event * day + 6), error="boom")
        history.bury(event, 1, event * day + 6)
    upto = len(history.log) + 1
    fill(lake, history, after=1, upto=upto, number=1)
    update(spark, lake, source="hub", upto=upto)
    assert update(spark, lake, source="hub", upto=upto) == []
    history.tell(2, "RETRIED", 5 * day, fence=1, attempt=0)
    fill(lake, history, after=upto, upto=upto + 1, number=2)
    done = {each.path: each.days for each in update(spark, lake, source="hub", upto=upto + 1)}
    changed = {"facts/deliveries": 1, "marts/hourly": 1, "marts/daily": 1, "marts/dead_triage": 1}
    assert done == {**dict.fromkeys(DERIVED, 0), **changed}
    assert ids(lake, "facts/deliveries") == [1, 3]
    assert [row["depth"] for row in sorted(rows_of(lake, "marts/queue_depth"), key=itemgetter("hour"))] == [0, 0, 0, 1]
    assert position_of(lake.derived("facts/deliveries", DELIVERIES), "hub") == upto + 1
    # The same hub with positions from elsewhere: everything is made anew, and nothing is there twice.
    update(spark, lake, source="hub restored", upto=upto + 1)
    assert (ids(lake, "facts/deliveries"), ids(lake, "facts/attempts")) == ([1, 3], [1, 2, 3])
