"""Claims by type: what nobody asked for stays where it is, untouched, and what is asked for comes by age."""

from typing import Any

import pytest

from eventhub.store import Store
from eventhub.store.messages import WantedMessages
from eventhub.store.values import Route
from tests.conformance.conftest import OpenAnother
from tests.conformance.support import (
    MINUTE,
    QUEUE,
    actions,
    at,
    complete,
    fail,
    ids,
    new,
    publish,
    publish_one,
    take,
    take_one,
)


async def test_only_events_of_the_types_that_are_asked_for_are_taken(store: Store) -> None:
    a, b, ab, other = await publish(store, new("a"), new("b"), new("a.b"), new("x.y.z"))
    assert ids(await take(store, 10, types=["a"])) == [a]
    assert await take(store, 10, types=["a", "nothing"]) == []
    assert ids(await take(store, 10, types=["*.b"])) == [ab]
    assert await take(store, 10, types=[]) == []
    assert await actions(store, b) == ["PUBLISHED"], "untouched"
    assert ids(await take(store, 10, types=["*"])) == [b, other]


async def test_types_and_tags_must_both_fit(store: Store) -> None:
    await publish(store, new("a", tags=("t",)), new("b", tags=("t",)), new("a", tags=("u",)), new("a"))
    (claim,) = await take(store, 10, types=["a"], tags=["t"])
    assert (claim.event.type, claim.event.tags) == ("a", ("t",))


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
async def test_several_types_come_by_age(store: Store, limit: int) -> None:
    numbers = await publish(store, *(new("abc"[n * n % 3]) for n in range(40)))
    seen: list[int] = []
    while claims := await take(store, limit, types=["a", "b"]):
        seen += ids(claims)
    assert seen == numbers


async def test_a_million_of_another_type_in_front_cost_nothing(store: Any) -> None:
    """Told by what the statement looks at: the routes of other types are not among those that it names."""
    await publish(store, *(new("b") for _ in range(50)))
    mine = await publish_one(store, type_="a")
    await take(store, 1, types=["nothing"])
    known = store._memory.known if store.engine == "postgres" else store._known
    chosen = known.choose(QUEUE, None, frozenset({"a"}))
    assert [[known[number].type for number in routes] for routes in chosen] == [["a"]]
    assert ids(await take(store, 1, types=["a"])) == [mine]


async def test_a_retry_comes_back_to_those_who_want_its_type(store: Store) -> None:
    await publish(store, new("b"), new("a"))
    claim = await take_one(store, types=["a"])

    assert await fail(store, claim, after=5)
    assert await take(store, 5, now=at(5), types=["c"]) == []
    assert ids(await take(store, 5, now=at(5), types=["a"])) == [claim.event.id]


async def test_what_other_processes_publish_under_new_tags_does_not_wait_behind_what_is_younger(
    store: Store, open_another: OpenAnother
) -> None:
    """The claim that comes upon news says so: at most that one is answered with younger work."""
    another = await open_another()
    await publish(store, *(new() for _ in range(3)), now=None)
    await complete(store, (await store.claim(QUEUE, worker="w", lease=MINUTE))[0], None)
    oldest = await publish_one(another, None, tags=("never-seen",))
    urgent = await publish_one(another, None, tags=("never-seen",), priority=9)
    younger = await publish(another, *(new() for _ in range(3)), now=None)
    first = ids(await store.claim(QUEUE, worker="w", lease=MINUTE))
    rest = [ids(await store.claim(QUEUE, worker="w", lease=MINUTE))[0] for _ in range(6)]
    assert sorted(first + rest)[-5:] == sorted([oldest, urgent, *younger])
    assert urgent in (first + rest)[:2]
    assert rest.index(oldest) < min(rest.index(number) for number in younger)


class Counted(Route, frozen=True):
    """A route that counts how often it is looked at as a key."""

    def __hash__(self) -> int:
        Counter.hashes += 1
        return hash((self.queue, self.tags, self.priority, self.type))


class Counter:
    hashes = 0


def counted(tag: str) -> Any:
    event = new("a", tags=(tag,))
    event.route = Counted(QUEUE, (tag,), 0, "a")
    return event


async def test_a_publish_does_not_go_through_all_routes_that_are_known(store: Store) -> None:
    async def hashes_of_a_publish() -> int:
        await store.publish([counted("first")])
        before = Counter.hashes
        await store.publish([counted("first"), counted("first")])
        return Counter.hashes - before

    with_few = await hashes_of_a_publish()
    await store.publish([counted(f"t{n}") for n in range(1000)])
    assert await hashes_of_a_publish() == with_few


async def test_nor_does_a_dispatcher_that_takes_messages(store: Store) -> None:

    async def hashes_of_a_claim() -> int:
        await store.claim_messages([WantedMessages(subscriber=1, most=1)], worker="w", lease=MINUTE)
        before = Counter.hashes
        await store.claim_messages([WantedMessages(subscriber=1, most=1)], worker="w", lease=MINUTE)
        return Counter.hashes - before

    assert await hashes_of_a_claim() == 0
    await store.publish([counted(f"t{n}") for n in range(1000)])
    assert await hashes_of_a_claim() == 0


async def test_the_longest_tags_are_stored_and_found_and_shown(store: Store) -> None:
    tags = tuple(f"{n:03d}".ljust(128, "x") for n in range(64))
    number = await publish_one(store, tags=tags)
    again = await publish_one(store, tags=tags)
    other = await publish_one(store, tags=(*tags[:-1], "z" * 128))
    assert ids(await take(store, 10, tags=[tags[-1]])) == [number, again]
    assert ids(await take(store, 10, tags=[tags[0]])) == [other]
    shown = await store.event(number)
    assert shown is not None
    assert shown.tags == tags
