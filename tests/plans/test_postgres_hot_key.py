"""Plans in PostgreSQL beside a hot key: what is done to other keys never reads the 50,000 messages behind its head.

Statistics are of a time when there was hardly anything but the hot key, of the empty table, or of everything. The first
say that every key has very many messages, so that any way through the table would soon meet one of the key looked for.
"""

from collections.abc import Iterator

import pytest

from tests.plans.test_postgres_lists import rows_read, whole_tables
from tests.plans.test_postgres_plans import ANALYZE, STILL, Planner
from tests.postgres_cluster import PostgresCluster

EVENTS = """
INSERT INTO eventhub.subscribers (id, name, document, status, created_at, updated_at)
VALUES (7, 'seven', '{}', 'active', now(), now());
INSERT INTO eventhub.routes (queue, tags, priority) VALUES ('hub', '7', 0), ('hub', '7', -1);
INSERT INTO eventhub.events (id, route, type, payload, created_at)
SELECT n, 1, 'order.placed', '{"n":1}', now() FROM generate_series(1, 60000) n;
"""
HOT = """
INSERT INTO eventhub.lanes (id, consumer, key) VALUES (1, 'subscriber:7', 'hot');
INSERT INTO eventhub.deliveries (id, event_id, subscriber, lane, key, route, state, fence, attempts, failures)
SELECT 100000 + n, n, 7, 1, 'hot', 1, CASE n WHEN 1 THEN 4 ELSE 2 END, 1, 1, 0 FROM generate_series(1, 50000) n;
"""
# Three messages of each of 3,000 keys: one is the head, but of the first 1,000 keys it has just left.
OTHERS = """
INSERT INTO eventhub.lanes (id, consumer, key) SELECT n, 'subscriber:7', 'k' || n FROM generate_series(2, 3001) n;
INSERT INTO eventhub.deliveries (id, event_id, subscriber, lane, key, route, state, fence, attempts, failures)
SELECT 200000 + n, 50000 + n, 7, 2 + n % 3000, 'k', 1, CASE WHEN n < 3000 AND n >= 1000 THEN 0 ELSE 2 END, 1, 1, 0
FROM generate_series(0, 8999) n;
"""
STATISTICS = {
    "of the hot key alone": [EVENTS, HOT, ANALYZE, OTHERS],
    "of the empty table": [EVENTS, ANALYZE, HOT, OTHERS],
    "of everything": [EVENTS, HOT, OTHERS, ANALYZE],
}
STATEMENTS = {
    "claim_messages": "ARRAY[1], ARRAY[2], ARRAY[{count}], ARRAY[0], ARRAY[0], 0, 'w', '1 min', 4, NULL, ARRAY[7], 9,0",
    "advance": "{keys}, NULL, NULL",
    "hold_lanes": "{keys}",
    "taken_lanes": "{keys}",
    "drop_lanes": "{keys}",
}
KEYS = 50
MOST_ROWS = 4 * KEYS
"""The key, its head or where that would be, the next of it, and the same once more to change it."""


@pytest.fixture(scope="module", params=STATISTICS)
def planner(request: pytest.FixtureRequest, postgres: PostgresCluster) -> Iterator[Planner]:
    postgres.start()
    planner = Planner(postgres.create_database("hot_key"), [STILL, *STATISTICS[request.param]])
    yield planner
    planner.close()
    postgres.drop_database("hot_key")


@pytest.mark.parametrize("first", [102, 2102], ids=["keys without a head", "keys with a head"])
@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_what_is_done_to_other_keys_reads_no_more_than_them(planner: Planner, name: str, mode: str, first: int) -> None:
    first += 100 * (mode == "force_custom_plan")  # what one plan has done the other does not find done
    keys = f"ARRAY{list(range(first, first + KEYS))}"
    nodes = planner.plan(name, STATEMENTS[name].format(keys=keys, count=KEYS), mode, run=True)
    used = {node["Index Name"] for node in nodes if "Index Name" in node}
    rows = rows_read(nodes)
    assert not whole_tables(nodes)
    assert rows <= MOST_ROWS, f"{rows} rows, by {used}"
