"""Dead letters by filter: pages of them, how many there are, a fresh start for all that fit, and the purge."""

import asyncio
from typing import Any

import pytest

from eventhub.core.events import Status
from eventhub.core.lifecycle import Bury, Reason, State
from eventhub.store import Store, messaging
from eventhub.store.messages import DeadFilter, MessageFilter
from eventhub.store.values import Report
from tests.conformance.conftest import OpenAnother
from tests.conformance.hub_support import subscriber
from tests.conformance.message_support import bury, drained, end, kill, seen, send, take
from tests.conformance.support import MICROSECOND, START, actions, at, new, publish, publish_one, take_one
from tests.conformance.support import bury as bury_work
from tests.conformance.support import kill as kill_work
from tests.conformance.support import take as take_work


async def found(store: Store, **wanted: Any) -> list[int]:
    return [letter.delivery_id for letter in (await store.dead_letters(DeadFilter(**wanted))).letters]


# -------------------------------------------------------------------- letters


async def test_a_letter_has_its_subscriber_as_it_was(store: Store) -> None:
    one = await subscriber(store, "billing", document='{"name":"billing","url":"http://old.example"}')
    number = await kill(store, one, key="k", type="invoice.paid", max_attempts=3)
    row = await store.subscriber(one)
    assert row is not None
    await store.change_subscriber(one, expected_version=row.version, name="new", document="{}", sealed=None)
    (letter,) = (await store.dead_letters(DeadFilter())).letters
    assert letter.consumer == {"name": "billing", "url": "http://old.example"}
    assert (letter.subscriber, letter.delivery_id, letter.id) == (one, number, (await seen(store, number)).event_id)
    assert (letter.type, letter.ordering_key, letter.max_attempts) == ("invoice.paid", "k", 3)
    assert (letter.status, letter.reason, letter.queue) == (Status.FAILED, "retries_exhausted", "hub")
    assert (letter.errors, letter.attempts, letter.retry_count, letter.dead_at) == (["boom"], 1, 1, START)
    assert (letter.parked, letter.retried_at, letter.worker) == (False, None, "dispatcher-a")
    assert await store.dead_letter(number) == letter


async def test_a_letter_of_work_goes_by_its_events_id(store: Store) -> None:
    number = await kill_work(store, key="k", park_when_dead=True)
    letter = await store.dead_letter(number)
    assert letter is not None
    assert (letter.id, letter.delivery_id, letter.subscriber, letter.consumer) == (number, number, None, None)
    assert (letter.parked, letter.ordering_key) == (True, "k")
    assert await store.dead_letter(999_999_999) is None


async def test_the_last_letter_of_one_that_was_retried_can_still_be_seen(store: Store) -> None:
    one = await subscriber(store)
    work = await kill_work(store)
    message = await kill(store, one)
    delivered = await kill(store, one)
    await store.retry_dead([work, message, delivered], by="anna", now=at(1))
    (claim,) = [claim for claim in await take(store, one, now=at(2)) if claim.held.id == delivered]
    await end(store, claim, Bury("again", Reason.REJECTED), now=at(2))
    await store.retry_dead([delivered], by="bert", now=at(3))
    for number, by in ((work, "anna"), (message, "anna"), (delivered, "bert")):
        letter = await store.dead_letter(number)
        assert letter is not None
        assert (letter.delivery_id, letter.retried_by) == (number, by)
    await drained(store, one, now=at(4))
    letter = await store.dead_letter(delivered)
    assert letter is not None
    assert letter.reason == "rejected"
    assert (await store.dead_letters(DeadFilter())).total == 0


# --------------------------------------------------------------------- pages


async def test_pages_show_the_latest_death_first(store: Store) -> None:
    one = await subscriber(store)
    old, young = await send(store, one, count=2)
    claims = {claim.held.id: claim for claim in await take(store, one)}
    await bury(store, claims[young], now=at(1))
    await bury(store, claims[old], now=at(2))
    work = await kill_work(store, now=at(3))
    page = await store.dead_letters(DeadFilter(limit=2))
    assert ([letter.delivery_id for letter in page.letters], page.total) == ([work, old], 3)
    rest = await store.dead_letters(DeadFilter(limit=2, before_id=page.letters[-1].letter_id))
    assert ([letter.delivery_id for letter in rest.letters], rest.total) == ([young], 3)
    assert await found(store, offset=1, limit=1) == [old]
    assert await found(store, offset=3) == []


async def many(store: Store) -> tuple[int, int, dict[str, int]]:
    """Dead letters of all kinds."""
    one, two = await subscriber(store), await subscriber(store)
    made = {
        "work": await kill_work(store, now=at(0)),
        "elsewhere": await kill_work(store, queue="other", type_="invoice.paid", now=at(10)),
        "first": await kill(store, one, now=at(20)),
        "second": await kill(store, one, type="invoice.paid", now=at(30)),
    }
    (made["third"],) = await send(store, two, now=at(40))
    (claim,) = await take(store, two, now=at(40))
    await end(store, claim, Bury("HTTP 410 100%_gone", Reason.GONE), now=at(40))
    (retried,) = await send(store, two, now=at(50))
    (claim,) = await take(store, two, now=at(50))
    await bury(store, claim, now=at(50))
    await store.retry_dead([retried], by="anna", now=at(50))
    return one, two, made


