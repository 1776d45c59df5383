"""Dead letters by what they died of, and the filter that takes one such group."""

from typing import Any

import pytest

from eventhub.core.fingerprints import fingerprint
from eventhub.store import Store, dead_groups
from eventhub.store.dead_groups import group_dead, of_fingerprint
from eventhub.store.messages import DeadFilter
from tests.conformance.hub_support import subscriber
from tests.conformance.message_support import kill
from tests.conformance.support import MINUTE, at, bury, publish_one


async def dies(store: Store, error: str | None, *, now: Any, type_: str = "order.placed") -> int:
    number = await publish_one(store, type_=type_, now=now)
    (claim,) = await store.claim_ids([number], worker="worker-a", lease=MINUTE, now=now)
    assert await bury(store, claim, error, now=now)
    return number


async def test_errors_that_differ_in_details_are_one_group(store: Store) -> None:
    first = await dies(store, "timeout after 30 s on 'db-1'", now=at(1))
    second = await dies(store, "timeout after 31 s on 'db-2'", now=at(2), type_="order.paid")
    other = await dies(store, "no such user", now=at(3))
    found = await group_dead(store, DeadFilter())
    assert (found.looked_at, found.more) == (3, False)
    large, small = found.groups
    assert (large.count, large.reason, large.fingerprint) == (
        2,
        "retries_exhausted",
        fingerprint("timeout after 7 s on ''"),
    )
    assert (large.example_error, large.first_at, large.last_at) == ("timeout after 31 s on 'db-2'", at(1), at(2))
    assert (large.types, large.subscribers, large.example_ids) == (["order.paid", "order.placed"], [], [second, first])
    assert (small.count, small.example_ids) == (1, [other])


async def test_letters_without_an_error_are_a_group_of_their_own(store: Store) -> None:
    number = await dies(store, None, now=at(1))
    await dies(store, "", now=at(2))
    groups = {group.fingerprint: group.example_ids for group in (await group_dead(store, DeadFilter())).groups}
    assert groups[""] == [number]
    assert len(groups) == 2


async def test_groups_go_by_the_filter_and_name_subscribers(store: Store) -> None:
    one, two = await subscriber(store), await subscriber(store)
    await dies(store, "boom", now=at(0))
    await kill(store, one, now=at(1))
    await kill(store, two, now=at(2))
    (all_of_hub,) = (await group_dead(store, DeadFilter(queue="hub"))).groups
    assert all_of_hub.subscribers == [two, one]
    (of_one,) = (await group_dead(store, DeadFilter(subscriber=one, dead_since=at(1)))).groups
    assert of_one.count == 1


async def test_no_more_letters_are_looked_at_than_allowed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_groups, "MOST_LETTERS", 2)
    numbers = [await dies(store, "boom", now=at(second)) for second in range(3)]
    found = await group_dead(store, DeadFilter())
    assert (found.looked_at, found.more, found.groups[0].example_ids) == (2, True, numbers[:0:-1])
    assert (await of_fingerprint(store, DeadFilter(), fingerprint("boom"))).ids == tuple(numbers[:0:-1])


async def test_a_group_is_retried_and_nothing_else(store: Store) -> None:
    group = [await dies(store, f"timeout {number}", now=at(number)) for number in range(3)]
    other = await dies(store, "no such user", now=at(3))
    wanted = await of_fingerprint(store, DeadFilter(), fingerprint("timeout 9"))
    assert await store.count_dead(wanted) == 3
    assert await store.retry_dead_where(wanted, by="anna", now=at(4)) == 3
    assert [letter.delivery_id for letter in (await store.dead_letters(DeadFilter())).letters] == [other]
    assert set(await store.current(group)) == set(group)
    nobody = await of_fingerprint(store, DeadFilter(), "0" * 16)
    assert (await store.count_dead(nobody), await store.retry_dead_where(nobody, by="anna")) == (0, 0)
    assert await store.purge_dead_where(nobody) == 0
