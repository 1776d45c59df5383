"""Watching PostgreSQL at 200,000 rows of the log and 50,000 deliveries: no question reads a whole table.

Work waits in 300 routes, messages for 20 subscribers; the log has a row a second. What lies in ranges of pages is read
by ranges, so that a minute of the log costs a few thousand rows, however long it is.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from eventhub.store.postgres.publishing import SQL
from tests.plans.test_postgres_plans import Planner
from tests.postgres_cluster import PostgresCluster

FILL = """
INSERT INTO eventhub.subscribers (id, name, document, status, created_at, updated_at)
SELECT n, 's' || n, '{}', 'active', now(), now() FROM generate_series(1, 20) n;
INSERT INTO eventhub.routes (queue, tags, priority) SELECT 'work', n::text, 0 FROM generate_series(1, 300) n;
INSERT INTO eventhub.routes (queue, tags, priority) SELECT 'hub', n::text, 0 FROM generate_series(1, 20) n;
INSERT INTO eventhub.events (id, route, type, payload, created_at)
SELECT n, 1 + n % 300, 'order.placed', '{"n":1}', now() - (50000 - n) * interval '1 second'
FROM generate_series(1, 50000) n;
INSERT INTO eventhub.deliveries (id, event_id, route, state, fence, attempts, failures)
SELECT n, n, 1 + n % 300, 0, 0, 0, 0 FROM generate_series(1, 20000) n;
INSERT INTO eventhub.deliveries (id, event_id, route, state, due, fence, attempts, failures)
SELECT n, n, 1 + n % 300, 3, now() + interval '1 hour', 1, 1, 1 FROM generate_series(20001, 25000) n;
INSERT INTO eventhub.deliveries (id, event_id, subscriber, route, state, fence, attempts, failures)
SELECT 100000 + n, n, 1 + n % 20, 301 + n % 20, 0, 0, 0, 0 FROM generate_series(1, 20000) n;
INSERT INTO eventhub.deliveries (id, event_id, route, state, due, fence, attempts, failures, worker)
SELECT 200000 + n, n, 1, 1, now() + interval '1 hour', 1, 1, 0, 'w' || n FROM generate_series(1, 5000) n;
INSERT INTO eventhub.deliveries (id, event_id, lane, key, route, state, fence, attempts, failures)
SELECT 400000 + n, n, n, 'k' || n, 1, CASE WHEN n % 100 = 0 THEN 4 ELSE 0 END, 1, 1, 0 FROM generate_series(1, 10000) n;
INSERT INTO eventhub.workers (queue, name, first_seen, last_seen, last_action)
SELECT 'work', 'w' || n, now(), now(), 'PICKED' FROM generate_series(1, 20000) n;
"""
LETTERS = """
INSERT INTO eventhub.dead_letters (delivery_id, event_id, route, fence, attempts, failures, parks, errors, reason,
                                   status, dead_at, type, payload, created_at)
