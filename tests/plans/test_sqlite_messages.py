"""Messages in SQLite at 50,000 deliveries: pages, keys and numbers cost little more than what they show.

Twenty subscribers share what is open, delivered and dead; one of them has a key with thousands behind its head, another
has next to nothing. What a statement costs is counted in instructions of SQLite's machine.
"""

from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from tests.plans.filled_file import filled_file
from tests.plans.test_sqlite_plans import _steps, carray

NUMBERS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {}) "
FILL = [
    NUMBERS.format(21)
    + "INSERT INTO eventhub_subscribers (id, name, document, status, created_at, updated_at)"
    + " SELECT n, 's' || n, '{}', 'active', 1, 1 FROM c",
    NUMBERS.format(21) + "INSERT INTO eventhub_routes (queue, tags, priority) SELECT 'hub', n, 0 FROM c",
    NUMBERS.format(50_000)
    + "INSERT INTO eventhub_events (id, route, type, payload, created_at) SELECT n, 1, 'order.placed', '{}', n FROM c",
    NUMBERS.format(30_000)
    + "INSERT INTO eventhub_deliveries (id, event_id, subscriber, route, state, fence, attempts, failures)"
    + " SELECT 100000 + n, n, 1 + n % 20, 1 + n % 20, 0, 0, 0, 0 FROM c",
    NUMBERS.format(5_000)
    + "INSERT INTO eventhub_deliveries (id, event_id, subscriber, lane, key, route, state, due, fence, attempts,"
    + " failures, errors) SELECT 200000 + n, n, 1, n, 'key-' || n, 1, 3, 9000000000, 1, 1, 1, '[\"x\"]' FROM c",
    NUMBERS.format(20_000)
    + "INSERT INTO eventhub_deliveries (id, event_id, subscriber, lane, key, route, state, fence, attempts, failures)"
    + " SELECT 300000 + n, n, 1, 1, 'key-1', 1, 2, 0, 0, 0 FROM c",
    NUMBERS.format(40)
    + "INSERT INTO eventhub_deliveries (id, event_id, subscriber, route, state, due, fence, attempts, failures, worker)"
    + " SELECT 400000 + n, n, 1 + n % 20, 1, 1, 9000000000, 1, 1, 0, 'w' FROM c",
    NUMBERS.format(50_000)
    + "INSERT INTO eventhub_attempts (delivery_id, fence, event_id, subscriber, action, created_at, detail)"
    + " SELECT 500000 + n, 1, n, CASE WHEN n % 5000 = 0 THEN 21 ELSE 1 + n % 20 END,"
    + " CASE WHEN n % 3 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, n * 1000000, '{\"total_ms\":1}' FROM c",
    NUMBERS.format(20_000)
    + "INSERT INTO eventhub_dead_letters (delivery_id, event_id, subscriber, route, fence, attempts, failures, parks,"
    + " errors, reason, status, dead_at, type, payload, created_at)"
    + " SELECT 600000 + n, n, CASE WHEN n % 5000 = 0 THEN 21 WHEN n % 2 = 0 THEN 1 + n % 20 END, 1, 1, 1, 1, 0,"
    + " '[\"x\"]', 'r', 'FAILED', n, 'order.placed', '{}', n FROM c",
]
STATISTICS = {
    "none": FILL,
    "of the full tables": [*FILL, "ANALYZE"],
    "of the empty tables": ["ANALYZE", *FILL],
    "of the tables before they were drained": [*FILL, "ANALYZE", "DELETE FROM eventhub_deliveries WHERE id % 100 <> 0"],
}
LAST = 2**63 - 1
STATUSES = ("PENDING", "PROCESSING", "FAILED", "COMPLETED", "COMPLETED_WITH_ERRORS")
NO_FILTER = {
    "ids_given": False,
    "ids": None,
    "queue": None,
    "subscriber": None,
    "type": None,
    "reason": None,
    "error": None,
    "since": None,
    "until": None,
}


def page(*subscribers: int, before: int = LAST, statuses: tuple[str, ...] = STATUSES) -> dict[str, Any]:
    return {"subscribers": carray(*subscribers), "before": before, "limit": 10, "statuses": apsw.carray(statuses)}


def letters(subscriber: int | None, **page: Any) -> dict[str, Any]:
    return {**NO_FILTER, "subscriber": subscriber, **page}


QUESTIONS: dict[str, tuple[str, dict[str, Any], int]] = {
    # what is asked: (statement, arguments, how many instructions it may take)
    "messages of all": ("messages_page", page(*range(1, 22)), 60_000),
    "messages of one": ("messages_page", page(1), 12_000),
    "messages of one, further on": ("messages_page", page(1, before=250_000), 12_000),
    "messages of one that has few": ("messages_page", page(21), 12_000),
    **{
        f"messages {status} of {who}": ("messages_page", page(who, statuses=(status,)), 12_000)
        for status in STATUSES
        for who in (1, 21)
    },
    "messages of an event": (
        "event_messages",
        {**page(1), "event_id": 777, "subscriber": None},
        3_000,
    ),
    "a message": ("message", {"id": 100_777}, 1_000),
    "attempts": ("message_attempts", {"id": 500_777}, 200),
    "keys": ("blocked_keys", {"subscriber": 1, "after": None, "limit": 10, "most": 1000}, 15_000),
    "keys, further on": ("blocked_keys", {"subscriber": 1, "after": "key-4", "limit": 10, "most": 1000}, 5_000),
    "keys of one that has none": ("blocked_keys", {"subscriber": 2, "after": None, "limit": 10, "most": 1000}, 500),
    "keys of all": ("standstill", {"most": 100}, 5_000),
    "the head of a key": ("head_of_key", {"lane": 7, "subscriber": 1}, 200),
    "a dead letter": ("letter", {"id": 600_777}, 1_000),
    "numbers": ("subscriber_numbers", {"subscriber": 1, "most": 100, "now": 50_000 * 10**6}, 15_000),
    "times": ("attempt_times", {"subscriber": 1, "most": 100, "now": 50_000 * 10**6}, 15_000),
    "backlogs": ("backlogs", {"most": 100, "limit": 10}, 40_000),
    "the latest of all": ("letters_latest", letters(None, before=LAST, limit=10, offset=0), 10_000),
    "the latest of all, further on": ("letters_latest", letters(None, before=10_000, limit=10, offset=0), 10_000),
    "the latest of one": ("letters_latest", letters(1, before=LAST, limit=10, offset=0), 10_000),
    "the latest of one that has few": ("letters_latest", letters(21, before=LAST, limit=10, offset=0), 10_000),
    "the oldest of one that has few": ("letters_oldest", letters(21, after=0, last=LAST, limit=10, retry=True), 5_000),
    "the oldest of all": ("letters_oldest", letters(None, after=610_000, last=LAST, limit=10, retry=True), 5_000),
    "how many of one that has few": ("count_fitting", letters(21, most=LAST, retry=True), 2_000),
    "those of which nobody was told": ("unannounced", {"limit": 10}, 500),
}


@pytest.fixture(scope="module", params=STATISTICS)
def connection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    with filled_file(tmp_path_factory.mktemp("messages") / "hub.db", STATISTICS[request.param]) as opened:
        yield opened


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_costs_little_more_than_its_answer(connection: apsw.Connection, name: str) -> None:
    statement, arguments, most = QUESTIONS[name]
    steps = _steps(connection, statement, arguments)
    assert 0 < steps < most, f"{steps} instructions"
