"""Messages in PostgreSQL at 50,000 deliveries: pages, keys and numbers read little more than they show.

Twenty subscribers share what is open, delivered and dead; one of them has a key with thousands behind its head, another
has next to nothing. Filters of dead letters are planned afresh each time, everything else for any values as well.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.plans.test_postgres_plans import Planner
from tests.postgres_cluster import PostgresCluster

FILL = """
INSERT INTO eventhub.subscribers (id, name, document, status, created_at, updated_at)
SELECT n, 's' || n, '{}', 'active', now(), now() FROM generate_series(1, 21) n;
INSERT INTO eventhub.routes (queue, tags, priority) SELECT 'hub', n::text, 0 FROM generate_series(1, 21) n;
INSERT INTO eventhub.events (id, route, type, payload, created_at)
SELECT n, 1, 'order.placed', '{"n":1}', now() FROM generate_series(1, 50000) n;
INSERT INTO eventhub.deliveries (id, event_id, subscriber, route, state, fence, attempts, failures)
SELECT 100000 + n, n, 1 + n % 20, 1 + n % 20, 0, 0, 0, 0 FROM generate_series(1, 30000) n;
INSERT INTO eventhub.deliveries (id, event_id, subscriber, lane, key, route, state, due, fence, attempts, failures,
                                 errors)
SELECT 200000 + n, n, 1, n, 'key-' || n, 1, 3, now() + interval '1 hour', 1, 1, 1, '["x"]'
FROM generate_series(1, 5000) n;
INSERT INTO eventhub.deliveries (id, event_id, subscriber, lane, key, route, state, fence, attempts, failures)
SELECT 300000 + n, n, 1, 1, 'key-1', 1, 2, 0, 0, 0 FROM generate_series(1, 20000) n;
INSERT INTO eventhub.deliveries (id, event_id, subscriber, route, state, due, fence, attempts, failures, worker)
SELECT 400000 + n, n, 1 + n % 20, 1, 1, now() + interval '1 hour', 1, 1, 0, 'w' FROM generate_series(1, 40) n;
INSERT INTO eventhub.attempts (delivery_id, fence, event_id, subscriber, action, created_at, detail)
SELECT 500000 + n, 1, n, CASE WHEN n % 5000 = 0 THEN 21 ELSE 1 + n % 20 END,
       CASE WHEN n % 3 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, now() - n * interval '1 second', '{"total_ms":1}'
FROM generate_series(1, 50000) n;
"""
LETTERS = """
INSERT INTO eventhub.dead_letters (delivery_id, event_id, subscriber, route, fence, attempts, failures, parks, errors,
                                   reason, status, dead_at, type, payload, created_at)
SELECT 600000 + n, n, CASE WHEN n % 5000 = 0 THEN 21 WHEN n % 2 = 0 THEN 1 + n % 20 END, 1, 1, 1, 1, false, '["x"]',
       'r', 'FAILED', now(), 'order.placed', '{"n":1}', now()
