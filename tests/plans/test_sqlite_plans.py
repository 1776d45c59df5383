"""Plans in SQLite at 50,000 deliveries: every statement on the way of an event goes by its index."""

import asyncio
import re
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from eventhub.store import open_store
from eventhub.store.sqlite.claiming import _oldest
from eventhub.store.sqlite.connection import connect
from eventhub.store.sqlite.publishing import SQL

NUMBERS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {}) "
FILL = [
    "DELETE FROM eventhub_routes",
    NUMBERS.format(4) + "INSERT INTO eventhub_routes (id, queue, tags, priority) SELECT n, 'work', 't' || n, 0 FROM c",
    NUMBERS.format(5000) + "INSERT INTO eventhub_lanes (id, consumer, key) SELECT n, 'work', 'k' || n FROM c",
    NUMBERS.format(50_000)
    + "INSERT INTO eventhub_events (id, route, type, payload, created_at)"
    + " SELECT n, 1 + n % 4, 'order.placed', '{\"n\":1}', n FROM c",
    NUMBERS.format(50_000)
    + "INSERT INTO eventhub_deliveries (id, event_id, lane, route, state, due, fence, attempts, failures, worker)"
    + " SELECT n, n, CASE WHEN n <= 5000 THEN n WHEN n <= 15000 THEN 1 + n % 5000 END, 1 + n % 4,"
    + " CASE WHEN n <= 5000 THEN 0 WHEN n <= 15000 THEN 2 WHEN n <= 20000 THEN 1 WHEN n <= 25000 THEN 3 ELSE 0 END,"
    + " CASE WHEN n > 15000 AND n <= 25000 THEN n END, 1, 1, 0, 'w' FROM c",
]
DRAIN = ["DELETE FROM eventhub_deliveries WHERE id % 1000 <> 0"]
STATISTICS = {
    "none": FILL,
    "of the full table": [*FILL, "ANALYZE"],
    "of the empty table": ["ANALYZE", *FILL],
    "of the table before it was drained": [*FILL, "ANALYZE", *DRAIN],
}


def carray(*values: int) -> Any:
    return apsw.carray(array("q", values))


THREE = (777, 12_000, 30_000)
STATEMENTS: dict[str, tuple[Any, set[str]]] = {
    # statement: (arguments, what it must go by)
    "claim_route": ({"route": 1, "limit": 10}, {"eventhub_deliveries_ready"}),
    "claim_routes": (
        {"routes": carray(1, 2, 3, 4), "limit": 10, "each": 5},
        {"eventhub_deliveries_ready", "PRIMARY KEY"},
    ),
    "claim_messages": ({"route": 1, "limit": 10}, {"eventhub_deliveries_ready", "PRIMARY KEY"}),
    "markers": ({"payload": True, "limit": 10}, {"PRIMARY KEY"}),
    "claim_ids": ({"ids": carray(*THREE)}, {"PRIMARY KEY"}),
    "lease": (
        {"ids": carray(*THREE), "worker": "w", "claimed_by": None, "due": 1, "max_attempts": None},
        {"PRIMARY KEY"},
    ),
    "log_picked": ({"ids": carray(*THREE), "now": 1}, {"PRIMARY KEY"}),
    "extend": ((777, 1, 1), {"PRIMARY KEY"}),
    "standing": ({"ids": carray(*THREE)}, {"PRIMARY KEY"}),
    "count_current": ({"ids": carray(*THREE), "fences": carray(1, 1, 1)}, {"PRIMARY KEY"}),
    "log_completed": ({"ids": carray(*THREE), "took": carray(1, 2, 3), "now": 1}, {"PRIMARY KEY"}),
    "remove": ({"ids": carray(*THREE)}, {"PRIMARY KEY"}),
    "fail": ((777, 1, None, "x", None), {"PRIMARY KEY"}),
    "release": ((777, 1, None), {"PRIMARY KEY"}),
    "add_error": ((777, "x"), {"PRIMARY KEY"}),
    "bury": ((777, "r", "FAILED", 1), {"PRIMARY KEY"}),
    "park": ({"ids": carray(*THREE)}, {"PRIMARY KEY"}),
    "advance": ({"now": 1, "lanes": carray(1, 2, 3)}, {"eventhub_deliveries_behind", "eventhub_deliveries_head"}),
    "drop_lanes": ({"lanes": carray(1, 2, 3)}, {"eventhub_deliveries_head"}),
    "taken_lanes": ((carray(1, 2, 3),), {"eventhub_deliveries_head"}),
    "due_waiting": ({"now": 1, "limit": 10}, {"eventhub_deliveries_waiting"}),
    "promote": ({"ids": carray(*THREE)}, {"PRIMARY KEY"}),
    "ended_leases": ({"now": 1, "limit": 10}, {"eventhub_deliveries_leased"}),
    "next_due": ({}, {"eventhub_deliveries_waiting", "eventhub_deliveries_leased"}),
    "reset": ({"id": 777}, {"PRIMARY KEY"}),
    "ready": ({"queue": "work", "after_id": 0, "limit": 10}, {"eventhub_deliveries_ready", "PRIMARY KEY"}),
    "record_result": ((777, 1, "h", "success", None, 1), {"PRIMARY KEY"}),
    "parked": ({"lane": 7}, {"eventhub_deliveries_head"}),
}
"""A lane's head, a row by its id, and the first of each state: nothing else is ever looked for."""


