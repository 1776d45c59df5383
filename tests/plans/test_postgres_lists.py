"""Lists in PostgreSQL at 50,000 events: a page reads little more than itself, whatever the filter and the statistics.

What a statement read is counted while it runs: the rows that its scans gave or threw away, and the blocks of the index
that lists have for themselves.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.plans.test_postgres_plans import Planner
from tests.postgres_cluster import PostgresCluster

# Four routes share the events, a fifth has five of them, as has a rare type. The older 20,000 are open, 3,000 are dead.
# Older still are those of a route with many types.
FILL = """
INSERT INTO eventhub.routes (queue, tags, priority) SELECT 'work', 't' || n, 0 FROM generate_series(1, 5) n;
INSERT INTO eventhub.routes (id, queue, tags, priority) OVERRIDING SYSTEM VALUE VALUES (77, 'many', '', 0);
INSERT INTO eventhub.events (id, route, type, payload, created_at)
SELECT n, CASE WHEN n % 10000 = 77 THEN 5 ELSE 1 + n % 4 END,
       CASE WHEN n % 10000 = 78 OR n = 10077 THEN 'order.lost' ELSE 'order.placed' END, '{"n":1}', now()
FROM generate_series(1, 50000) n;
INSERT INTO eventhub.events (id, route, type, payload, created_at)
SELECT -30000 - n, 77, 'kind.' || n % 500, '1', now() FROM generate_series(1, 10000) n;
INSERT INTO eventhub.deliveries (id, event_id, lane, route, state, due, fence, attempts, failures, worker)
SELECT id, id, CASE WHEN id % 400 IN (1, 2) THEN 1 + id / 400 END, route,
       CASE id % 400 WHEN 2 THEN 2 WHEN 3 THEN 3 WHEN 4 THEN 1 ELSE 0 END,
       CASE WHEN id % 400 IN (3, 4) THEN now() + id * interval '1 second' END, 1, 1, 0, 'w'
FROM eventhub.events WHERE id BETWEEN 1 AND 20000;
INSERT INTO eventhub.dead_letters (delivery_id, event_id, route, fence, attempts, failures, parks, reason, status,
                                   dead_at, type, payload, created_at)
SELECT id, id, route, 1, 1, 1, false, 'r', CASE id % 2 WHEN 0 THEN 'FAILED' ELSE 'COMPLETED_WITH_ERRORS' END, now(),
       type, payload, created_at