FROM generate_series(1, 20000) n;
"""
TABLES = ("deliveries", "events", "dead_letters", "attempts")
STILL = "".join(f"ALTER TABLE eventhub.{table} SET (autovacuum_enabled = false);" for table in TABLES)
ANALYZE = f"ANALYZE {', '.join(f'eventhub.{table}' for table in TABLES)}, eventhub.subscribers, eventhub.routes"
DRAIN = "DELETE FROM eventhub.deliveries WHERE id % 100 <> 0"
STATISTICS = {
    # The dead do not come in such numbers that nothing is known of them.
    "of the full tables": [FILL, LETTERS, ANALYZE],
    "of the empty tables": [LETTERS, ANALYZE, FILL],
    "of the tables before they were drained": [FILL, LETTERS, ANALYZE, DRAIN],
}
LAST = "9000000000"
ALL = "ARRAY[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]"
EVERY = "ARRAY['PENDING', 'PROCESSING', 'FAILED', 'COMPLETED']"
ONE_PAGE = 4 * 10 + 3 * 10 + 40 + 20
"""Ten of each way to stand, three look-ups for each of the page, and all that is in flight."""
QUESTIONS: dict[str, tuple[str, str, int]] = {
    # what is asked: (statement, arguments, how many rows it may read)
    "messages of all": ("messages_page", f"{ALL}, {LAST}, 10, {EVERY}", 21 * 5 * 10 + 40 + 30),
    "messages of one": ("messages_page", f"ARRAY[1], {LAST}, 10, {EVERY}", ONE_PAGE + 20),
    "messages of one, further on": ("messages_page", f"ARRAY[1], 250000, 10, {EVERY}", ONE_PAGE + 20),
    "messages of one that has few": ("messages_page", f"ARRAY[21], {LAST}, 10, {EVERY}", ONE_PAGE),
    **{
        f"messages {status} of one that has {much}": (
            "messages_page",
            f"ARRAY[{who}], {LAST}, 10, ARRAY['{status}']",
            ONE_PAGE,
        )
        for status in ("PENDING", "PROCESSING", "FAILED", "COMPLETED", "COMPLETED_WITH_ERRORS")
        for who, much in ((1, "many"), (21, "few"))
    },
    "messages of an event": ("event_messages", f"777, {LAST}, 10, {EVERY}, NULL", 40),
    "a message": ("message", "100777", 5),
    "attempts": ("message_attempts", "500777", 3),
    "keys": ("blocked_keys", "1, NULL, 10, 1000", 10 * 4 + 1000 + 10),
    "keys, further on": ("blocked_keys", "1, 'key-4', 10, 1000", 10 * 4 + 10),
    "keys of one that has none": ("blocked_keys", "2, NULL, 10, 1000", 5),
    "keys of all": ("standstill", "100", 200),
    "the head of a key": ("head_of_key", "7, 1", 2),
    "a dead letter": ("letter", "600777", 10),
    "one to hasten": ("hasten", "200777, 'anna', NULL", 2),
    "one to cancel": ("log_cancelled", "200777, 'anna', NULL", 2),
    "some to hold": ("hold_letters", "ARRAY[7, 8, 9], NULL", 10),
    "some to purge": ("purge", "ARRAY[7, 8, 9]", 10),
    "some that are old": ("old_letters", "'dead_at', now(), NULL, 10, 10", 40),
    "those of which nobody was told": ("unannounced", "10", 5),
}
ANY = "NULL, NULL, {}, NULL, NULL, NULL, NULL, NULL"
FILTERS: dict[str, tuple[str, str, int]] = {
    "the latest of all": ("letters_latest", f"{ANY.format('NULL')}, {LAST}, 10, 0", 40),
    "the latest of all, further on": ("letters_latest", f"{ANY.format('NULL')}, 10000, 10, 0", 40),
    "the latest of one": ("letters_latest", f"{ANY.format(1)}, {LAST}, 10, 0", 300),
    "the latest of one that has few": ("letters_latest", f"{ANY.format(21)}, {LAST}, 10, 0", 40),
    "the oldest of one that has few": ("letters_oldest", f"{ANY.format(21)}, 0, {LAST}, 10, true", 40),
    "how many of one that has few": ("count_fitting", f"{ANY.format(21)}, NULL, true", 40),
    "chosen ones": (
        "letters_latest",
        f"ARRAY[600001, 600002], NULL, NULL, NULL, NULL, NULL, NULL, NULL, {LAST}, 10, 0",
        20,
    ),
}


@pytest.fixture(scope="module", params=STATISTICS)
def planner(request: pytest.FixtureRequest, postgres: PostgresCluster) -> Iterator[Planner]:
    postgres.start()
    planner = Planner(postgres.create_database("messages"), [STILL, *STATISTICS[request.param]])
    yield planner
    planner.close()
    postgres.drop_database("messages")


def rows_read(nodes: list[dict[str, Any]]) -> float:
    scans = [node for node in nodes if node.get("Relation Name") in TABLES]
    return float(
        sum((scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0)) * scan["Actual Loops"] for scan in scans)
    )


def check(planner: Planner, question: tuple[str, str, int], mode: str) -> None:
    statement, arguments, most = question
    nodes = planner.plan(statement, arguments, mode, run=True)
    rows = rows_read(nodes)
    scanned = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan" and node["Actual Loops"]}
    used = {node["Index Name"] for node in nodes if "Index Name" in node}
    assert not scanned & set(TABLES)
    assert rows <= most, f"{rows} rows, by {used}"


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_reads_little_more_than_its_answer(planner: Planner, name: str, mode: str) -> None:
    check(planner, QUESTIONS[name], mode)


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_reads_little_more_than_it_finds(planner: Planner, name: str) -> None:
    check(planner, FILTERS[name], "force_custom_plan")
