"""Large batches are written while their payloads are checked: stored whole all the same, or not at all."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub import blocking
from eventhub.errors import InvalidPayloadError
from eventhub.queue import EventQueue
from eventhub.store import Store, open_store
from eventhub.store.columns import LARGE, Doubtful, PlainEvents, ids_of
from eventhub.store.composing import Composer
from eventhub.store.postgres import PostgresStore
from eventhub.store.postgres.engine import FORGETTING, NEAR
from eventhub.store.values import NewEvent, Published, Route
from tests.conformance.support import QUEUE, START, actions, complete, new, publish_one, take
from tests.conformance.test_outbox import connected, rolled_back, transaction
from tests.conformance.test_publish import TRICKY

TYPE = "a.b"
DOUBTS: dict[str, tuple[Any, Any]] = {"tuple": ((1, 2), [1, 2]), "long number": (10**18, 10**18)}
"""What many together cannot be sure of, and how it is stored."""


def of(payloads: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"type": TYPE, "payload": payload} for payload in payloads]


def composer() -> Composer:
    """One that has met the type before."""
    made = Composer(QUEUE, max_attempts=4)
    made.many(of([0]))
    return made


async def queue_on(store: Store) -> EventQueue:
    queue = EventQueue(store, queue=QUEUE)
    await queue.publish_many(of(["first"]))
    await queue.finalize_many(await queue.poll_many(10), success=True)
    return queue


async def stored(store: Store) -> list[Any]:
    """The payloads of everything that waits, oldest first."""
    return [claim.event.payload for claim in await take(store, 10_000, now=None)]


@pytest.mark.parametrize("count", [LARGE, 2 * LARGE + 17])
async def test_it_is_stored_like_its_events_one_by_one(store: Store, count: int) -> None:
    payloads = list(islice(cycle(TRICKY), count))
    columns, plain = composer().together(of(payloads)), composer().many(of(payloads))
    assert isinstance(columns, PlainEvents)
    one = await store.publish(columns, now=START)
    other = await store.publish(plain, now=START)
    assert [*one] == [Published(one[0].id + place, START, told=one[0].told) for place in range(count)]
    for number, again, payload in list(zip(ids_of(one), ids_of(other), payloads, strict=True))[:: count // 20]:
        first, second = await store.event(number), await store.event(again)
        assert first is not None
        assert first.payload == payload
        assert msgspec.structs.replace(first, id=again) == second
        assert await actions(store, number) == ["PUBLISHED"]
    claims = await take(store, limit=3 * count)
    assert [claim.event.id for claim in claims] == ids_of(one) + ids_of(other)
    assert [claim.event.payload for claim in claims] == payloads * 2
    assert {claim.max_attempts for claim in claims} == {4}
    assert await complete(store, claims[count - 1])
    assert await actions(store, claims[count - 1].event.id) == ["PUBLISHED", "PICKED", "COMPLETED"]


@pytest.mark.parametrize("place", [64, LARGE, -1])
@pytest.mark.parametrize("doubt", DOUBTS)
async def test_a_doubt_on_the_way_costs_a_second_try_and_nothing_else(store: Store, doubt: str, place: int) -> None:
    queue = await queue_on(store)
    payloads: list[Any] = list(range(2 * LARGE))
    given_one, kept = DOUBTS[doubt]
    payloads[place] = given_one
    numbers = await queue.publish_many(of(payloads))
    payloads[place] = kept
    assert len(set(numbers)) == len(payloads)
    assert await stored(store) == payloads
    assert await actions(store, numbers[place]) == ["PUBLISHED", "PICKED"]


@pytest.mark.parametrize("place", [64, LARGE, 2 * LARGE - 1])
async def test_a_wrong_payload_on_the_way_leaves_nothing(store: Store, place: int) -> None:
    queue = await queue_on(store)
    payloads: list[Any] = list(range(2 * LARGE))
    payloads[place] = float("nan")
    with pytest.raises(InvalidPayloadError, match=f"Event {place} of the batch"):
        await queue.publish_many(of(payloads))
    assert await stored(store) == []
    after = await publish_one(store, now=None, payload="after")
    assert await actions(store, after) == ["PUBLISHED"]
    assert await stored(store) == ["after"]


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 10, 30, 100, 300, 1000, 3000])
async def test_a_publisher_that_goes_away_leaves_all_of_it_or_nothing(store: Store, turns: int) -> None:
    queue = await queue_on(store)
    publishing = asyncio.create_task(queue.publish_many(of(range(2 * LARGE))))
    for _ in range(turns):
        await asyncio.sleep(0)
    publishing.cancel()
    await asyncio.gather(publishing, return_exceptions=True)
    after = [of([["after", n]]) for n in range(20)]  # by as many connections as there may be
    await asyncio.gather(*(queue.publish_many(batch) for batch in after))
    found = [payload for payload in await stored(store) if isinstance(payload, int)]
    assert found in ([], list(range(2 * LARGE)))
    assert len(await asyncio.gather(*(store.log(1) for _ in range(20)))) == 20


async def test_many_at_once_are_each_stored_whole(store: Store) -> None:
    queue = await queue_on(store)
    large = [of([[call, place] for place in range(LARGE + call)]) for call in range(6)]
    doubtful = of([*range(LARGE), (1, 2)])
    wrong = of([*range(LARGE), float("inf")])
    answers = await asyncio.gather(
        *(queue.publish_many(batch) for batch in large),
        queue.publish_many(doubtful),
        queue.publish_many(wrong),
        *(store.publish([new(payload=["small", n])]) for n in range(40)),
        return_exceptions=True,
    )
    assert isinstance(answers[7], InvalidPayloadError)
    claims = {claim.event.id: claim.event.payload for claim in await take(store, 10_000, now=None)}
    assert len(claims) == sum(map(len, large)) + len(doubtful) + 40
    for batch, numbers in zip([*large, doubtful], answers, strict=False):
        assert isinstance(numbers, list)
        assert numbers == sorted(numbers)
        sent = [list(e["payload"]) if isinstance(e["payload"], tuple) else e["payload"] for e in batch]
        assert [claims[number] for number in numbers] == sent


async def test_a_store_that_closes_meanwhile_stores_it_first(store_url: str) -> None:
    closing = open_store(store_url)
    queue = await queue_on(closing)
    publishing = asyncio.create_task(queue.publish_many(of(range(2 * LARGE))))
    await asyncio.sleep(0)
    await closing.close()
    assert len(await publishing) == 2 * LARGE
    async with open_store(store_url) as store:
        assert await stored(store) == list(range(2 * LARGE))


async def test_in_the_callers_transaction_a_doubt_leaves_no_half_batch(store: Store) -> None:
    queue = await queue_on(store)
    payloads = [*range(LARGE), (1, 2)]
    async with connected(store) as connection:
        async with rolled_back(connection):
            await queue.publish_many(of(payloads), connection=connection)
        assert await stored(store) == []
        async with transaction(connection):
            with pytest.raises(InvalidPayloadError):
                await queue.publish_many(of([*range(LARGE), float("nan")]), connection=connection)
            await queue.publish_many(of(payloads), connection=connection)
    assert await stored(store) == [*range(LARGE), [1, 2]]


async def test_a_check_that_breaks_off_leaves_nothing_and_harms_nobody(store: Store) -> None:
    def pieces() -> Iterator[list[str]]:
        yield ["0"] * LARGE
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        await store.publish(PlainEvents(LIKE, pieces(), 2 * LARGE))
    await publish_one(store, now=None, payload="after")
    assert await stored(store) == ["after"]


async def test_pieces_that_are_missing_leave_nothing(store: Store) -> None:
    with pytest.raises(Doubtful):
        await store.publish(PlainEvents(LIKE, [["0"] * LARGE], LARGE + 1))
    assert await stored(store) == []


async def test_a_batch_that_has_to_wait_is_checked_before_its_turn(store: Store) -> None:
    """So that nobody's doubts break up the commits of others, nor does it matter what becomes of its payloads."""
    queue = await queue_on(store)
    payloads = [{"n": n} for n in range(2 * LARGE)]
    ahead = [asyncio.create_task(queue.publish_many(of(list(range(2 * LARGE))))) for _ in range(3)]
    waiting = asyncio.create_task(queue.publish_many(of(payloads)))
    await asyncio.sleep(0)
    for payload in payloads:
        payload["n"] = -1
    numbers = await waiting
    await asyncio.gather(*ahead)
    kept = {claim.event.id: claim.event.payload for claim in await take(store, 10_000, now=None)}
    assert [kept[number] for number in numbers] == [{"n": n} for n in range(2 * LARGE)]


