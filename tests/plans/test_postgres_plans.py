"""Plans in PostgreSQL at 50,000 deliveries: every statement on the way of an event goes by its index.

Prepared statements get generic plans sooner or later, and statistics are old whenever it matters. So each statement is
planned for given values and for any values, with statistics of the full table, of the empty table before it was filled,
and of the full table after it was drained.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from eventhub.store import open_store
from eventhub.store.postgres.publishing import SQL
from tests.postgres_cluster import PostgresCluster

FILL = """
INSERT INTO eventhub.routes (queue, tags, priority) SELECT 'work', 't' || n, 0 FROM generate_series(1, 4) n;
INSERT INTO eventhub.lanes (id, consumer, key) SELECT n, 'work', 'k' || n FROM generate_series(1, 5000) n;
INSERT INTO eventhub.events (id, route, type, payload, created_at)
SELECT n, 1 + n % 4, 'order.placed', '{"n":1}', now() FROM generate_series(1, 50000) n;
INSERT INTO eventhub.deliveries (id, event_id, lane, route, state, due, fence, attempts, failures, worker)
SELECT n, n, CASE WHEN n <= 5000 THEN n WHEN n <= 15000 THEN 1 + n % 5000 END, 1 + n % 4,
       CASE WHEN n <= 5000 THEN 0 WHEN n <= 15000 THEN 2 WHEN n <= 20000 THEN 1 WHEN n <= 25000 THEN 3 ELSE 0 END,
       CASE WHEN n > 15000 AND n <= 25000 THEN now() + n * interval '1 second' END, 1, 1, 0, 'w'
FROM generate_series(1, 50000) n;
"""
STILL = """
ALTER TABLE eventhub.deliveries SET (autovacuum_enabled = false);
ALTER TABLE eventhub.events SET (autovacuum_enabled = false);
ALTER TABLE eventhub.lanes SET (autovacuum_enabled = false);
"""
ANALYZE = "ANALYZE eventhub.deliveries, eventhub.events, eventhub.lanes, eventhub.routes"
EMPTY = "TRUNCATE eventhub.routes, eventhub.lanes, eventhub.events, eventhub.deliveries RESTART IDENTITY"
DRAIN = "DELETE FROM eventhub.deliveries WHERE id % 1000 <> 0"

STATISTICS = {
    "of the full table": [FILL, ANALYZE],
    "of the empty table": [ANALYZE, FILL],
    "of the table before it was drained": [FILL, ANALYZE, DRAIN],
    "of the table before it was drained and filled again": [FILL, ANALYZE, EMPTY, FILL],
}

IDS = "ARRAY[777, 12000, 30000]"
FENCES = "ARRAY[1, 1, 1]"
TRUE = "ARRAY[true, true, true]"
TEXTS = "ARRAY['x', 'x', 'x']"
STATEMENTS = {
    # statement: (arguments, the indexes it must use)
    "claim_route": ("1, 10, ARRAY['v', 'w'], interval '1 minute', 0, NULL, NULL, 'k', 0", {"deliveries_ready"}),
    "claim_route_by_id": (
        "1, 10, ARRAY['v', 'w'], interval '1 minute', 30001, NULL, NULL, 'k', 0, ARRAY[12, 24, 30000]",
        {"deliveries_pkey", "deliveries_ready", "events_pkey"},
    ),
    "claim_routes": (
        "ARRAY[1, 2, 3, 4], 10, ARRAY['v', 'w'], interval '1 minute', NULL, NULL, 'k', 0, ARRAY[0, 7, 0, 9], 5",
        {"deliveries_ready", "events_pkey"},
    ),
    "claim_messages": (
        "ARRAY[1,2], ARRAY[3,4], ARRAY[9,9],ARRAY[0,5],ARRAY[0,5], 0.5,'w',interval '1 min',4, NULL, ARRAY[1,2], 10,0",
        {"deliveries_ready", "events_pkey"},
    ),
    "markers": ("10, true, 0", {"fanout_pkey", "events_pkey"}),
    "claim_ids": (f"{IDS}, 'w', interval '1 minute', NULL, 0", {"deliveries_pkey"}),
    "ready": ("'work', 0, 10", {"deliveries_ready", "events_pkey"}),
    "extend": (f"{IDS}, {FENCES}, interval '1 minute', NULL", {"deliveries_pkey"}),
    "standing": (IDS, {"deliveries_pkey"}),
    "hold_deliveries": (IDS, {"deliveries_pkey"}),
    "hold_lanes": ("ARRAY[1, 2, 3]", {"lanes_pkey"}),
    "taken_lanes": ("ARRAY[1, 2, 3]", {"deliveries_head"}),
    "complete": ("'{777,12000,30000}', '{1,1,1}', NULL, NULL, NULL, NULL, NULL, NULL", {"deliveries_pkey"}),
    "complete_alike": ("'{777,12000,30000}', 1, NULL, 0, NULL", {"deliveries_pkey"}),
    "fail": (
        f"{IDS}, {FENCES}, {TEXTS}, ARRAY[interval '1 s', '1 s', '1 s'], NULL, NULL, NULL, NULL, NULL",
        {"deliveries_pkey"},
    ),
    "release": (f"{IDS}, {FENCES}, ARRAY[interval '1 s', '1 s', '1 s'], NULL", {"deliveries_pkey"}),
    "bury": (
        f"{IDS}, {FENCES}, {TRUE}, NULL, NULL, {TEXTS}, {TEXTS}, NULL, NULL, NULL, 'FAILED', NULL, NULL",
        {"deliveries_pkey", "events_pkey", "subscribers_pkey"},
    ),
    "advance": (
        "ARRAY[1, 2, 3], ARRAY[7, NULL, 9], NULL",
        {"deliveries_behind", "deliveries_head", "deliveries_pkey", "lanes_pkey"},
    ),
    "drop_lanes": ("ARRAY[1, 2, 3]", {"lanes_pkey", "deliveries_head"}),
    "tend": ("NULL, 1000", {"deliveries_waiting", "deliveries_leased"}),
    "take_back": (f"{IDS}, {FENCES}, NULL", {"deliveries_pkey"}),
    "next_due": ("NULL", {"deliveries_waiting", "deliveries_leased"}),
    "reset": ("777, 'why', NULL", {"deliveries_pkey"}),
    "record_results": ("777, 1, ARRAY['h'], ARRAY['success'], ARRAY['m'], NULL", {"deliveries_pkey"}),
}


class Planner:
    """One connection on a loop of its own, for a whole round of tests."""

    def __init__(self, url: str, steps: list[str]) -> None:
        self.loop = asyncio.new_event_loop()
        self.connection: Any = self.loop.run_until_complete(self._prepare(url, steps))

    async def _prepare(self, url: str, steps: list[str]) -> Any:
        async with open_store(url):
            pass
        connection = await asyncpg.connect(url)
        for step in [STILL, *steps]:
            await connection.execute(step)
        return connection

    def plan(self, name: str, arguments: str, mode: str, *, run: bool = False) -> list[dict[str, Any]]:
        """The nodes of the statement's plan; when it is run, with the rows that each of them gave."""
        return self.loop.run_until_complete(self._plan(name, arguments, mode, "ANALYZE, BUFFERS, " if run else ""))

    async def _plan(self, name: str, arguments: str, mode: str, run: str) -> list[dict[str, Any]]:
        async with self.connection.transaction():
            await self.connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
            await self.connection.execute(f"PREPARE statement AS {getattr(SQL, name)}")
            found = await self.connection.fetchval(f"EXPLAIN ({run}FORMAT JSON) EXECUTE statement ({arguments})")
            await self.connection.execute("DEALLOCATE statement")
        return _nodes(json.loads(found)[0]["Plan"])

    def close(self) -> None:
        self.loop.run_until_complete(self.connection.close())
        self.loop.close()


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for part in plan.get("Plans", []) for node in _nodes(part))]


