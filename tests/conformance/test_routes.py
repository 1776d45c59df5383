"""Many sets of tags: who asks for one of them does not pay for the others."""

from typing import Any

import pytest

from eventhub.store import Store
from eventhub.store.routes import KnownRoutes
from tests.conformance.conftest import OpenAnother
from tests.conformance.support import MINUTE, QUEUE, ids, new, publish, publish_one

OTHERS = 20_000


class Rows:
    """Counts the routes that the store reads or looks at from now on."""

    def __init__(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.learnt = self.looked_at = 0
        learn, find = KnownRoutes.learn, KnownRoutes.find

        def counted_learn(known: KnownRoutes, rows: Any) -> None:
            rows = list(rows)
            self.learnt += len(rows)
            learn(known, rows)

        def counted_find(known: KnownRoutes, queue: str, tags: Any, types: Any = None) -> Any:
            found = find(known, queue, tags, types)
            self.looked_at += len(found)
            return found

        monkeypatch.setattr(KnownRoutes, "learn", counted_learn)
        monkeypatch.setattr(KnownRoutes, "find", counted_find)


async def add_routes(store: Any, count: int) -> None:
    """Routes of other tags, as if so many sets had been published."""
    if store.engine == "postgres":
        sql = "INSERT INTO eventhub.routes (queue, tags, priority) SELECT $1, unnest($2::text[]), 0"
        await store._fetch(sql, QUEUE, [f"other-{n}" for n in range(count)])
    else:
        rows = [(QUEUE, f"other-{n}") for n in range(count)]
        sql = "INSERT INTO eventhub_routes (queue, tags, priority) VALUES (?, ?, 0)"
        await store._writer.run(lambda connection: list(connection.executemany(sql, rows)))


async def test_neither_a_look_nor_a_claim_goes_through_the_routes_of_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_routes(store, OTHERS)
    numbers = await publish(store, *(new(tags=("mine", str(n))) for n in range(3)), now=None)
    await store.ready_routes(QUEUE, tags=["mine"])
    rows = Rows(store, monkeypatch)
    for number in numbers:
        assert len(await store.ready_routes(QUEUE, tags=["mine", "nobody's"])) == 3 - numbers.index(number)
        claims = await store.claim(QUEUE, worker="w", lease=MINUTE, tags=["mine"])
        assert ids(claims) == [number]
    assert await store.claim(QUEUE, worker="w", lease=MINUTE, tags=["mine"]) == []
    assert rows.learnt == 0, "what is known is not read again"
    assert rows.looked_at <= 10 * 3, "only those that fit are looked at"


async def test_only_sets_with_a_tag_that_is_asked_for_are_ready(store: Store) -> None:
    await publish(store, new(tags=("a", "b")), new(tags=("b",)), new(tags=("c",), priority=1), new())
    assert await store.ready_routes(QUEUE, tags=["a"]) == [("a", "b")]
    assert await store.ready_routes(QUEUE, tags=["b", "c"]) == [("c",), ("a", "b"), ("b",)]
    assert await store.ready_routes(QUEUE, tags=["d"]) == []
    assert await store.ready_routes("elsewhere", tags=["a"]) == []


async def test_routes_of_other_processes_are_learnt(store: Store, open_another: OpenAnother) -> None:
    another = await open_another()
    for turn in range(3):
        assert await store.ready_routes(QUEUE, tags=["late"]) == []
        number = await publish_one(another, now=None, tags=("late", str(turn)))
        assert await store.ready_routes(QUEUE, tags=["late"]) == [("late", str(turn))]
        assert ids(await store.claim(QUEUE, worker="w", lease=MINUTE, tags=[str(turn)])) == [number]