async def test_a_server_that_is_far_gets_it_in_one_statement(postgres_url: str) -> None:
    async with PostgresStore(postgres_url) as store:
        queue = await queue_on(store)
        store._way = NEAR / FORGETTING
        await queue.publish_many(of(range(2 * LARGE)))
        assert store._way == NEAR / FORGETTING * FORGETTING
        store._way *= FORGETTING
        await queue.publish_many(of(range(2 * LARGE)))
        assert 0 < store._way != NEAR / FORGETTING * FORGETTING * FORGETTING  # measured anew
        assert await stored(store) == [*range(2 * LARGE)] * 2


async def test_in_memory_too() -> None:
    async with open_store(":memory:") as store:
        queue = await queue_on(store)
        await queue.publish_many(of(range(2 * LARGE)))
        assert await stored(store) == list(range(2 * LARGE))


def test_programs_without_a_loop_too(sqlite_path: Path) -> None:
    with blocking.EventQueue(str(sqlite_path), queue=QUEUE) as queue:
        queue.publish_many(of(["first"]))
        numbers = queue.publish_many(of(range(2 * LARGE)))
        assert [event.id for event in queue.poll_many(10_000)][1:] == numbers


# ---------------------------------------------------------------- the column


LIKE = NewEvent(type=TYPE, payload="", route=Route(QUEUE, (), 0))


@given(st.lists(st.lists(st.text(), min_size=1, max_size=4), min_size=1, max_size=6), st.data())
def test_pieces_come_whole_and_in_order_however_asked_for(pieces: list[list[str]], data: st.DataObject) -> None:
    texts = [text for piece in pieces for text in piece]
    column = PlainEvents(LIKE, pieces, len(texts))
    for _ in range(data.draw(st.integers(0, len(pieces)))):
        column.check_some()
    assert column.payloads == texts
    assert column.checked
    assert [event.payload for event in column] == texts
    assert len(column) == len(texts)


@given(st.lists(st.lists(st.text() | st.none(), min_size=1, max_size=4), min_size=1, max_size=6), st.data())
def test_a_doubt_is_never_forgotten(pieces: list[list[str | None]], data: st.DataObject) -> None:
    doubtful = data.draw(st.integers(0, len(pieces) - 1))
    pieces[doubtful] = [*pieces[doubtful], None]
    column = PlainEvents(LIKE, pieces, sum(map(len, pieces)))
    for _ in range(3):
        with pytest.raises(Doubtful):
            _ = column.payloads
    assert not column.checked