SELECT 300000 + n, n, 1, 1, 1, 1, false, '["x"]', 'r', 'FAILED', now(), 'order.placed', '{"n":1}', now()
FROM generate_series(1, 20000) n;
"""
LOG = """
INSERT INTO eventhub.event_log (event_id, delivery_id, action, created_at, xid)
SELECT 1 + n % 50000, n, 'PUBLISHED', now() - (200000 - n) * interval '1 second', n FROM generate_series(1, 200000) n;
"""
SUMMARIZE = """
SELECT brin_summarize_new_values(c.oid) FROM pg_class c
WHERE c.relkind = 'i' AND c.relname LIKE 'event_log_%' AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'brin')
"""
TABLES = ("deliveries", "events", "dead_letters", "workers")
STILL = "".join(f"ALTER TABLE eventhub.{table} SET (autovacuum_enabled = false);" for table in TABLES)
ANALYZE = "ANALYZE eventhub.routes, eventhub.subscribers, eventhub.event_log, " + ", ".join(
    f"eventhub.{table}" for table in TABLES
)
STATISTICS = {
    "of the full tables": [FILL, LETTERS, LOG, SUMMARIZE, ANALYZE],
    # The dead do not come in such numbers that nothing is known of them.
    "of the empty tables": [LETTERS, ANALYZE, FILL, LOG, SUMMARIZE],
}
RANGES = 3 * 32 * 110
"""Rows of three ranges of pages, of which the first and the last are read in part."""
QUESTIONS: dict[str, tuple[str, str, int]] = {
    # what is asked: (statement, arguments, how many rows it may read)
    "ready work": ("ready_work", "1000, 'hub'", 1000 + 300),
    "all ready work": ("ready_work", "100000, 'hub'", 30_000),
    "held work": ("held_work", "1000", 1000),
    "messages": ("open_messages", "1000", 1000),
    "claims": ("open_claims", "1000", 1000),
    "the oldest": ("oldest_ready", "NULL", 320 + 10),
    "a minute": ("activity", "now() - interval '1 minute', now(), '10 seconds'", RANGES),
    "a minute of long ago": (
        "activity",
        "now() - interval '30 hours', now() - interval '30 hours' + interval '1 minute', '10 seconds'",
        RANGES,
    ),
    "what was last": ("latest_log", "100, interval '1 minute'", RANGES + 100),
    "what is new since": ("newest_log", "100, '199990:199990:', interval '1 minute', 199990", RANGES + 100),
    "the first at a time": ("first_at", "29990, now() - interval '20000 seconds'", 30),
    "the last at a time": ("last_at", "30010, now() - interval '20000 seconds'", 30),
    "deaths": ("recent_deaths", "1000, NULL", 1000),
    "keys that stand still": ("standstill", "1000", 1000 + 100),
    "silent claims": ("silent_claims", "'work', interval '5 minutes', NULL, 1000", 2000),
    "anybody": ("seen_lately", "'work', interval '5 minutes', NULL", 1),
    "dead letters in brief": ("letters_brief", f"{'NULL, ' * 8}1000, 500", 1000),
}


@pytest.fixture(scope="module", params=STATISTICS)
def planner(request: pytest.FixtureRequest, postgres: PostgresCluster) -> Iterator[Planner]:
    postgres.start()
    planner = Planner(postgres.create_database("watching"), [STILL, *STATISTICS[request.param]])
    yield planner
    planner.close()
    postgres.drop_database("watching")


def rows_read(node: dict[str, Any]) -> float:
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return float((node["Actual Rows"] + removed) * node["Actual Loops"])


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_reads_no_whole_table(planner: Planner, name: str, mode: str) -> None:
    statement, arguments, most = QUESTIONS[name]
    if statement == "letters_brief" and mode == "force_generic_plan":
        mode = "force_custom_plan"  # as filters are asked, always
    how = SQL.by_ranges if statement in ("activity", "latest_log", "newest_log") else SQL.along_indexes
    told = "" if statement == "letters_brief" else how.replace("SET LOCAL", "SET")
    planner.loop.run_until_complete(planner.connection.execute(f"RESET ALL; {told}"))
    nodes = planner.plan(statement, arguments, mode, run=True)
    scans = [
        node
        for node in nodes
        if node.get("Relation Name", "").startswith(("event_log", *TABLES)) and node["Actual Loops"]
    ]
    used = {(node["Node Type"], node["Relation Name"]) for node in scans}
    assert sum(map(rows_read, scans)) <= most, f"{sum(map(rows_read, scans))} rows, by {used}"


def test_the_time_of_an_event_is_found_by_halves(planner: Planner) -> None:
    async def read() -> tuple[int, int]:
        await planner.connection.execute("SELECT pg_stat_force_next_flush()")
        before = await planner.connection.fetchval(TOUCHED)
        found = await planner.connection.fetchval("SELECT eventhub.first_event_since(now() - interval '20000 seconds')")
        await planner.connection.execute("SELECT pg_stat_force_next_flush()")
        return found, await planner.connection.fetchval(TOUCHED) - before

    found, touched = planner.loop.run_until_complete(read())
    assert 29_000 < found < 31_000
    assert touched < 200, f"{touched} blocks"


TOUCHED = """
SELECT heap_blks_read + heap_blks_hit FROM pg_statio_user_tables WHERE schemaname = 'eventhub' AND relname = 'events'
"""
