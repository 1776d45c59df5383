"""What those ask who watch: counts of what is open, actions by step, news of the log, and what needs an operator."""

from datetime import timedelta

import asyncpg

from eventhub.core.events import Action
from eventhub.store import Store, open_store
from eventhub.store.values import Sighting
from tests.conformance.hub_support import subscriber
from tests.conformance.message_support import kill, send
from tests.conformance.message_support import take as take_messages
from tests.conformance.support import START, at, complete, fail, new, publish, publish_one, seconds, take, take_one

TEN = timedelta(seconds=10)

# ----------------------------------------------------------------------- open


async def test_an_empty_store_has_nothing_open(store: Store) -> None:
    found = await store.open_counts(now=START)
    assert (found.ready, found.waiting, found.behind, found.leased) == ({}, {}, {}, {})
    assert found.messages == {"ready": 0, "waiting": 0, "behind": 0, "leased": 0}
    assert (found.more, found.oldest_work_seconds, found.oldest_message_seconds) == (False, {}, None)


async def test_work_is_counted_by_queue_and_state(store: Store) -> None:
    await publish(store, *[new(tags=("a",)), new(tags=("b",)), new(queue="other")], now=at(0))
    await publish(store, new(key="k"), new(key="k"), now=at(1))
    await fail(store, await take_one(store, queue="other", now=at(2)), after=100, now=at(2))
    await take(store, 1, tags=["a"], now=at(3))
    found = await store.open_counts(now=at(5))
    assert found.ready == {"work": 2}
    assert (found.waiting, found.behind, found.leased) == ({"other": 1}, {"work": 1}, {"work": 1})
    assert found.oldest_work_seconds == {"work": 5.0}
    assert sum(found.messages.values()) == 0


async def test_messages_are_counted_apart_from_work(store: Store) -> None:
    one = await subscriber(store)
    await send(store, one, count=3, now=at(0))
    await send(store, one, count=2, key="k", now=at(1))
    await take_messages(store, one, most=1, now=at(2))
    found = await store.open_counts(now=at(7))
    assert found.messages == {"ready": 3, "waiting": 0, "behind": 1, "leased": 1}
    assert (found.ready, found.leased) == ({}, {})
    assert found.oldest_message_seconds == 7.0


async def test_no_more_is_counted_than_asked_for(store: Store) -> None:
    await publish(store, *[new(tags=(str(n % 3),)) for n in range(9)])
    assert (await store.open_counts(limit=9)).more
    assert not (await store.open_counts(limit=10)).more
    assert sum((await store.open_counts(limit=4)).ready.values()) == 4


# ------------------------------------------------------------------- activity


async def test_actions_are_counted_by_step(store: Store) -> None:
    await publish(store, new(), new(), now=at(3))
    await publish(store, new(), now=at(20))
    await complete(store, await take_one(store, now=at(21)), now=at(21))
    found = await store.activity(at(0), at(30), TEN)
    assert sorted(found) == [
        (at(0), Action.PUBLISHED, 2),
        (at(20), Action.COMPLETED, 1),
        (at(20), Action.PICKED, 1),
        (at(20), Action.PUBLISHED, 1),
    ]


async def test_a_range_begins_with_its_first_moment_and_ends_before_its_last(store: Store) -> None:
    for second in (9.999999, 10, 19.999999, 20):
        await publish(store, new(), now=at(second))
    assert await store.activity(at(10), at(20), TEN) == [(at(10), Action.PUBLISHED, 2)]
    assert await store.activity(at(100), at(110), TEN) == []
    assert await store.activity(at(-100), at(0), TEN) == []


# ----------------------------------------------------------------------- news


async def test_news_are_what_was_not_there_before(store: Store) -> None:
    first = await store.newest_log(10)
    number = await publish_one(store, type_="order.placed", now=None)
    second = await store.newest_log(10, since=first.position)
    ((entry, kind),) = second.entries
    assert (entry.event_id, entry.action, kind, second.missed) == (number, Action.PUBLISHED, "order.placed", 0)
    assert (await store.newest_log(10, since=second.position)).entries == []
    assert [entry.event_id for entry, _ in (await store.newest_log(10)).entries] == [number]


async def test_the_newest_are_told_oldest_first_and_the_others_are_counted(store: Store) -> None:
    before = await store.newest_log(1)
    numbers = await publish(store, *[new() for _ in range(8)], now=None)
    found = await store.newest_log(3, since=before.position)
    assert [entry.event_id for entry, _ in found.entries] == numbers[-3:]
    assert found.missed == 5


async def test_what_was_under_way_is_news_once_it_is_committed(postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        connection = await asyncpg.connect(postgres_url)
        transaction = connection.transaction()
        await transaction.start()
        (late,) = await store.publish([new("late")], connection=connection)
        (early,) = await store.publish([new("early")])
        seen = await store.newest_log(10)
        assert [entry.event_id for entry, _ in seen.entries] == [early.id]
        await transaction.commit()
        await connection.close()
        found = await store.newest_log(10, since=seen.position)
        assert [entry.event_id for entry, _ in found.entries] == [late.id]


# ------------------------------------------------------------------- troubles


async def test_a_quiet_store_has_no_troubles(store: Store) -> None:
    found = await store.troubles("work", silent=seconds(60))
    assert (found.deaths, found.last_death, found.dead_letters) == (0, None, 0)
    assert (found.blocked_keys, found.parked_keys, found.subscribers) == (0, 0, 0)
    assert (found.open_circuits, found.disabled, found.silent_claims) == ([], [], [])


async def test_deaths_are_those_of_the_last_hour(store: Store) -> None:
    one = await subscriber(store)
    await kill(store, one, now=at(0))
    last = await kill(store, one, now=at(2000))
    found = await store.troubles("work", silent=seconds(60), now=at(3700))
    assert (found.deaths, found.last_death, found.dead_letters) == (1, last, 2)


async def test_subscribers_in_trouble_are_named(store: Store) -> None:
    well, failing, gone = [await subscriber(store, name) for name in ("well", "failing", "gone")]
    await store.open_circuit(failing, seconds(60))
    await store.set_status(gone, "disabled", reason="410 Gone")
    await kill(store, well, key="k", parks=True)
    found = await store.troubles("work", silent=seconds(60))
    assert found.open_circuits == [(failing, "failing")]
    assert found.disabled == [(gone, "gone", "410 Gone")]
    assert (found.blocked_keys, found.parked_keys, found.subscribers) == (1, 1, 3)


async def test_claims_of_workers_that_are_silent(store: Store) -> None:
    await publish(store, *[new() for _ in range(4)])
    await take(store, 2, worker="silent")
    await take(store, 1, worker="there")
    await store.see_workers([Sighting("work", "silent", "PICKED")], now=at(0))
    await store.see_workers([Sighting("work", "there", "PICKED")], now=at(50))
    found = await store.troubles("work", silent=seconds(30), now=at(55))
    assert found.silent_claims == [("silent", 2)]
    assert await store.was_seen("work", within=seconds(30), now=at(55))
    assert not await store.was_seen("work", within=seconds(30), now=at(90))
    assert not await store.was_seen("other", within=seconds(30), now=at(55))
