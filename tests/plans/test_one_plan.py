"""Statements on the way of an event are planned a few times, then never again: to plan takes longer than to run one."""

from datetime import timedelta

import pytest

from eventhub.core.lifecycle import Bury, Complete, Outcome, Release, Retry
from eventhub.store.columns import LARGE
from eventhub.store.composing import Composer
from eventhub.store.postgres import PostgresStore
from eventhub.store.postgres.publishing import SQL
from eventhub.store.values import Report

TIMES = 12
FEW = 5
"""So often PostgreSQL plans for the values at hand before it compares with a plan for any."""
LEASE = timedelta(minutes=1)
OUTCOMES: list[Outcome] = [Complete(1), Retry("again", timedelta(0)), Release(), Bury("never")]
HOT = (
    *("insert_plain", "insert_one", "lay_out", "fill_in", "insert_events", "lock_lanes", "taken_lanes", "take_keys"),
    *("claim_route", "claim_route_by_id", "claim_routes", "extend", "hold_lanes", "hold_deliveries"),
    *("complete", "complete_alike", "fail", "release", "bury", "advance", "tend"),
)
SEEN = "SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements"


@pytest.fixture
async def plans(postgres_url: str) -> dict[str, tuple[int, int]]:
    """How often each statement went by the plan for any values, and by one of its own, in a session that did it all."""
    composer = Composer("work")
    plain, tagged = {"type": "a", "payload": 1}, {"type": "a", "payload": 1, "tags": "x"}
    async with PostgresStore(postgres_url, pool_size=1) as store:
        for _ in range(TIMES):
            for outcome in OUTCOMES:
                for event in (plain, {**plain, "ordering_key": "k"}):
                    await store.publish(composer.many([event]))
                    await _take_and_settle(store, outcome)
        for turn in range(TIMES):
            await store.publish(composer.many([tagged, {**plain, "idempotency_key": f"key {turn}"}]))
            await _take_and_settle(store, Complete(1))
            await store.tend()
            await store.publish(composer.many([plain, plain]))
        for _ in range(TIMES):
            store._way = 0.0  # a busy machine makes a server look far
            await store.publish(composer.together([plain] * LARGE))
        rows = await store._fetch(SEEN)
    return {row["statement"]: (row["generic_plans"], row["custom_plans"]) for row in rows}


async def _take_and_settle(store: PostgresStore, outcome: Outcome) -> None:
    (claim,) = await store.claim("work", worker="w", lease=LEASE)
    await store.extend([claim.held], LEASE)
    await store.settle([Report(claim.held, outcome)])


async def test_hot_statements_keep_their_plan(plans: dict[str, tuple[int, int]]) -> None:
    planned = {name: plans[getattr(SQL, name)] for name in HOT}
    assert {name: counts for name, counts in planned.items() if counts[1] > FEW} == {}
    assert all(generic for generic, _ in planned.values()), planned
