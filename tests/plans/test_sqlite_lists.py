"""Lists in SQLite at 50,000 events: a page reads little more than itself, whatever the filter and the statistics.

What a statement costs is counted in instructions of SQLite's machine. Reading all events takes hundreds of thousands.
"""

from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from tests.plans.filled_file import filled_file
from tests.plans.test_sqlite_plans import _steps, carray

NUMBERS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {}) "
# Four routes share the events, a fifth has five of them, as has a rare type. The older 20,000 are open, 3,000 are dead.
# Older still are those of a route with many types.
FILL = [
    NUMBERS.format(5) + "INSERT INTO eventhub_routes (id, queue, tags, priority) SELECT n, 'work', 't' || n, 0 FROM c",
    "INSERT INTO eventhub_routes (id, queue, tags, priority) VALUES (77, 'many', '', 0)",
    NUMBERS.format(50_000)
    + "INSERT INTO eventhub_events (id, route, type, payload, created_at)"
    + " SELECT n, CASE WHEN n % 10000 = 77 THEN 5 ELSE 1 + n % 4 END,"
    + " CASE WHEN n % 10000 = 78 OR n = 10077 THEN 'order.lost' ELSE 'order.placed' END, '{}', n FROM c",
    NUMBERS.format(10_000)
    + "INSERT INTO eventhub_events (id, route, type, payload, created_at)"
    + " SELECT -30000 - n, 77, 'kind.' || (n % 500), '1', 1 FROM c",
    """
    INSERT INTO eventhub_deliveries (id, event_id, lane, route, state, due, fence, attempts, failures, worker)
    SELECT id, id, CASE WHEN id % 400 IN (1, 2) THEN 1 + id / 400 END, route,
           CASE id % 400 WHEN 2 THEN 2 WHEN 3 THEN 3 WHEN 4 THEN 1 ELSE 0 END,
           CASE WHEN id % 400 IN (3, 4) THEN id END, 1, 1, 0, 'w'
    FROM eventhub_events WHERE id BETWEEN 1 AND 20000
    """,
    """
    INSERT INTO eventhub_dead_letters (delivery_id, event_id, route, fence, attempts, failures, parks, reason, status,
                                       dead_at, type, payload, created_at)
    SELECT id, id, route, 1, 1, 1, 0, 'r', CASE id % 2 WHEN 0 THEN 'FAILED' ELSE 'COMPLETED_WITH_ERRORS' END, 1,
           type, payload, created_at
    FROM eventhub_events WHERE id BETWEEN 20001 AND 23000
    """,
]
ONE_ROUTE = (
    NUMBERS.format(20_000)
    + "INSERT INTO eventhub_events (id, route, type, payload, created_at) SELECT -n, 1, 'order.placed', '1', 1 FROM c"
)
STATISTICS = {
    "none": FILL,
    "of the full tables": [*FILL, "ANALYZE"],
    "of the empty tables": ["ANALYZE", *FILL],
    "of a time with one route and one type": [ONE_ROUTE, "ANALYZE", *FILL],
    "of the tables before they were drained": [
        *FILL,
        "ANALYZE",
        "DELETE FROM eventhub_deliveries WHERE id % 1000 <> 0",
    ],
}
# The first page, one by cursor, and one with an offset.
NEW = ((2**63 - 1, 0), (45_000, 0), (45_000, 5))
OLD = ((2**63 - 1, 0), (15_000, 0), (15_000, 5))
DEAD = ((2**63 - 1, 0), (22_000, 0), (22_000, 5))
ALL, RARE, NONE = (1, 2, 3, 4, 5), (5,), (6,)
COMMON = "order.placed"
Asked = tuple[str, bool, tuple[tuple[int, int], ...], tuple[int, ...], str | None]
LISTS: list[Asked] = [
    # statement, only completed ones, pages, routes, type
    *(("events_recent", completed, NEW, (), None) for completed in (False, True)),
    *(("events_of_kinds", completed, NEW, routes, None) for completed in (False, True) for routes in (ALL, RARE, NONE)),
    *(
        ("events_of_kinds", completed, NEW, routes, type_)
        for completed in (False, True)
        for routes in (ALL, RARE, NONE)
        for type_ in (COMMON, "order.lost", "no.such")
    ),
    ("events_pending", False, OLD, (), None),
    *(("events_pending_routed", False, OLD, routes, None) for routes in (ALL, RARE, NONE)),
    *(
        ("events_pending_typed", False, OLD, routes, type_)
        for routes in (ALL, RARE, NONE)
        for type_ in (COMMON, "order.lost", "no.such")
    ),
    ("events_leased", False, OLD, (), None),
    ("events_leased", False, OLD, RARE, "order.lost"),
    ("events_dead", False, DEAD, (), None),
    ("events_dead", False, DEAD, ALL, COMMON),
]
QUESTIONS: dict[str, tuple[dict[str, Any], int]] = {
    # statement: (arguments, how many instructions it may take)
    "ready_routes": ({"routes": carray(1, 2, 3, 4, 5), "most": 3}, 2_000),
    "ready_types": ({"routes": carray(1, 2, 3, 4, 5)}, 3_000),
    "ready": ({"queue": "work", "after_id": 0, "limit": 10}, 5_000),
    "claim_routes": ({"routes": carray(1, 2, 3, 4, 5), "limit": 10, "each": 10}, 5_000),
    "open_count": ({"limit": 1000}, 10_000),
    "orphans": ({"queue": "work", "before": 1, "limit": 10}, 10_000),
    "count_orphans": ({"queue": "work", "before": 1, "limit": 10}, 10_000),
    "workers": ({"queues": '["work"]', "now": 1, "limit": None}, 10_000),
    "count_workers": ({"queues": '["work"]'}, 10_000),
    "log_started": ({"now": 1, "ids": carray(4, 404, 777)}, 500),
    "current": ({"ids": carray(4, 404, 777)}, 500),
    "check": ({}, 100),
    "has_keys": ({}, 100),
}


@pytest.fixture(scope="module", params=STATISTICS)
def connection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    with filled_file(tmp_path_factory.mktemp("lists") / "hub.db", STATISTICS[request.param]) as opened:
        yield opened


@pytest.mark.parametrize("asked", LISTS, ids=str)
def test_a_page_reads_little_more_than_itself(connection: apsw.Connection, asked: Asked) -> None:
    name, completed, pages, routes, type_ = asked
    for before, offset in pages:
        arguments = {
            "before": before,
            "limit": 10,
            "offset": offset,
            "floor": -(2**63),
            "completed": completed,
            "routed": bool(routes),
            "routes": carray(*routes) if routes else None,
            "type": type_,
            "status": "FAILED",
        }
        steps = _steps(connection, name, arguments)
        assert 0 < steps < 25_000, f"{steps} instructions below {before} + {offset}"


@pytest.mark.parametrize("completed", [False, True])
def test_of_many_types_each_is_looked_at_once_and_none_below_the_floor(
    connection: apsw.Connection, *, completed: bool
) -> None:
    arguments = {
        "before": -30_000,
        "floor": -30_000 - 100,
        "limit": 10,
        "offset": 0,
        "completed": completed,
        "routes": carray(77),
        "type": None,
    }
    assert 500 < _steps(connection, "events_of_kinds", arguments) < 500 * 100


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_costs_little(connection: apsw.Connection, name: str) -> None:
    arguments, most = QUESTIONS[name]
    with connection:
        assert 0 < _steps(connection, name, arguments) < most
