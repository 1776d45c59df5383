"""Small claims that come at once are made together: each worker gets its own, as if they came one after the other."""

import asyncio
from collections import Counter

import pytest

from eventhub.core.events import Action
from eventhub.errors import StoreError
from eventhub.store import Store
from eventhub.store.claims import Claim
from tests.conformance.support import ids, new, publish, release, take


async def take_at_once(store: Store, *workers: str, limit: int = 1, **rest: object) -> list[list[Claim]]:
    return await asyncio.gather(*(take(store, limit, now=None, worker=name, **rest) for name in workers))  # type: ignore[arg-type]


def flat(shares: list[list[Claim]]) -> list[int]:
    return sorted(number for share in shares for number in ids(share))


async def picked_by(store: Store, number: int) -> list[str | None]:
    return [entry.worker for entry in await store.log(number) if entry.action is Action.PICKED]


async def test_each_worker_gets_one_and_the_log_says_whose_it_is(store: Store) -> None:
    numbers = await publish(store, *(new() for _ in range(40)), now=None)
    workers = [f"w{number}" for number in range(40)]
    shares = await take_at_once(store, *workers)
    assert flat(shares) == numbers
    current = await store.current(numbers)
    for worker, share in zip(workers, shares, strict=True):
        (claim,) = share
        assert current[claim.held.id].worker == worker
        assert await picked_by(store, claim.event.id) == [worker]
        assert claim.held.fence == current[claim.held.id].fence == 1


async def test_who_comes_first_gets_the_oldest(store: Store) -> None:
    numbers = await publish(store, *(new() for _ in range(3)), now=None)
    first, *others = await take_at_once(store, "a", "b", "c")
    assert ids(first) == numbers[:1]
    assert [ids(share) for share in others] == [[numbers[1]], [numbers[2]]]


async def test_when_there_is_too_little_the_last_get_nothing(store: Store) -> None:
    numbers = await publish(store, *(new() for _ in range(2)), now=None)
    shares = await take_at_once(store, "a", "b", "c", "d")
    assert flat(shares) == numbers
    assert sorted(map(len, shares)) == [0, 0, 1, 1]


async def test_limits_are_kept_by_each(store: Store) -> None:
    numbers = await publish(store, *(new() for _ in range(12)), now=None)
    shares = await take_at_once(store, "a", "b", "c", "d", "e", limit=3)
    assert flat(shares) == numbers
    assert Counter(map(len, shares)) == {3: 4, 0: 1}


async def test_one_name_may_ask_twice_at_once(store: Store) -> None:
    numbers = await publish(store, *(new() for _ in range(6)), now=None)
    shares = await take_at_once(store, "a", "b", "a", "a", "b", "a")
    assert flat(shares) == numbers
    assert all(len(share) == 1 for share in shares)


@pytest.mark.parametrize("tags", [None, {"x"}, {"x", "y"}])
async def test_several_routes_and_priorities_are_gone_through_for_all(store: Store, tags: set[str] | None) -> None:
    urgent = await publish(store, *(new(tags=("x",), priority=5) for _ in range(2)), now=None)
    plain = await publish(store, new(tags=("x",)), new(tags=("x", "y")), new(tags=("x",)), now=None)
    shares = await take_at_once(store, "a", "b", "c", "d", "e", "f", tags=tags)
    assert flat(shares) == urgent + plain
    assert sorted(ids(shares[0]) + ids(shares[1])) == urgent
    assert shares[5] == []


async def test_those_who_want_other_things_do_not_mix(store: Store) -> None:
    mail = await publish(store, *(new(tags=("mail",)) for _ in range(5)), now=None)
    text = await publish(store, *(new(tags=("text",)) for _ in range(5)), now=None)
    mailers, texters = await asyncio.gather(
        take_at_once(store, *"abcde", tags={"mail"}), take_at_once(store, *"abcde", tags={"text"})
    )
    assert (flat(mailers), flat(texters)) == (mail, text)


async def test_work_below_what_was_taken_last_is_found_for_all(store: Store) -> None:
    await publish(store, *(new() for _ in range(20)), now=None)
    early = await take(store, 10, now=None)
    await take(store, 5, now=None, worker="b")
    for claim in early[:3]:
        await release(store, claim, now=None)
    shares = await take_at_once(store, *(f"w{number}" for number in range(12)))
    assert sum(map(len, shares)) == 8
    assert set(ids(early[:3])) <= set(flat(shares))


async def test_who_is_cancelled_gives_back_only_its_own(store: Store) -> None:
    numbers = await publish(store, *(new() for _ in range(8)), now=None)
    tasks = [asyncio.create_task(take(store, now=None, worker=f"w{number}")) for number in range(8)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    kept = [await task for task in tasks[1::2]]
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(len(share) == 1 for share in kept)
    again: list[int] = []
    async with asyncio.timeout(10):
        while len(again) < 4:
            again += ids(await take(store, 10, now=None, worker="late"))
    assert sorted(again + flat(kept)) == numbers


async def test_trouble_of_one_group_is_not_the_others(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await publish(store, *(new(tags=("good",)) for _ in range(3)), now=None)
    together = store._claim_together

    async def claim(wanted):
        if wanted[0].tags == {"bad"}:
            raise StoreError("no")
        return await together(wanted)

    monkeypatch.setattr(store, "_claim_together", claim)
    good, bad = await asyncio.gather(
        take_at_once(store, *"abc", tags={"good"}), take_at_once(store, *"ab", tags={"bad"}), return_exceptions=True
    )
    assert isinstance(bad, StoreError)
    assert not isinstance(good, BaseException)
    assert all(len(share) == 1 for share in good)