FILTERS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "nothing": ({}, {"work", "elsewhere", "first", "second", "third"}),
    "a queue": ({"queue": "work"}, {"work"}),
    "the queue of messages": ({"queue": "hub"}, {"first", "second", "third"}),
    "an unknown queue": ({"queue": "none"}, set()),
    "a subscriber": ({"subscriber": "one"}, {"first", "second"}),
    "an unknown subscriber": ({"subscriber": 999_999_999}, set()),
    "a type": ({"type": "invoice.paid"}, {"elsewhere", "second"}),
    "a reason": ({"reason": "gone"}, {"third"}),
    "an error": ({"error": "100%_g"}, {"third"}),
    "an error in other letters": ({"error": "http"}, set()),
    "since": ({"dead_since": at(30)}, {"second", "third"}),
    "until": ({"dead_until": at(10)}, {"work", "elsewhere"}),
    "between": ({"dead_since": at(10) + MICROSECOND, "dead_until": at(30) - MICROSECOND}, {"first"}),
    "ids": ({"ids": ("work", "second", 999_999_999)}, {"work", "second"}),
    "no ids": ({"ids": ()}, set()),
    "ids and a subscriber": ({"ids": ("work", "second"), "subscriber": "one"}, {"second"}),
    "all of it": ({"queue": "hub", "subscriber": "one", "type": "invoice.paid", "error": "boom"}, {"second"}),
}


def resolved(wanted: dict[str, Any], one: int, made: dict[str, int]) -> DeadFilter:
    named = dict(wanted)
    if named.get("subscriber") == "one":
        named["subscriber"] = one
    if "ids" in named:
        named["ids"] = tuple(made.get(each, each) for each in named["ids"])
    return DeadFilter(**named)


@pytest.mark.parametrize("name", FILTERS)
async def test_what_fits_is_listed_counted_and_retried(store: Store, name: str) -> None:
    one, _, made = await many(store)
    given, names = FILTERS[name]
    wanted, expected = resolved(given, one, made), {made[each] for each in names}
    page = await store.dead_letters(wanted)
    assert [letter.delivery_id for letter in page.letters] == sorted(expected, reverse=True)
    assert page.total == len(expected)
    assert await store.count_dead(wanted) == len(expected)
    assert await store.retry_dead_where(wanted, by="anna", now=at(100)) == len(expected)
    assert await store.count_dead(wanted) == 0
    assert set(await store.current(list(made.values()))) == expected
    assert (await store.dead_letters(DeadFilter())).total == len(made) - len(expected)


@pytest.mark.parametrize("name", FILTERS)
async def test_what_fits_is_purged(store: Store, name: str) -> None:
    one, _, made = await many(store)
    given, names = FILTERS[name]
    wanted = resolved(given, one, made)
    events = {each: (await store.dead_letter(made[each])).id for each in made}  # type: ignore[union-attr]
    assert await store.purge_dead_where(wanted) == len(names)
    for each in made:
        assert (await store.dead_letter(made[each]) is None) == (each in names)
        assert (await store.event(events[each]) is None) == (each in names)
    assert await store.purge_dead_where(wanted) == 0


# --------------------------------------------------------------------- retry


async def test_a_retry_goes_from_the_oldest_on_in_portions_and_keys_keep_their_order(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messaging, "PORTION", 3)
    one = await subscriber(store)
    numbers: list[int] = []
    for n in range(10):
        numbers += await send(store, one, key=f"k{n % 2}")
    claims = []
    while batch := await take(store, one):
        claims += batch
        for claim in batch:
            await bury(store, claim)
    assert await store.retry_dead_where(DeadFilter(subscriber=one), by="anna", now=at(1), limit=4) == 4
    assert set(await store.current(numbers)) == set(numbers[:4])
    assert await store.retry_dead_where(DeadFilter(subscriber=one), by="anna", now=at(1)) == 6
    order = await drained(store, one, now=at(2))
    assert sorted(order) == numbers
    for half in (0, 1):
        assert [number for number in order if numbers.index(number) % 2 == half] == numbers[half::2]


async def test_a_parked_head_is_retried_in_front_of_its_successors(store: Store) -> None:
    one = await subscriber(store)
    numbers = await send(store, one, count=3, key="k", parks=True)
    (claim,) = await take(store, one)
    await bury(store, claim)
    assert await store.count_dead(DeadFilter()) == 1
    assert await store.retry_dead_where(DeadFilter(), by="anna", now=at(1)) == 1
    assert await drained(store, one, now=at(1)) == numbers


