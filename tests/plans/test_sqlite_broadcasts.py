"""Lists in SQLite at 50,000 events, of which 9,700 have messages: what a page costs does not grow with those.

What a statement costs is counted in instructions of SQLite's machine. Reading all messages takes hundreds of thousands.
"""

from collections.abc import Iterator

import apsw
import pytest

from tests.plans.filled_file import filled_file
from tests.plans.test_sqlite_lists import ALL, COMMON, DEAD, FILL, LISTS, NUMBERS, Asked
from tests.plans.test_sqlite_plans import _steps, carray

# Of the 20,000 open events every third has two messages, and every sixth has nothing but those; a few are leased, wait
# or are parked. 3,000 more have two dead messages each, and of half of them another was delivered. 1,000 are to be
# handed out.
MESSAGES = [
    "UPDATE eventhub_meta SET value = '9' WHERE key = 'subscribers'",
    NUMBERS.format(20) + "INSERT INTO eventhub_routes (id, queue, tags, priority) SELECT 5 + n, 'hub', n, 0 FROM c",
    """
    INSERT INTO eventhub_deliveries (id, event_id, subscriber, lane, route, state, due, fence, attempts, failures,
                                     worker)
    SELECT 100000 + e.id * 2 + n.column1, e.id, 1 + e.id % 10 + n.column1 * 10,
           CASE WHEN e.id % 300 = 12 THEN 100000 + e.id * 2 + n.column1 END, 6 + e.id % 10 + n.column1 * 10,
           CASE e.id % 300 WHEN 3 THEN 1 WHEN 6 THEN 3 WHEN 9 THEN 2 WHEN 12 THEN 4 ELSE 0 END,
           CASE WHEN e.id % 300 IN (3, 6) THEN e.id END, 1, 1, 0, 'w'
    FROM eventhub_events e CROSS JOIN (VALUES (0), (1)) n WHERE e.id BETWEEN 1 AND 20000 AND e.id % 3 = 0
    """,
    "DELETE FROM eventhub_deliveries WHERE subscriber IS NULL AND id % 6 = 0",
    """
    INSERT INTO eventhub_dead_letters (delivery_id, event_id, subscriber, route, fence, attempts, failures, parks,
                                       reason, status, dead_at, type, payload, created_at)
    SELECT 200000 + e.id * 2 + n.column1, e.id, 1 + n.column1, 6 + n.column1, 1, 1, 1, 0, 'r', 'FAILED', 1, e.type,
           e.payload, e.created_at
    FROM eventhub_events e CROSS JOIN (VALUES (0), (1)) n WHERE e.id BETWEEN 23001 AND 26000
    """,
    """
    INSERT INTO eventhub_event_log (event_id, delivery_id, action, attempt, fence, created_at)
    SELECT id, 300000 + id, CASE id % 2 WHEN 0 THEN 'COMPLETED' ELSE 'FAILED' END, 1, 1, 1
    FROM eventhub_events WHERE id BETWEEN 23001 AND 26000
    """,
    "INSERT INTO eventhub_fanout (event_id, alone) SELECT id, 0 FROM eventhub_events WHERE id BETWEEN 14001 AND 15000",
]
STATISTICS = {
    "none": [*FILL, *MESSAGES],
    "of the full tables": [*FILL, *MESSAGES, "ANALYZE"],
    "of the empty tables": ["ANALYZE", *FILL, *MESSAGES],
    "of a time without messages": [*FILL, "ANALYZE", *MESSAGES],
}
MORE_LISTS: list[Asked] = [
    *LISTS,
    ("events_dead", False, ((2**63 - 1, 0), (24_000, 0), (24_000, 5)), (), None),
    ("events_dead", False, ((2**63 - 1, 0), (24_000, 0), (24_000, 5)), (1, 2), COMMON),
    ("events_dead", False, DEAD, ALL, None),
]
MOST = 40_000


@pytest.fixture(scope="module", params=STATISTICS)
def connection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    with filled_file(tmp_path_factory.mktemp("broadcasts") / "hub.db", STATISTICS[request.param]) as opened:
        yield opened


@pytest.mark.parametrize("status", ["FAILED", "COMPLETED_WITH_ERRORS"])
@pytest.mark.parametrize("asked", MORE_LISTS, ids=str)
def test_a_page_of_broadcasts_reads_little_more_than_itself(
    connection: apsw.Connection, asked: Asked, status: str
) -> None:
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
            "status": status,
        }
        steps = _steps(connection, name, arguments)
        assert 0 < steps < MOST, f"{steps} instructions below {before} + {offset}"
