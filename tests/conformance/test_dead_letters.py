"""The dead letter queue: complete letters, pages, a fresh start, and the purge."""

import pytest

from eventhub.core.events import Status
from eventhub.core.lifecycle import Reason, State
from eventhub.store import Store
from tests.conformance.support import (
    MICROSECOND,
    MINUTE,
    START,
    actions,
    at,
    bury,
    complete,
    fail,
    ids,
    kill,
    publish_one,
    seconds,
    take,
    take_one,
)


async def test_a_letter_keeps_everything(store: Store) -> None:
    number = await publish_one(
        store,
        type_="invoice.paid",
        payload={"total": "12,50 €"},
        tags=("a", "b"),
        metadata='{"source":"shop"}',
        title="Title",
        description="Description",
        key="customer-1",
        idempotency_key="k",
    )
    await fail(store, await take_one(store), "first")
    await take_one(store, lease=seconds(10), worker="worker-b")
    claim = await take_one(store, at(20), worker="worker-c")
    await bury(store, claim, "third", reason=Reason.EXHAUSTED, now=at(30))
    letter = await store.dead_event(number)
    assert letter is not None
    assert (await store.dead()).events == [letter]
    assert (letter.id, letter.type, letter.payload) == (number, "invoice.paid", {"total": "12,50 €"})
    assert (letter.tags, letter.metadata) == (("a", "b"), {"source": "shop"})
    assert (letter.title, letter.description) == ("Title", "Description")
    assert (letter.ordering_key, letter.idempotency_key) == ("customer-1", "k")
    assert (letter.created_at, letter.dead_at) == (START, at(30))
    assert letter.errors == ["first", "Abandoned: worker-b did not report before its lease ended.", "third"]
    assert (letter.status, letter.attempts, letter.retry_count) == (Status.FAILED, 3, 3)
    assert (letter.reason, letter.queue, letter.worker) == ("retries_exhausted", "work", "worker-c")
    assert (letter.retried_at, letter.retried_by) == (None, None)


async def test_an_event_that_never_died_has_no_letter(store: Store) -> None:
    number = await publish_one(store)
    assert await store.dead_event(number) is None
    assert await store.dead_event(999_999) is None
    page = await store.dead()
    assert (page.events, page.total) == ([], 0)


async def test_pages_show_the_newest_event_first_and_the_total(store: Store) -> None:
    numbers = [await kill(store, payload=n) for n in range(7)]
    page = await store.dead(limit=3)
    assert [letter.id for letter in page.events] == numbers[:-4:-1]
    assert page.total == 7
    rest = await store.dead(offset=3, limit=100)
    assert [letter.id for letter in rest.events] == numbers[3::-1]
    assert (await store.dead(offset=7)).events == []
    assert (await store.dead(offset=7)).total == 7


async def test_pages_follow_the_event_and_not_the_hour_of_death(store: Store) -> None:
    first = await publish_one(store)
    second = await kill(store)
    await bury(store, await take_one(store, at(5)), now=at(10))
    assert [letter.id for letter in (await store.dead()).events] == [second, first]


async def test_pages_never_overlap_however_many_letters_come_in_between(store: Store) -> None:
    old = [await kill(store) for _ in range(6)]
    seen = [letter.id for letter in (await store.dead(limit=2)).events]
    new_ones = [await kill(store) for _ in range(2)]
    # Newer events stand before what was seen, so the reader goes on past them.
    page = await store.dead(offset=2 + len(new_ones), limit=2)
    seen += [letter.id for letter in page.events]
    assert seen == [old[5], old[4], old[3], old[2]]


async def test_pages_can_be_of_one_queue(store: Store) -> None:
    here = await kill(store)
    there = await kill(store, queue="other")
    page = await store.dead(queue="other")
    assert ([letter.id for letter in page.events], page.total) == ([there], 1)
    assert [letter.id for letter in (await store.dead(queue="work")).events] == [here]
    assert (await store.dead()).total == 2
    assert (await store.dead(queue="none")).total == 0


async def test_a_retried_event_starts_afresh(store: Store) -> None:
    number = await publish_one(store, max_attempts=2)
    await fail(store, await take_one(store), "one")
    await bury(store, await take_one(store), "two")
    assert await store.retry_dead([number], by="anna", now=at(10)) == {number}
    current = (await store.current([number]))[number]
    assert (current.state, current.attempts, current.fence) == (State.READY, 0, 2)
    assert (current.due, current.worker, current.max_attempts) == (None, None, 2)
    event = await store.event(number)
    assert event is not None
    assert (event.status, event.attempts, event.retry_count, event.errors) == (Status.PENDING, 0, 0, ())
    claim = await take_one(store, at(10))
    assert (claim.held.fence, claim.event.attempts, claim.event.retry_count) == (3, 1, 0)


async def test_a_retried_letter_is_history_with_who_and_when(store: Store) -> None:
    number = await kill(store)
    await store.retry_dead([number], by="anna", now=at(10))
    page = await store.dead()
    assert (page.events, page.total) == ([], 0)
    letter = await store.dead_event(number)
    assert letter is not None
    assert (letter.retried_at, letter.retried_by) == (at(10), "anna")
    entry = (await store.log(number))[-1]
    assert (entry.action, entry.worker, entry.created_at) == ("RETRIED", "anna", at(10))


async def test_retrying_twice_does_nothing_the_second_time(store: Store) -> None:
    number = await kill(store)
    assert await store.retry_dead([number], by="anna", now=at(1)) == {number}
    log = await store.log(number)
    assert await store.retry_dead([number], by="bert", now=at(2)) == set()
    assert await store.log(number) == log
    letter = await store.dead_event(number)
    assert letter is not None
    assert letter.retried_by == "anna"


