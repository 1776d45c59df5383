"""Watching SQLite at 200,000 rows of the log and 50,000 deliveries: no question reads a whole table.

Work waits in 300 routes, messages for 20 subscribers; the log has a row a second. What a statement costs is counted in
instructions of SQLite's machine: to count a row takes about ten of them.
"""

from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from eventhub.store.sqlite.publishing import SQL
from eventhub.store.sqlite.watching import _first_since
from tests.plans.filled_file import filled_file
from tests.plans.test_sqlite_messages import NO_FILTER, NUMBERS
from tests.plans.test_sqlite_plans import _steps

SECOND = 1_000_000
NOW = 200_000 * SECOND
DELIVERY = (
    "INSERT INTO eventhub_deliveries (id, event_id, subscriber, route, state, due, fence, attempts, failures, worker)"
)
FILL = [
    NUMBERS.format(20)
    + "INSERT INTO eventhub_subscribers (id, name, document, status, created_at, updated_at)"
    + " SELECT n, 's' || n, '{}', 'active', 1, 1 FROM c",
    NUMBERS.format(300) + "INSERT INTO eventhub_routes (queue, tags, priority) SELECT 'work', n, 0 FROM c",
    NUMBERS.format(20) + "INSERT INTO eventhub_routes (queue, tags, priority) SELECT 'hub', n, 0 FROM c",
    NUMBERS.format(50_000)
    + "INSERT INTO eventhub_events (id, route, type, payload, created_at)"
    + f" SELECT n, 1 + n % 300, 'order.placed', '{{}}', (150000 + n) * {SECOND} FROM c",
    NUMBERS.format(20_000) + DELIVERY + " SELECT n, n, NULL, 1 + n % 300, 0, NULL, 0, 0, 0, NULL FROM c",
    NUMBERS.format(5_000) + DELIVERY + f" SELECT 20000 + n, n, NULL, 1 + n % 300, 3, {NOW}, 1, 1, 1, NULL FROM c",
    NUMBERS.format(20_000)
    + DELIVERY
    + " SELECT 100000 + n, n, 1 + n % 20, 301 + n % 20, 0, NULL, 0, 0, 0, NULL FROM c",
    NUMBERS.format(5_000) + DELIVERY + f" SELECT 200000 + n, n, NULL, 1, 1, {NOW}, 1, 1, 0, 'w' || n FROM c",
    NUMBERS.format(10_000)
    + "INSERT INTO eventhub_deliveries (id, event_id, lane, key, route, state, fence, attempts, failures)"
    + " SELECT 400000 + n, n, n, 'k' || n, 1, CASE WHEN n % 100 = 0 THEN 4 ELSE 0 END, 1, 1, 0 FROM c",
    NUMBERS.format(20_000)
    + "INSERT INTO eventhub_workers (queue, name, first_seen, last_seen, last_action)"
    + f" SELECT 'work', 'w' || n, 1, {NOW}, 'PICKED' FROM c",
    NUMBERS.format(20_000)
    + "INSERT INTO eventhub_dead_letters (delivery_id, event_id, route, fence, attempts, failures, parks, errors,"
    + " reason, status, dead_at, type, payload, created_at)"
    + f" SELECT 300000 + n, n, 1, 1, 1, 1, 0, '[\"x\"]', 'r', 'FAILED', {NOW}, 'order.placed', '{{}}', 1 FROM c",
    NUMBERS.format(200_000)
    + "INSERT INTO eventhub_event_log (id, event_id, delivery_id, action, created_at)"
    + f" SELECT n, 1 + n % 50000, n, 'PUBLISHED', n * {SECOND} FROM c",
]
STATISTICS = {"none": FILL, "of the full tables": [*FILL, "ANALYZE"], "of the empty tables": ["ANALYZE", *FILL]}
MINUTE = {"since": NOW - 60 * SECOND, "until": NOW, "step": 10 * SECOND, "first": 199_940, "last": 200_001}
QUESTIONS: dict[str, tuple[str, dict[str, Any], int]] = {
    # what is asked: (statement, arguments, how many instructions it may take)
    "ready work": ("ready_work", {"limit": 1000, "hub": "hub"}, 30_000),
    "held work": ("held_work", {"limit": 1000}, 40_000),
    "messages": ("open_messages", {"limit": 1000}, 30_000),
    "claims": ("open_claims", {"limit": 1000}, 30_000),
    "the oldest": ("oldest_ready", {"now": NOW}, 15_000),
    "a minute": ("activity", MINUTE, 5_000),
    "where the log begins and ends": ("log_ends", {}, 100),
    "a row of the log": ("log_from", {"id": 777}, 50),
    "what is new": ("newest_log", {"after": 0, "limit": 100}, 10_000),
    "the first at a time": ("first_at", {"start": 9_990, "moment": 160_000 * SECOND}, 200),
    "the last at a time": ("last_at", {"end": 10_010, "moment": 160_000 * SECOND}, 200),
    "deaths": ("recent_deaths", {"limit": 1000, "now": NOW}, 60_000),
    "keys that stand still": ("standstill", {"most": 1000}, 20_000),
    "silent claims": ("silent_claims", {"queue": "work", "before": 0, "limit": 1000}, 60_000),
    "anybody": ("seen_lately", {"queue": "work", "after": 0}, 100),
    "where events begin and end": ("event_ends", {}, 100),
    "an event": ("event_from", {"id": 777}, 50),
    "dead letters in brief": ("letters_brief", {**NO_FILTER, "limit": 1000, "longest": 500}, 100_000),
}


@pytest.fixture(scope="module", params=STATISTICS)
def connection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    with filled_file(tmp_path_factory.mktemp("watching") / "hub.db", STATISTICS[request.param]) as opened:
        yield opened


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_reads_no_whole_table(connection: apsw.Connection, name: str) -> None:
    statement, arguments, most = QUESTIONS[name]
    steps = _steps(connection, statement, arguments)
    assert 0 < steps < most, f"{steps} instructions"


def test_times_are_found_by_halves(connection: apsw.Connection) -> None:
    asked = 0

    def count(*_: object) -> bool:
        nonlocal asked
        asked += 1
        return True

    connection.exec_trace = count
    try:
        assert _first_since(connection, SQL.log_ends, SQL.log_from, 123_456 * SECOND) == 123_456
        assert _first_since(connection, SQL.event_ends, SQL.event_from, 160_000 * SECOND) == 10_000
    finally:
        connection.exec_trace = None
    assert asked < 50
