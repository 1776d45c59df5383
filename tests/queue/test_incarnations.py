"""Managers after a database was restored: what was claimed before is known by its results, new events cost no look."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from eventhub.core.lifecycle import Release
from eventhub.queue import EventManager, EventQueue
from eventhub.store import Store, open_store
from eventhub.store.values import Report


def _note(ran: list[str], name: str, event: object) -> None:
    ran.append(name)


async def restored(url: str) -> None:
    store = open_store(url)
    await store.begin_incarnation()
    await store.close()


def recalled(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The events whose results the store is asked for from now on."""
    asked: list[int] = []
    handler_results = store.handler_results

    async def ask(ids: Sequence[int]) -> Any:
        asked.extend(ids)
        return await handler_results(ids)

    monkeypatch.setattr(store, "handler_results", ask)
    return asked


async def test_a_first_claim_asks_for_no_results_in_any_incarnation(store_url, monkeypatch):
    async with open_store(store_url):
        pass
    for _ in range(2):
        await restored(store_url)
        async with open_store(store_url) as store:
            asked, queue, handled = recalled(store, monkeypatch), EventQueue(store), []
            manager = EventManager(queue, batch=10)
            manager.register("h", "a", lambda event: handled.append(event.id), inline=True)  # noqa: B023
            plain = [(await queue.publish("a", number)).id for number in range(20)]
            keyed = [(await queue.publish("a", 1, ordering_key=str(number))).id for number in range(5)]
            await manager.run_until_empty()
            assert sorted(handled) == plain + keyed
            assert asked == []


async def test_what_was_done_before_a_restore_is_not_done_again(store_url, monkeypatch):
    async with open_store(store_url) as store:
        queue = EventQueue(store)
        event = await queue.publish("a", 1)
        (claim,) = await store.claim("default", worker="w", lease=queue.abandoned_after)
        await store.record_results(claim.held, [("done", "success", None)])
        await store.settle([Report(claim.held, Release())])
    await restored(store_url)
    async with open_store(store_url) as store:
        ran: list[str] = []
        asked, queue = recalled(store, monkeypatch), EventQueue(store)
        manager = EventManager(queue)
        for name in ("done", "open"):
            manager.register(name, "a", partial(_note, ran, name), inline=True)
        await manager.run_until_empty()
        assert (ran, asked) == (["open"], [event.id])
