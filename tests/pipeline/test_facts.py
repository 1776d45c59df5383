"""Attempts and deliveries as the log tells them, case by case; all cases are read at once."""

from datetime import UTC, date

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from eventhub.pipeline.facts.attempts import attempts
from eventhub.pipeline.facts.deliveries import deliveries
from tests.pipeline.histories import History, at, batch

pytestmark = pytest.mark.timeout(300)

RETRIED, LEASED, FINALIZED, MOVED, RELEASED, ABANDONED, SKIPPED, PENDING, NOBODY, SENT, PURGED, LATE = range(1, 13)
ABANDONMENT = "Abandoned: {} did not report before its lease ended."


def history() -> History:
    """One event for each case."""
    made = History()
    for event in range(1, PURGED):
        made.publish(event, event, ordering_key=f"k{event}", tags="red, blue")
    made.publish(LATE, LATE)
    # It fails twice, is buried, retried by an operator, and completes.
    made.attempt(RETRIED, 1, "FAILED", (11, 12), error="no 17 for 'x'", status_code=500)
    made.attempt(RETRIED, 2, "FAILED", (20, 20.5), error="no 4 for 'y'")
    made.bury(RETRIED, 2, 20.5)
    made.tell(RETRIED, "RETRIED", 100, fence=2, attempt=0, worker="anna")
    made.attempt(RETRIED, 3, "COMPLETED", (160, 161.5), attempt=1, worker="v", execution_ms=9)
    # Somebody has it.
    made.tell(LEASED, "PICKED", 30, fence=1, attempt=1, worker="w")
    made.tell(LEASED, "STARTED", 31, fence=1, attempt=1, worker="w")
    # It fails, and is finalized while it waits: that ends no attempt.
    made.attempt(FINALIZED, 1, "FAILED", (10, 11), error="boom")
    made.tell(FINALIZED, "COMPLETED", 15, fence=1, attempt=1)
    # An operator takes it from whoever has it, and retries it: nobody has it now.
    made.tell(MOVED, "PICKED", 10, fence=1, attempt=1, worker="w")
    made.bury(MOVED, 1, 12, error="manual")
    made.tell(MOVED, "RESET", 12, fence=1, attempt=1, worker="anna", error="moved")
    made.tell(MOVED, "RETRIED", 13, fence=1, attempt=0, worker="anna")
    # Given back, taken away, and done at the third claim, which is the second that counts.
    made.attempt(RELEASED, 1, "RELEASED", (10, 11))
    made.tell(RELEASED, "PICKED", 12, fence=2, attempt=1, worker="w")
    made.tell(RELEASED, "RESET", 13, fence=2, attempt=1, error="by hand")
    made.attempt(RELEASED, 3, "COMPLETED", (14, 15), attempt=2)
    # Nobody reports on it until it is given up.
    for fence, worker in ((1, "w-1"), (2, "w 2")):
        made.attempt(
            ABANDONED, fence, "ABANDONED", (fence * 10, fence * 10 + 5), worker=worker, error=ABANDONMENT.format(worker)
        )
    made.bury(ABANDONED, 2, 25, error="worker_lost")
    # Buried without an attempt, and its key freed.
    made.bury(SKIPPED, 0, 33, error="skipped", attempt=0, worker=None)
    made.tell(SKIPPED, "SKIPPED", 34, worker="anna")
    # Nobody was to be told.
    made.tell(NOBODY, "COMPLETED", 40, attempt=0)
    # Three messages: delivered at the second attempt, cancelled under way, cancelled before.
    made.attempt(SENT, 1, "FAILED", (50, 51), delivery=101, subscriber=7, error="HTTP 503", status_code=503)
    made.attempt(SENT, 2, "COMPLETED", (60, 61), delivery=101, subscriber=7, status_code=200)
    made.attempt(SENT, 1, "CANCELLED", (50, 52), delivery=102, subscriber=8)
    made.tell(SENT, "CANCELLED", 55, delivery=103, subscriber=9, fence=0, attempt=0, worker="anna")
    # Its event was purged before it was copied.
    made.tell(PURGED, "PUBLISHED", 60)
    made.attempt(PURGED, 1, "COMPLETED", (61, 62))
    # The clock was set back; and its end was copied before its beginning.
    made.attempt(LATE, 1, "COMPLETED", (5, 4))
    return made


@pytest.fixture(scope="module")
def facts(spark: SparkSession) -> tuple[dict[tuple[int, int], Row], dict[int, Row]]:
    """Attempts by delivery and fence, and deliveries by number."""
    made = history()
    log, events = (
        spark.createDataFrame(pa.Table.from_batches([batch(dataset, rows)])).repartition(3)  # type: ignore[arg-type]
        for dataset, rows in (("event_log", made.log), ("events", made.events))
    )
    ended, settled = attempts(log, events).collect(), deliveries(log, events).collect()
    assert len({(row.delivery_id, row.fence) for row in ended}) == len(ended)
    assert len({row.delivery_id for row in settled}) == len(settled)
    return {(row.delivery_id, row.fence): row for row in ended}, {row.delivery_id: row for row in settled}