@pytest.fixture(scope="module", params=STATISTICS)
def planner(request: pytest.FixtureRequest, postgres: PostgresCluster) -> Iterator[Planner]:
    postgres.start()
    url = postgres.create_database("plans")
    planner = Planner(url, STATISTICS[request.param])
    yield planner
    planner.close()
    postgres.drop_database("plans")


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_goes_by_its_index(planner: Planner, name: str, mode: str) -> None:
    arguments, wanted = STATEMENTS[name]
    nodes = planner.plan(name, arguments, mode)
    scanned = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}
    used = {node["Index Name"] for node in nodes if "Index Name" in node}
    assert not scanned & {"deliveries", "events", "lanes"}, f"scans {scanned}, goes by {used}"
    assert wanted <= used


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("name", ["claim_route", "claim_route_by_id", "claim_routes", "ready"])
def test_a_claim_does_not_sort_the_backlog(planner: Planner, name: str, mode: str) -> None:
    nodes = planner.plan(name, STATEMENTS[name][0], mode)
    for node in nodes:
        if node["Node Type"] == "Sort":
            below = {each.get("Index Name") for each in _nodes(node)}
            limited = any(each["Node Type"] == "Limit" for each in _nodes(node))
            assert limited or "deliveries_ready" not in below


@pytest.mark.parametrize("after", [0, 40_000])
@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
def test_what_is_ready_is_read_only_as_far_as_asked_for(planner: Planner, mode: str, after: int) -> None:
    nodes = planner.plan("ready", f"'work', {after}, 10", mode, run=True)
    read = sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in nodes
        if node.get("Relation Name") in ("deliveries", "events")
    )
    assert 0 < read <= 4 * 10 + 10, "the first ten of each of four routes, and the events of ten"