async def test_a_letter_of_a_subscriber_that_is_gone_is_seen_and_purged_but_not_retried(store: Store) -> None:
    one = await subscriber(store)
    number = await kill(store, one)
    await store.remove_subscriber(one, by="anna")
    assert await found(store) == [number]
    assert await store.count_dead(DeadFilter()) == 0
    assert await store.retry_dead_where(DeadFilter(), by="anna") == 0
    assert await store.retry_dead([number], by="anna") == set()
    assert await store.purge_dead_where(DeadFilter()) == 1
    assert await found(store) == []


async def test_what_dies_again_or_meanwhile_is_left_alone(
    store: Store, open_another: OpenAnother, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker buries whatever is revived, and new events too, while all dead letters are retried."""
    monkeypatch.setattr(messaging, "PORTION", 2)
    worker = await open_another()
    first = [await kill_work(store, now=None) for _ in range(12)]
    retrying = asyncio.create_task(store.retry_dead_where(DeadFilter(), by="anna"))
    born: list[int] = []
    while not retrying.done():
        claims = await take_work(worker, 5, now=None)
        if claims or born:  # what is born before the first is revived may well count as dead before
            born.append(await publish_one(worker, now=None))
        await worker.settle([Report(claim.held, Bury("again")) for claim in claims])
    assert await retrying == len(first)
    while claims := await take_work(worker, 50, now=None):
        await worker.settle([Report(claim.held, Bury("again")) for claim in claims])
    for number in first:
        assert (await actions(store, number)).count("RETRIED") == 1
    for number in born:
        assert "RETRIED" not in await actions(store, number)
    assert (await store.dead_letters(DeadFilter())).total == len(first) + len(born)


async def test_several_who_retry_everything_revive_each_once(
    store: Store, open_another: OpenAnother, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messaging, "PORTION", 4)
    others = [store, await open_another(), await open_another()]
    one = await subscriber(store)
    numbers = await send(store, one, count=30, key="k", now=None)
    while claims := await take(store, one, now=None):
        for claim in claims:
            await bury(store, claim, now=None)
    counts = await asyncio.gather(*(each.retry_dead_where(DeadFilter(), by="me") for each in others))
    assert sum(counts) == len(numbers)
    assert await drained(store, one, now=None) == numbers


# --------------------------------------------------------------------- purge


async def test_the_purge_spares_a_parked_head(store: Store) -> None:
    one = await subscriber(store)
    number, *_ = await send(store, one, count=2, key="k", parks=True)
    (claim,) = await take(store, one)
    await bury(store, claim)
    assert await store.purge_dead_where(DeadFilter(subscriber=one)) == 0
    assert (await store.current([number]))[number].state is State.PARKED
    assert await found(store) == [number]


@pytest.mark.parametrize("state", ["ready", "dead", "delivered", "marked"])
async def test_the_purge_spares_an_event_that_another_subscriber_needs(store: Store, state: str) -> None:
    one, two = await subscriber(store), await subscriber(store)
    number, other = await send(store, one, two)
    (claim,) = await take(store, one)
    await bury(store, claim)
    event = claim.event_id
    if state in {"dead", "delivered"}:
        (claim,) = await take(store, two)
        await (bury(store, claim) if state == "dead" else end(store, claim, Bury("x"), took=None))
    if state == "delivered":
        await store.retry_message(other, by="anna", now=START)
        assert await drained(store, two) == [other]
    wanted = DeadFilter(subscriber=one)
    assert await store.purge_dead_where(wanted) == 1
    assert await store.message(number) is None
    assert await store.event(event) is not None
    assert (await seen(store, other)).type == "order.placed"


async def test_the_purge_spares_work_whose_broadcast_is_still_to_be_handed_out(store: Store) -> None:
    one = await subscriber(store)
    (event,) = await publish(store, new(broadcast=True))
    await bury_work(store, await take_one(store))
    assert await store.purge_dead_where(DeadFilter()) == 1
    assert await store.event(event) is not None
    (number,) = await send(store, one)
    assert len(await store.messages(MessageFilter(event_id=event))) == 1
    assert len(await drained(store, one)) == 2
    assert (await seen(store, number)).status is Status.COMPLETED


async def test_a_retry_and_a_purge_of_the_same_letters_leave_exactly_one_state(
    store: Store, open_another: OpenAnother
) -> None:
    other = await open_another()
    one, two = await subscriber(store), await subscriber(store)
    for _ in range(12):
        first, second = await send(store, one, two, now=None)
        for claim in await take(store, one, two, now=None):
            await bury(store, claim, now=None)
        event = (await seen(store, first)).event_id
        purged, retried = await asyncio.gather(
            store.purge_dead_where(DeadFilter()), other.retry_dead([second], by="anna")
        )
        assert purged + len(retried) == 2, "each letter either way"
        assert (await store.event(event) is not None) == bool(retried)
        assert await drained(store, one, two, now=None) == sorted(retried)