async def test_only_the_dead_are_retried(store: Store) -> None:
    dead = await kill(store)
    alive = await publish_one(store)
    done = await publish_one(store, completed=True)
    assert await store.retry_dead([alive, dead, done, 999_999], by="anna", now=START) == {dead}
    assert await store.retry_dead([], by="anna") == set()


async def test_an_event_that_dies_again_has_a_new_letter(store: Store) -> None:
    number = await kill(store)
    await store.retry_dead([number], by="anna", now=at(10))
    await bury(store, await take_one(store, at(11)), "again", now=at(12))
    page = await store.dead()
    (letter,) = page.events
    assert page.total == 1
    assert (letter.errors, letter.dead_at, letter.retried_at) == (["again"], at(12), None)
    assert (letter.attempts, letter.retry_count) == (1, 1)
    assert await store.retry_dead([number], by="bert", now=at(13)) == {number}
    assert await actions(store, number) == [
        "PUBLISHED",
        *["PICKED", "FAILED", "DEAD", "RETRIED"] * 2,
    ]


async def test_a_retried_event_goes_back_to_its_place(store: Store) -> None:
    old = await kill(store)
    young = await publish_one(store)
    await store.retry_dead([old], by="anna", now=START)
    assert ids(await take(store, 10)) == [old, young]


async def test_a_retried_event_completes_like_any_other(store: Store) -> None:
    number = await kill(store)
    await store.retry_dead([number], by="anna", now=START)
    await complete(store, await take_one(store))
    event = await store.event(number)
    assert event is not None
    assert (event.status, event.attempts, event.retry_count) == (Status.COMPLETED, 1, 0)


async def test_many_are_retried_in_one_call(store: Store) -> None:
    numbers = [await kill(store, key=f"k{n % 3}") for n in range(9)]
    assert await store.retry_dead(numbers[::-1], by="anna", now=START) == set(numbers)
    assert ids(await take(store, 20)) == numbers[:3]


@pytest.mark.parametrize("by", ["dead_at", "created_at"])
async def test_the_purge_takes_what_is_of_that_age_and_spares_what_is_younger(store: Store, by: str) -> None:
    older = await kill(store, now=at(0))
    exactly = await kill(store, now=at(10))
    younger = await kill(store, now=at(10) + MICROSECOND)
    assert await store.purge_dead(older_than=seconds(90), by=by, now=at(100)) == 2
    assert [letter.id for letter in (await store.dead()).events] == [younger]
    assert await store.event(older) is None
    assert await store.event(exactly) is None
    assert await store.dead_event(exactly) is None
    assert await store.purge_dead(older_than=seconds(90), by=by, now=at(100)) == 0


async def test_the_purge_knows_age_by_death_from_age_by_publishing(store: Store) -> None:
    number = await publish_one(store, now=at(0))
    await bury(store, await take_one(store, at(1)), now=at(50))
    assert await store.purge_dead(older_than=seconds(60), by="dead_at", now=at(100)) == 0
    assert await store.purge_dead(older_than=seconds(60), by="created_at", now=at(100)) == 1
    assert await store.event(number) is None


async def test_the_purge_can_be_of_one_queue(store: Store) -> None:
    here = await kill(store)
    await kill(store, queue="other")
    assert await store.purge_dead(older_than=MINUTE, queue="other", now=at(100)) == 1
    assert [letter.id for letter in (await store.dead()).events] == [here]


async def test_the_purge_spares_all_that_is_not_dead(store: Store) -> None:
    waiting = await publish_one(store, delay=MINUTE)
    retried = await kill(store)
    await store.retry_dead([retried], by="anna", now=at(1))
    assert await store.purge_dead(older_than=seconds(0), now=at(1000)) == 0
    for number in (waiting, retried):
        event = await store.event(number)
        assert event is not None
        assert event.status is Status.PENDING
    assert await store.dead_event(retried) is None, "the closed letter is old enough to go"


async def test_the_purge_spares_a_younger_letter_of_the_same_event(store: Store) -> None:
    number = await kill(store, now=at(0))
    await store.retry_dead([number], by="anna", now=at(50))
    await bury(store, await take_one(store, at(51)), "again", now=at(60))
    assert await store.purge_dead(older_than=seconds(60), now=at(100)) == 0
    (letter,) = (await store.dead()).events
    assert letter.dead_at == at(60)
    assert await store.event(number) is not None


async def test_a_purged_event_is_gone_for_retry_and_finalize(store: Store) -> None:
    number = await kill(store)
    await store.purge_dead(older_than=seconds(0), now=at(1))
    assert await store.retry_dead([number], by="anna", now=at(2)) == set()
    assert await take(store, 10, now=at(3)) == []
    (stats,) = await store.stats("work")
    assert sum(stats.depth.values()) == 0


@pytest.mark.parametrize("reason", list(Reason))
async def test_every_reason_is_kept(store: Store, reason: Reason) -> None:
    number = await publish_one(store)
    await bury(store, await take_one(store), reason=reason)
    letter = await store.dead_event(number)
    assert letter is not None
    assert letter.reason == reason


async def test_a_dead_event_is_new_to_nobody(store: Store) -> None:
    number = await publish_one(store)
    await bury(store, await take_one(store), None)
    assert await store.ready("work") == []
    assert await take(store, 10, now=at(10_000)) == []
    assert number in [letter.id for letter in (await store.dead()).events]
