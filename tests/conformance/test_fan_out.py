"""From a broadcast to messages: each subscriber gets each event once, in order, and nothing is lost on the way."""

import asyncio
from collections import Counter
from datetime import timedelta
from secrets import token_hex
from typing import Any

import pytest

from eventhub.core.events import Status
from eventhub.core.lifecycle import Bury, Complete, Retry
from eventhub.errors import InvalidEventError, SubscriberExists
from eventhub.store import Store
from eventhub.store.delivering import MOST_BYTES
from eventhub.store.messages import FannedOut, Marker, MessageClaim, Placement, Plan, routes_of
from eventhub.store.values import Report
from tests.conformance.conftest import OpenAnother
from tests.conformance.hub_support import broadcast, claim, plan, subscriber


def ids(claims: list[MessageClaim]) -> list[int]:
    return [claimed.event_id for claimed in claims]


async def test_every_subscriber_gets_every_event_once(store: Store) -> None:
    a, b = await subscriber(store), await subscriber(store)
    published = await broadcast(store, "1", "2", "3")
    way = await plan(store, a, b)
    assert await store.fan_out(way) == FannedOut(events=3, messages=6)
    assert await store.fan_out(way) == FannedOut()
    events = [event.id for event in published]
    claims = await claim(store, a, b)
    assert sorted((c.subscriber, c.event_id) for c in claims) == sorted((s, e) for s in (a, b) for e in events)
    assert await claim(store, a, b) == []


async def test_an_event_without_subscribers_is_complete_and_one_with_work_waits_for_it(store: Store) -> None:
    (alone,) = await broadcast(store, "1")
    (both,) = await broadcast(store, "2", work=True)
    assert (await store.event(alone.id)).status is Status.PENDING  # type: ignore[union-attr]
    await store.fan_out(await plan(store))
    assert (await store.event(alone.id)).status is Status.COMPLETED  # type: ignore[union-attr]
    assert (await store.event(both.id)).status is Status.PENDING  # type: ignore[union-attr]


async def test_a_plan_made_before_a_subscriber_came_is_not_used(store: Store) -> None:
    way = await plan(store)
    await subscriber(store)
    await broadcast(store, "1")
    assert (await store.fan_out(way)).stale
    assert (await store.fanout_waiting(10))[0] == 1


async def test_targets_name_who_gets_it(store: Store) -> None:
    a, b = await subscriber(store), await subscriber(store)
    await broadcast(store, "1", targets=(b,))
    await store.fan_out(await plan(store, a, b))
    assert [c.subscriber for c in await claim(store, a, b)] == [b]


async def test_a_delayed_broadcast_is_delivered_when_it_is_due(store: Store) -> None:
    a = await subscriber(store)
    await broadcast(store, "1", delay=timedelta(hours=1))
    await store.fan_out(await plan(store, a))
    assert await claim(store, a) == []
    later = await store.now() + timedelta(hours=2)
    await store.tend(now=later)
    assert len(await claim(store, a, now=later)) == 1


async def test_racing_fan_outs_make_each_message_once(store: Store, open_another: OpenAnother) -> None:
    a = await subscriber(store)
    others = [await open_another() for _ in range(3)]
    await broadcast(store, *map(str, range(200)))
    way = await plan(store, a)

    async def work(one: Store) -> int:
        made = 0
        while (await store.fanout_waiting(1))[0]:
            made += (await one.fan_out(way, limit=7)).messages
        return made

    assert sum(await asyncio.gather(*map(work, [store, *others]))) == 200
    assert len(await claim(store, a, most=300)) == 200


async def test_a_key_goes_out_one_at_a_time_in_the_order_of_its_events(store: Store) -> None:
    a = await subscriber(store)
    events = [e.id for e in await broadcast(store, *map(str, range(5)), ordering_key="k")]
    way = await plan(store, a, keyed=True)
    await store.fan_out(way, limit=2)
    await store.fan_out(way, limit=2)
    await store.fan_out(way, limit=2)
    seen = []
    for _ in events:
        (claimed,) = await claim(store, a)
        assert await claim(store, a) == []
        seen.append(claimed.event_id)
        await store.settle([Report(claimed.held, Complete(), detail="{}")])
    assert seen == events


