"""What handlers leave behind while their event is open: results under the claim's fence, and guards for steps."""

import asyncio

from eventhub.store import Store
from tests.conformance.conftest import OpenAnother
from tests.conformance.support import (
    START,
    at,
    at_fence,
    bury,
    complete,
    fail,
    new,
    publish,
    publish_one,
    release,
    take,
    take_one,
)

GOOD = ("mail", "success", None)
BAD = ("invoice", "transient", "smtp: try later € 😀")


async def test_results_are_remembered_by_handler(store: Store) -> None:
    number = await publish_one(store)
    claim = await take_one(store)
    assert await store.record_results(claim.held, [GOOD, BAD], now=START)
    assert await store.handler_results([number]) == {
        number: {"mail": ("success", None), "invoice": ("transient", "smtp: try later € 😀")}
    }


async def test_a_later_result_replaces_the_earlier(store: Store) -> None:
    number = await publish_one(store)
    claim = await take_one(store)
    await store.record_results(claim.held, [GOOD, BAD], now=START)
    await store.record_results(claim.held, [("invoice", "success", None)], now=at(1))
    results = await store.handler_results([number])
    assert results[number] == {"mail": ("success", None), "invoice": ("success", None)}


async def test_results_survive_a_retry_a_release_and_an_abandonment(store: Store) -> None:
    number = await publish_one(store)
    claim = await take_one(store)
    await store.record_results(claim.held, [GOOD], now=START)
    await fail(store, claim)
    await release(store, await take_one(store))
    await take_one(store)
    await store.tend(now=at(61))
    assert await store.handler_results([number]) == {number: {"mail": ("success", None)}}


async def test_a_lost_claim_leaves_no_result(store: Store) -> None:
    number = await publish_one(store)
    zombie = await take_one(store)
    successor = await take_one(store, at(61))
    assert not await store.record_results(zombie.held, [GOOD], now=at(62))
    assert not await store.record_results(at_fence(successor, 9), [GOOD], now=at(62))
    assert await store.handler_results([number]) == {}
    assert await store.record_results(successor.held, [BAD], now=at(62))


async def test_results_go_when_their_event_is_settled_or_starts_afresh(store: Store) -> None:
    done, dead = await publish(store, new(), new())
    first, second = await take(store, 2)
    for claim in (first, second):
        await store.record_results(claim.held, [GOOD], now=START)
    await complete(store, first)
    await bury(store, second)
    assert await store.handler_results([done, dead]) == {}
    await store.retry_dead([dead], by="anna", now=at(1))
    assert await store.handler_results([dead]) == {}


async def test_results_of_many_events_come_in_one_call(store: Store) -> None:
    numbers = await publish(store, new(), new(), new())
    for claim in await take(store, 2):
        await store.record_results(claim.held, [GOOD], now=START)
    assert set(await store.handler_results(numbers)) == set(numbers[:2])
    assert await store.handler_results([]) == {}


async def test_a_guard_closes_once(store: Store) -> None:
    number = await publish_one(store)
    assert not await store.is_guarded(number, "charge")
    assert await store.guard(number, "charge")
    assert await store.is_guarded(number, "charge")
    assert not await store.guard(number, "charge")


async def test_guards_are_by_event_and_step(store: Store) -> None:
    one, two = await publish(store, new(), new())
    assert await store.guard(one, "charge")
    assert await store.guard(one, "mail")
    assert await store.guard(two, "charge")
    assert not await store.is_guarded(two, "mail")


async def test_a_guard_outlives_its_event(store: Store) -> None:
    number = await publish_one(store)
    await store.guard(number, "charge")
    await complete(store, await take_one(store))
    assert await store.is_guarded(number, "charge")


async def test_of_racing_guards_exactly_one_closes(store: Store, open_another: OpenAnother) -> None:
    stores = [store, await open_another(), await open_another()]
    number = await publish_one(store)
    answers = await asyncio.gather(*(each.guard(number, "charge") for each in stores for _ in range(10)))
    assert answers.count(True) == 1