async def _make(path: Path) -> None:
    async with open_store(path):
        pass


@pytest.fixture(scope="module", params=STATISTICS)
def connection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path = tmp_path_factory.mktemp("plans") / "hub.db"
    asyncio.run(_make(path))
    opened = connect(str(path))
    with opened:
        for step in STATISTICS[request.param]:
            opened.execute(step)
    yield opened
    opened.close()


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_goes_by_its_index(connection: apsw.Connection, name: str) -> None:
    arguments, wanted = STATEMENTS[name]
    steps = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + getattr(SQL, name), arguments)]
    assert not [step for step in steps if _scans_a_table(step)], steps
    for index in wanted:
        assert any(index in step for step in steps), steps


def _scans_a_table(step: str) -> bool:
    """A scan along an index in its order is how a backlog is read; one without is a search through all rows."""
    return bool(re.match(r"SCAN (d|e|n|x|h|eventhub_deliveries|eventhub_events)\b", step)) and "USING" not in step


@pytest.mark.parametrize("name", ["claim_route", "due_waiting", "ended_leases"])
def test_a_backlog_is_not_sorted(connection: apsw.Connection, name: str) -> None:
    arguments, _ = STATEMENTS[name]
    steps = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + getattr(SQL, name), arguments)]
    assert not [step for step in steps if "TEMP B-TREE" in step], steps


@pytest.mark.parametrize("after", [0, 40_000])
def test_what_is_ready_is_read_only_as_far_as_asked_for(connection: apsw.Connection, after: int) -> None:
    assert 0 < _steps(connection, "ready", {"queue": "work", "after_id": after, "limit": 10}) < 5_000


@pytest.mark.parametrize("name", ["count_current", "log_completed"])
def test_many_completions_cost_each_as_much_as_few(connection: apsw.Connection, name: str) -> None:
    def cost(count: int) -> float:
        numbers = carray(*range(15_001, 15_001 + count))
        with connection:
            connection.execute("SAVEPOINT tried")
            arguments = {"ids": numbers, "fences": numbers, "took": numbers, "now": 1}
            steps = _steps(connection, name, arguments)
            connection.execute("ROLLBACK TO tried")
        return steps / count

    assert cost(1_000) < 2 * cost(100)


def test_a_claim_over_many_routes_reads_little_more_than_it_takes(tmp_path: Path) -> None:
    def cost(routes: int) -> int:
        path = tmp_path / f"{routes}.db"
        asyncio.run(_make(path))
        opened = connect(str(path))
        with opened:
            opened.execute(
                NUMBERS.format(50_000)
                + "INSERT INTO eventhub_events (id, route, type, payload, created_at)"
                + f" SELECT n, 1 + n % {routes}, 'order.placed', '1', n FROM c"
            )
            same = {"max_attempts": None, "handlers": None, "owner": None}
            opened.execute(SQL.insert_bare_deliveries, {"first": 1, "last": 50_000, **same})
        steps = _counted(opened, lambda: _oldest(opened, list(range(1, routes + 1)), 500))
        opened.close()
        return steps

    assert cost(100) < 3 * cost(2)


def _steps(connection: apsw.Connection, name: str, arguments: Any) -> int:
    return _counted(connection, lambda: connection.execute(getattr(SQL, name), arguments).fetchall())


def _counted(connection: apsw.Connection, work: Callable[[], object]) -> int:
    """How many instructions of SQLite's machine something takes: what it costs, on a machine of any speed."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    connection.set_progress_handler(count, 1)
    try:
        work()
    finally:
        connection.set_progress_handler(None)
    return steps