async def test_a_failed_message_waits_on_the_retry_route_and_holds_its_key(store: Store) -> None:
    a = await subscriber(store)
    first, _ = await broadcast(store, "1", "2", ordering_key="k")
    (other,) = await broadcast(store, "3", ordering_key="other")
    await store.fan_out(await plan(store, a, keyed=True))
    claims = {c.event_id: c for c in await claim(store, a)}
    assert set(claims) == {first.id, other.id}
    again = routes_of(a)[1]
    await store.settle([Report(claims[first.id].held, Retry("no", timedelta(hours=1)), detail="{}", again=again)])
    await store.settle([Report(claims[other.id].held, Complete(), detail="{}")])
    assert await claim(store, a) == []
    later = await store.now() + timedelta(hours=2)
    await store.tend(now=later)
    (claimed,) = await claim(store, a, now=later)
    assert (claimed.event_id, claimed.attempts, claimed.failures) == (first.id, 2, 1)


@pytest.mark.parametrize(("roll", "retries"), [(0.0, 1), (0.9, 2)])
async def test_retries_get_their_share_while_first_attempts_wait_and_all_places_when_none_do(
    store: Store, roll: float, retries: int
) -> None:
    a = await subscriber(store)
    await broadcast(store, *map(str, range(8)))
    way = await plan(store, a)
    await store.fan_out(way)
    failed = await claim(store, a)
    again = routes_of(a)[1]
    await store.settle([Report(c.held, Retry("no"), again=again) for c in failed])
    await broadcast(store, *map(str, range(20)))
    await store.fan_out(way)
    mixed = await claim(store, a, most=8, roll=roll)
    assert sum(c.failures > 0 for c in mixed) == retries
    rest = await claim(store, a, most=100)
    assert len(rest) == 20
    await store.settle([Report(c.held, Retry("no"), again=again) for c in mixed])
    assert len(await claim(store, a, most=100)) == 8


async def test_a_limit_gives_everybody_a_first_before_anybody_a_second(store: Store) -> None:
    several = [await subscriber(store, f"s{number}") for number in range(4)]
    await broadcast(store, "1", "2", "3")
    await store.fan_out(await plan(store, *several))
    taken = await claim(store, *several, most=3, limit=6)
    counts = Counter(one.subscriber for one in taken)
    assert counts == dict(zip(several, (2, 2, 1, 1), strict=True)), "in the order in which they were given"
    rest = await claim(store, *reversed(several), most=3, limit=100)
    assert Counter(one.subscriber for one in rest) == dict(zip(several, (1, 1, 2, 2), strict=True))


async def test_the_dead_letter_has_the_subscriber_as_it_was(store: Store) -> None:
    a = await subscriber(store, document='{"url":"http://old.example"}')
    await broadcast(store, "1")
    await store.fan_out(await plan(store, a))
    (claimed,) = await claim(store, a)
    await store.settle([Report(claimed.held, Bury("no"), detail='{"status":500}')])
    await store.change_subscriber(a, expected_version=1, name="n", document='{"url":"http://new.example"}', sealed=None)
    assert (await store.event(claimed.event_id)).status is Status.FAILED  # type: ignore[union-attr]
    assert await store.retry_dead([claimed.held.id], by="me") == {claimed.held.id}
    (revived,) = await claim(store, a)
    assert (revived.held.id, revived.attempts) == (claimed.held.id, 1)
    assert revived.held.fence > claimed.held.fence


async def test_nothing_is_claimed_for_one_that_is_paused(store: Store) -> None:
    a = await subscriber(store)
    await broadcast(store, "1")
    await store.fan_out(await plan(store, a))
    await store.set_status(a, "paused")
    assert await claim(store, a) == []
    await store.set_status(a, "active")
    assert len(await claim(store, a)) == 1


