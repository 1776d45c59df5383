"""Lists in PostgreSQL at 50,000 events, of which 9,700 have messages: what a page costs does not grow with those.

The statistics are of the full tables, of the empty ones, or of a time before there was any message.
"""

from collections.abc import Iterator

import pytest

from tests.plans.test_postgres_lists import FILL, LISTS, STILL, rows_read, whole_tables
from tests.plans.test_postgres_plans import Planner
from tests.postgres_cluster import PostgresCluster

# Of the 20,000 open events every third has two messages, and every sixth has nothing but those; a few are leased, wait
# or are parked. 3,000 more have two dead messages each, and of half of them another was delivered. 1,000 are to be
# handed out.
MESSAGES = """
UPDATE eventhub.meta SET value = '9' WHERE key = 'subscribers';
INSERT INTO eventhub.routes (queue, tags, priority) SELECT 'hub', n::text, 0 FROM generate_series(1, 20) n;
INSERT INTO eventhub.deliveries (id, event_id, subscriber, lane, route, state, due, fence, attempts, failures, worker)
SELECT 100000 + e.id * 2 + n, e.id, 1 + e.id % 10 + n * 10, CASE WHEN e.id % 300 = 12 THEN 100000 + e.id * 2 + n END,
       6 + e.id % 10 + n * 10, CASE e.id % 300 WHEN 3 THEN 1 WHEN 6 THEN 3 WHEN 9 THEN 2 WHEN 12 THEN 4 ELSE 0 END,
       CASE WHEN e.id % 300 IN (3, 6) THEN now() + e.id * interval '1 second' END, 1, 1, 0, 'w'
FROM eventhub.events e CROSS JOIN generate_series(0, 1) n WHERE e.id BETWEEN 1 AND 20000 AND e.id % 3 = 0;
DELETE FROM eventhub.deliveries WHERE subscriber IS NULL AND id % 6 = 0;
INSERT INTO eventhub.dead_letters (delivery_id, event_id, subscriber, route, fence, attempts, failures, parks, reason,
                                   status, dead_at, type, payload, created_at)
SELECT 200000 + e.id * 2 + n, e.id, 1 + n, 6 + n, 1, 1, 1, false, 'r', 'FAILED', now(), e.type, e.payload, e.created_at
FROM eventhub.events e CROSS JOIN generate_series(0, 1) n WHERE e.id BETWEEN 23001 AND 26000;
INSERT INTO eventhub.event_log (event_id, delivery_id, action, attempt, fence, created_at)
SELECT id, 300000 + id, CASE id % 2 WHEN 0 THEN 'COMPLETED' ELSE 'FAILED' END, 1, 1, now()
FROM eventhub.events WHERE id BETWEEN 23001 AND 26000;
INSERT INTO eventhub.fanout (event_id, alone) SELECT id, false FROM eventhub.events WHERE id BETWEEN 14001 AND 15000;
"""
STILL_MARKERS = "ALTER TABLE eventhub.fanout SET (autovacuum_enabled = false);"
ANALYZE = "ANALYZE eventhub.deliveries, eventhub.events, eventhub.dead_letters, eventhub.routes, eventhub.fanout"
STATISTICS = {
    "of the full tables": [FILL, MESSAGES, ANALYZE],
    "of the empty tables": [ANALYZE, FILL, MESSAGES],
    "of a time without messages": [FILL, ANALYZE, MESSAGES],
}
DEAD_PAGES = {"the first page": "9000000000, 10, 0", "a page by cursor": "24000, 10, 0", "an offset": "24000, 10, 5"}
MORE_LISTS: dict[str, tuple[str, str, str | None]] = {
    **{name: asked for name, asked in LISTS.items() if asked[0] != "events_dead"},
    **{
        f"{status} of {whose} on {where}": (
            "events_dead",
            f"{page}, {routes}, {type_}, '{status}'",
            "dead_letters_page",
        )
        for status in ("FAILED", "COMPLETED_WITH_ERRORS")
        for whose, routes in {"all routes": "NULL", "common routes": "ARRAY[1, 2]"}.items()
        for type_ in ("NULL", "'order.placed'")
        for where, page in DEAD_PAGES.items()
    },
}
MOST_ROWS = 1000
"""For fifteen events of each of five routes a look at their messages, markers and letters; there are 50,000 events, and
30,000 deliveries."""


@pytest.fixture(scope="module", params=STATISTICS)
def planner(request: pytest.FixtureRequest, postgres: PostgresCluster) -> Iterator[Planner]:
    postgres.start()
    planner = Planner(postgres.create_database("broadcasts"), [STILL, STILL_MARKERS, *STATISTICS[request.param]])
    yield planner
    planner.close()
    postgres.drop_database("broadcasts")


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("name", MORE_LISTS)
def test_a_page_of_broadcasts_reads_little_more_than_itself(planner: Planner, name: str, mode: str) -> None:
    statement, arguments, _ = MORE_LISTS[name]
    nodes = planner.plan(statement, arguments, mode, run=True)
    used = {node["Index Name"] for node in nodes if "Index Name" in node}
    rows = rows_read(nodes)
    assert not whole_tables(nodes)
    assert rows <= MOST_ROWS, f"{rows} rows, by {used}"