Facts = tuple[dict[tuple[int, int], Row], dict[int, Row]]


def test_every_claim_that_ended_is_an_attempt_and_no_other(facts: Facts) -> None:
    assert {key: row.outcome for key, row in facts[0].items()} == {
        (RETRIED, 1): "FAILED",
        (RETRIED, 2): "FAILED",
        (RETRIED, 3): "COMPLETED",
        (FINALIZED, 1): "FAILED",
        (MOVED, 1): "DEAD",
        (RELEASED, 1): "RELEASED",
        (RELEASED, 2): "RESET",
        (RELEASED, 3): "COMPLETED",
        (ABANDONED, 1): "ABANDONED",
        (ABANDONED, 2): "ABANDONED",
        (101, 1): "FAILED",
        (101, 2): "COMPLETED",
        (102, 1): "CANCELLED",
        (PURGED, 1): "COMPLETED",
        (LATE, 1): "COMPLETED",
    }


def test_an_attempt_tells_who_when_and_how(facts: Facts) -> None:
    found, _ = facts
    first, second, third = (found[RETRIED, fence] for fence in (1, 2, 3))
    assert (first.worker, first.attempt, first.event_id, first.type, first.queue) == ("w", 1, RETRIED, "a", "work")
    assert (first.picked_at.astimezone(UTC), first.ended_at.astimezone(UTC)) == (at(11), at(12))
    assert (first.status_code, first.error, first.day) == (500, "no 17 for 'x'", date(2026, 3, 1))
    assert (third.worker, third.attempt, third.execution_ms, third.error) == ("v", 1, 9, None)
    assert [row.duration_ms for row in (first, second, third)] == [1000, 500, 1500]
    assert [row.wait_ms for row in (first, second, third)] == [10_000, 8_000, 60_000], "since it could be taken"
    assert [found[RELEASED, fence].attempt for fence in (1, 2, 3)] == [1, 1, 2]
    assert found[RELEASED, 2].worker == "w", "not the operator who reset it"
    assert (found[MOVED, 1].error, found[102, 1].worker, found[102, 1].subscriber) == (None, "w", 8)
    assert (found[101, 1].wait_ms, found[101, 2].wait_ms, found[101, 2].subscriber) == (40_000, 9_000, 7)
    assert (found[PURGED, 1].type, found[LATE, 1].duration_ms, found[LATE, 1].wait_ms) == (None, 0, 0)


def test_errors_that_differ_in_details_have_one_fingerprint(facts: Facts) -> None:
    found, _ = facts
    same = {found[key].error_fingerprint for key in ((RETRIED, 1), (RETRIED, 2))}
    lost = {found[key].error_fingerprint for key in ((ABANDONED, 1), (ABANDONED, 2))}
    assert (len(same), len(lost)) == (1, 1)
    assert len(same | lost | {found[101, 1].error_fingerprint}) == 3
    assert found[RETRIED, 3].error_fingerprint is None


def test_what_is_settled_is_a_delivery_and_what_is_open_or_nobodys_is_none(facts: Facts) -> None:
    assert {number: (row.outcome, row.reason) for number, row in facts[1].items()} == {
        RETRIED: ("COMPLETED", None),
        FINALIZED: ("COMPLETED", None),
        RELEASED: ("COMPLETED", None),
        ABANDONED: ("DEAD", "worker_lost"),
        SKIPPED: ("DEAD", "skipped"),
        101: ("COMPLETED", None),
        102: ("CANCELLED", None),
        103: ("CANCELLED", None),
        PURGED: ("COMPLETED", None),
        LATE: ("COMPLETED", None),
    }


def test_a_delivery_tells_its_whole_life(facts: Facts) -> None:
    _, found = facts
    retried = found[RETRIED]
    assert (retried.attempts, retried.failures, retried.abandonments, retried.retries) == (3, 2, 0, 1)
    assert (retried.wait_ms, retried.total_ms, retried.last_error) == (10_000, 160_500, "no 4 for 'y'")
    assert (retried.worker, retried.ordering_key, retried.tags) == ("v", "k1", "red, blue")
    assert retried.published_at.astimezone(UTC) == at(1)
    assert retried.first_picked_at.astimezone(UTC) == at(11)
    released, abandoned, skipped = found[RELEASED], found[ABANDONED], found[SKIPPED]
    assert (released.attempts, released.failures, abandoned.attempts, abandoned.abandonments) == (2, 0, 2, 2)
    assert (skipped.attempts, skipped.first_picked_at, skipped.wait_ms, skipped.total_ms) == (0, None, None, 26_000)
    assert [(found[number].subscriber, found[number].event_id) for number in (101, 102, 103)] == [
        (7, SENT),
        (8, SENT),
        (9, SENT),
    ]
    assert (found[PURGED].published_at, found[PURGED].total_ms) == (None, None)