async def test_names_are_taken_once_and_changes_count(store: Store) -> None:
    a = await subscriber(store, "one")
    version = await store.subscribers_version()
    with pytest.raises(SubscriberExists):
        await subscriber(store, "one")
    b = await subscriber(store, "two")
    with pytest.raises(SubscriberExists):
        await store.change_subscriber(b, expected_version=1, name="one", document="{}", sealed=None)
    assert await store.change_subscriber(b, expected_version=7, name="x", document="{}", sealed=None) is None
    changed = await store.change_subscriber(b, expected_version=1, name="x", document="{}", sealed=None)
    assert changed is not None
    assert (changed.name, changed.version) == ("x", 2)
    assert await store.set_status(a, "paused", reason="tired")
    assert not await store.set_status(a, "paused", reason="tired")
    assert not await store.set_status(a, "disabled", expect=frozenset({"active"}))
    assert await store.subscribers_version() == version + 2
    assert [row.name for row in (await store.subscribers())[1]] == ["one", "x"]


async def test_a_removed_subscriber_takes_its_messages_along(store: Store) -> None:
    a = await subscriber(store)
    (event, *_) = await broadcast(store, "1", "2", ordering_key="k")
    await store.fan_out(await plan(store, a, keyed=True))
    (held,) = await claim(store, a)
    assert await store.remove_subscriber(a, by="me") == 2
    assert await store.remove_subscriber(a, by="me") is None
    (late,) = await store.settle([Report(held.held, Complete())])
    assert not late.accepted
    assert [entry.action for entry in await store.log(event.id)][-1] == "CANCELLED"
    assert (await store.event(event.id)).status is Status.COMPLETED  # type: ignore[union-attr]


async def test_one_of_many_opens_a_circuit_and_one_may_probe_it(store: Store, open_another: OpenAnother) -> None:
    a = await subscriber(store)
    others = [store, *[await open_another() for _ in range(3)]]
    now = await store.now()
    rest = timedelta(seconds=10)
    assert sum(await asyncio.gather(*(one.open_circuit(a, rest, now=now) for one in others))) == 1
    assert await store.take_probes({a: rest}, now=now) == set()
    later = now + rest
    taken = await asyncio.gather(*(one.take_probes({a: rest, 99: rest}, now=later) for one in others))
    assert sorted(map(len, taken)) == [0, 0, 0, 1]
    row = await store.subscriber(a)
    assert row is not None
    assert (row.circuit, row.circuit_opens, row.circuit_until) == ("open", 2, later + rest)
    assert await store.close_circuit(a)
    assert not await store.close_circuit(a)


@pytest.mark.parametrize("on_dead", ["skip", "park"])
async def test_the_dead_of_a_key_come_back_in_the_order_of_their_events(store: Store, on_dead: str) -> None:
    parks = on_dead == "park"
    a = await subscriber(store)
    events = [e.id for e in await broadcast(store, "1", "2", "3", ordering_key="k")]
    await store.fan_out(await plan(store, a, keyed=True, parks=parks))
    buried = []
    for _ in range(2):
        (claimed,) = await claim(store, a)
        await store.settle([Report(claimed.held, Bury("no"))])
        buried.append(claimed.held.id)
        if parks and len(buried) == 1:
            assert await store.unpark_key(a, "k", by="me")
    assert await store.retry_dead(buried, by="me") == set(buried)
    seen = []
    while claims := await claim(store, a):
        (claimed,) = claims
        seen.append(claimed.event_id)
        await store.settle([Report(claimed.held, Complete())])
    assert seen == events


async def test_one_that_comes_back_goes_before_a_head_that_waits_but_not_before_one_that_is_under_way(
    store: Store,
) -> None:
    a = await subscriber(store)
    events = [e.id for e in await broadcast(store, "1", "2", "3", ordering_key="k")]
    await store.fan_out(await plan(store, a, keyed=True))
    (first,) = await claim(store, a)
    await store.settle([Report(first.held, Bury("no"))])
    (second,) = await claim(store, a)
    await store.settle([Report(second.held, Retry("no", timedelta(hours=1)), again=routes_of(a)[1])])
    assert await store.retry_dead([first.held.id], by="me")
    (again,) = await claim(store, a)
    assert again.event_id == events[0]
    await store.settle([Report(again.held, Bury("no"))])
    later = await store.now() + timedelta(hours=2)
    await store.tend(now=later)
    (second,) = await claim(store, a, now=later)
    assert second.event_id == events[1]
    assert await store.retry_dead([first.held.id], by="me")
    assert await claim(store, a, now=later) == []
    await store.settle([Report(second.held, Complete())], now=later)
    assert [c.event_id for c in await claim(store, a, now=later)] == [events[0]]