FROM eventhub.events WHERE id BETWEEN 20001 AND 23000;
"""
STILL = "".join(
    f"ALTER TABLE eventhub.{table} SET (autovacuum_enabled = false);"
    for table in ("deliveries", "events", "dead_letters")
)
ANALYZE = "ANALYZE eventhub.deliveries, eventhub.events, eventhub.dead_letters, eventhub.routes"
ONE_ROUTE = """
INSERT INTO eventhub.events (id, route, type, payload, created_at)
SELECT -n, 1, 'order.placed', '1', now() FROM generate_series(1, 20000) n
"""
DRAIN = "DELETE FROM eventhub.deliveries WHERE id % 1000 <> 0"
STATISTICS = {
    "of the full tables": [FILL, ANALYZE],
    "of the empty tables": [ANALYZE, FILL],
    "of a time with one route and one type": [ONE_ROUTE, ANALYZE, FILL],
    "of the tables before they were drained": [FILL, ANALYZE, DRAIN],
}
PAGES = {"the first page": "9000000000, 10, 0", "a page by cursor": "45000, 10, 0", "an offset": "45000, 10, 5"}
OLD_PAGES = {"the first page": "9000000000, 10, 0", "a page by cursor": "15000, 10, 0", "an offset": "15000, 10, 5"}
ROUTES = {"all routes": "ARRAY[1, 2, 3, 4, 5]", "a rare route": "ARRAY[5]", "a route without events": "ARRAY[6]"}
TYPES = {"the common type": "'order.placed'", "a rare type": "'order.lost'", "an unknown type": "'no.such'"}
FLOOR = "-9000000000"

LISTS: dict[str, tuple[str, str, str | None]] = {
    # what is asked for: (statement, arguments, the index by which the page is found)
    **{
        f"{kind} on {where}": ("events_recent", f"{page}, {completed}", "events_pkey")
        for kind, completed in {"all": "false", "completed": "true"}.items()
        for where, page in PAGES.items()
    },
    **{
        f"{kind} of {whose} on {where}": (
            "events_of_kinds",
            f"{page}, {completed}, {routes}, NULL, {FLOOR}",
            "events_kind",
        )
        for kind, completed in {"all": "false", "completed": "true"}.items()
        for whose, routes in ROUTES.items()
        for where, page in PAGES.items()
    },
    **{
        f"{kind} of {what} and {whose} on {where}": (
            "events_of_kinds",
            f"{page}, {completed}, {routes}, {type_}, {FLOOR}",
            "events_kind",
        )
        for kind, completed in {"all": "false", "completed": "true"}.items()
        for what, type_ in TYPES.items()
        for whose, routes in ROUTES.items()
        for where, page in PAGES.items()
    },
    **{f"pending on {where}": ("events_pending", page, "deliveries_pkey") for where, page in OLD_PAGES.items()},
    **{
        f"pending of {whose} on {where}": ("events_pending_routed", f"{page}, {routes}", "deliveries_ready")
        for whose, routes in ROUTES.items()
        for where, page in OLD_PAGES.items()
    },
    **{
        f"pending of {what} and {whose} on {where}": (
            "events_pending_typed",
            f"{page}, {routes}, {type_}",
            "events_kind",
        )
        for what, type_ in TYPES.items()
        for whose, routes in ROUTES.items()
        for where, page in OLD_PAGES.items()
    },
    **{f"leased on {where}": ("events_leased", f"{page}, NULL, NULL", None) for where, page in OLD_PAGES.items()},
    "leased of a rare route and type": ("events_leased", "15000, 10, 0, ARRAY[5], 'order.lost'", "deliveries_leased"),
    **{
        f"dead on {where}": ("events_dead", f"{page}, NULL, NULL, 'FAILED'", None)
        for where, page in {"the first page": "9000000000, 10, 0", "an offset": "22000, 10, 5"}.items()
    },
    "dead of common routes and type": (
        "events_dead",
        "22000, 10, 5, ARRAY[1, 2], 'order.placed', 'FAILED'",
        None,
    ),
}
QUESTIONS = {
    # statement: (arguments, the index it must use, how many rows it may read)
    "ready_routes": ("ARRAY[1, 2, 3, 4, 5], 3", "deliveries_ready", 20),
    "ready_types": ("ARRAY[1, 2, 3, 4, 5]", "deliveries_leased", 80),
    "open_count": ("1000", "deliveries_pkey", 1000),
    "orphans": ("'work', interval '1 hour', 10, NULL", "deliveries_leased", 150),
    "count_orphans": ("'work', interval '1 hour', 10, NULL", "deliveries_leased", 150),
    "workers": ("ARRAY['work'], NULL, NULL", "deliveries_leased", 50),
    "count_workers": ("ARRAY['work']", "deliveries_leased", 50),
    "start": ("ARRAY[4, 404, 777], ARRAY[1, 1, 1], interval '1 minute', NULL", "deliveries_pkey", 10),
}
WAITING = 100
"""How many wait or stand behind: a list of what is pending looks through them."""
MOST_ROWS = 5 * 15 + 3 * 15 + WAITING * 2 + 5
"""The first fifteen of each of five routes, three look-ups for each event of the page, and those who wait."""
MOST_BLOCKS = 2 * 5 * 15 * 3
"""A way down the index for each of the first fifteen of five routes, where two indexes are walked in turn: once with
what is ready, and once with what is held back."""


@pytest.fixture(scope="module", params=STATISTICS)
def planner(request: pytest.FixtureRequest, postgres: PostgresCluster) -> Iterator[Planner]:
    postgres.start()
    planner = Planner(postgres.create_database("lists"), [STILL, *STATISTICS[request.param]])
    yield planner
    planner.close()
    postgres.drop_database("lists")


def rows_read(nodes: list[dict[str, Any]]) -> float:
    scans = [node for node in nodes if node.get("Relation Name") in ("events", "deliveries", "dead_letters")]
    read = [(scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0)) * scan["Actual Loops"] for scan in scans]
    return float(sum(read))


def blocks_read(nodes: list[dict[str, Any]]) -> int:
    scans = [node for node in nodes if node.get("Index Name") == "events_kind"]
    inside = [part for scan in scans for part in scan.get("Plans", [])]
    return sum(blocks(scan) for scan in scans) - sum(blocks(part) for part in inside)


def blocks(node: dict[str, Any]) -> int:
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


def whole_tables(nodes: list[dict[str, Any]]) -> set[str]:
    scanned = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}
    return scanned & {"events", "deliveries", "dead_letters"}


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("name", LISTS)
def test_a_page_reads_little_more_than_itself(planner: Planner, name: str, mode: str) -> None:
    statement, arguments, index = LISTS[name]
    nodes = planner.plan(statement, arguments, mode, run=True)
    used = {node["Index Name"] for node in nodes if "Index Name" in node}
    rows, touched = rows_read(nodes), blocks_read(nodes)
    assert not whole_tables(nodes)
    assert index is None or index in used, used
    assert rows <= MOST_ROWS, f"{rows} rows, by {used}"
    assert touched <= MOST_BLOCKS, f"{touched} blocks, by {used}"


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("completed", ["false", "true"])
def test_of_many_types_each_is_looked_at_once_and_none_below_the_floor(
    planner: Planner, completed: str, mode: str
) -> None:
    newest, floor = -30_000, -30_000 - 100
    nodes = planner.plan("events_of_kinds", f"{newest}, 10, 0, {completed}, ARRAY[77], NULL, {floor}", mode, run=True)
    assert not whole_tables(nodes)
    assert "events_kind" in {node["Index Name"] for node in nodes if "Index Name" in node}
    assert 500 + 100 <= rows_read(nodes) <= 500 + 100 + 3 * 10 + 5


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("statement", QUESTIONS)
def test_a_question_goes_by_its_index(planner: Planner, statement: str, mode: str) -> None:
    arguments, index, most = QUESTIONS[statement]
    nodes = planner.plan(statement, arguments, mode, run=True)
    used = {node["Index Name"] for node in nodes if "Index Name" in node}
    rows = rows_read(nodes)
    assert not whole_tables(nodes)
    assert index in used
    assert rows <= most, f"{rows} rows, by {used}"