async def test_of_racing_renames_one_wins_and_the_other_is_told(store: Store, open_another: OpenAnother) -> None:
    a, b = await subscriber(store), await subscriber(store)
    other = await open_another()
    answers = await asyncio.gather(
        store.change_subscriber(a, expected_version=1, name="same", document="{}", sealed=None),
        other.change_subscriber(b, expected_version=1, name="same", document="{}", sealed=None),
        return_exceptions=True,
    )
    assert sorted(type(answer).__name__ for answer in answers) == ["SubscriberExists", "SubscriberRow"]


async def test_a_new_limit_holds_for_what_waits_already(store: Store) -> None:
    a = await subscriber(store)
    await broadcast(store, "1")
    await store.fan_out(await plan(store, a))
    await store.change_subscriber(a, expected_version=1, name="n", document="{}", sealed=None, max_attempts=1)
    (claimed,) = await claim(store, a)
    assert claimed.max_attempts == 1
    tended = await store.tend(now=await store.now() + timedelta(hours=1))
    assert tended.buried == (claimed.held.id,)


async def test_a_removal_that_was_cut_off_is_finished_by_others(store: Store) -> None:
    a = await subscriber(store)
    (event,) = await broadcast(store, "1")
    await store.fan_out(await plan(store, a))
    assert await store.ownerless() == []
    assert await store._changing(*_removal(store, a))  # type: ignore[attr-defined]
    assert await store.ownerless() == [a]
    assert await store.cancel_messages(a, by="janitor") == 1
    assert await store.ownerless() == []
    assert (await store.event(event.id)).status is Status.COMPLETED  # type: ignore[union-attr]


def _removal(store: Store, number: int) -> tuple[Any, ...]:
    if store.engine == "sqlite":
        from eventhub.store.sqlite.publishing import SQL as LITE

        return (lambda _: (LITE.remove_subscriber, {"id": number}),)
    from eventhub.store.postgres.publishing import SQL

    return SQL.remove_subscriber, number


async def test_the_hubs_own_queue_is_nobody_elses(store: Store) -> None:
    with pytest.raises(InvalidEventError, match="the hub keeps its messages"):
        await store.claim("hub", worker="w", lease=timedelta(minutes=1))


async def test_a_round_holds_no_more_of_payloads_than_fits(store: Store) -> None:
    """A filter or a key in the payload needs to see it; a backlog of large ones comes in several rounds, in order."""
    one = await subscriber(store)
    large = [f'"{token_hex(1 << 19)}"' for _ in range(2 * MOST_BYTES >> 20)]
    published = [event.id for event in await broadcast(store, *large)]
    without = await plan(store, one)
    seen: list[tuple[int, str | None]] = []

    def place(marker: Marker) -> list[Placement]:
        seen.append((marker.event_id, marker.payload))
        return without.place(marker)

    way = Plan(without.version, without.routes, True, place)
    rounds = []
    while (done := await store.fan_out(way)).events:
        rounds.append(done)
        assert sum(len(payload or "") for _, payload in seen[-done.events :]) < MOST_BYTES + (1 << 20) + 2
    assert len(rounds) == 2
    assert [done.more for done in rounds] == [True, False]
    assert seen == list(zip(published, large, strict=True))


async def test_probes_of_many_circuits_are_taken_at_once_and_each_by_one(
    store: Store, open_another: OpenAnother
) -> None:
    resting = [await subscriber(store) for _ in range(20)]
    rest, now = timedelta(minutes=1), await store.now()
    for number in resting:
        assert await store.open_circuit(number, rest, now=now)
    later = now + timedelta(minutes=2)
    others = [store, await open_another()]
    first, second = await asyncio.gather(*(one.take_probes(dict.fromkeys(resting, rest), now=later) for one in others))
    assert sorted([*first, *second]) == resting
