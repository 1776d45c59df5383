"""Races: many tasks over several stores at once, as many processes would be, and what must hold all the same."""

import asyncio
import random
from collections import Counter, defaultdict

import pytest

from eventhub.core.lifecycle import Bury, Complete, Outcome, Release, Retry, State
from eventhub.store import Store
from eventhub.store.claims import Claim, Held
from eventhub.store.values import Report
from tests.conformance.conftest import OpenAnother
from tests.conformance.support import (
    MINUTE,
    QUEUE,
    bury,
    complete,
    fail,
    ids,
    new,
    publish,
    publish_one,
    seconds,
    take,
    take_one,
)

ENDS = {"COMPLETED", "FAILED", "RELEASED", "ABANDONED", "RESET"}


@pytest.fixture
async def stores(store: Store, open_another: OpenAnother) -> list[Store]:
    return [store, await open_another(), await open_another()]


class Watched:
    """Work that is checked while it runs: of one key never two at a time, and always in order."""

    def __init__(self) -> None:
        self.active: set[str] = set()
        self.seen: defaultdict[str, list[int]] = defaultdict(list)
        self.done = 0

    def begin(self, claim: Claim) -> None:
        key = claim.event.ordering_key or f"unordered {claim.event.id}"
        assert key not in self.active, f"two of {key} at a time"
        self.active.add(key)
        if not self.seen[key] or self.seen[key][-1] != claim.event.id:
            self.seen[key].append(claim.event.id)

    def end(self, claim: Claim, *, final: bool = True) -> None:
        self.active.discard(claim.event.ordering_key or f"unordered {claim.event.id}")
        self.done += final


async def work_until(store: Store, watched: Watched, total: int, *, limit: int, seed: int) -> None:
    """Claim and settle until everything is done: most are completed, some fail, are released or are buried."""
    dice = random.Random(seed)
    idle = 0
    while watched.done < total:
        claims = await take(store, limit, now=None, worker=f"worker-{seed}")
        idle = 0 if claims else idle + 1
        assert idle < 3000, f"a key hangs: {watched.done} of {total} done"
        for claim in claims:
            watched.begin(claim)
        reports = []
        for claim in claims:
            roll = dice.random()
            final = roll < 0.8
            watched.end(claim, final=final)
            outcome = Complete() if roll < 0.7 else Bury("bad") if final else Retry("x") if roll < 0.9 else Release()
            reports.append(Report(claim.held, outcome))
        if reports:
            assert all(answer.accepted for answer in await store.settle(reports))
        else:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("limit", [1, 7])
async def test_publishing_and_settling_race_on_few_keys_and_none_hangs(stores: list[Store], limit: int) -> None:
    watched = Watched()
    published: defaultdict[str, list[int]] = defaultdict(list)

    async def produce(store: Store, key: str) -> None:
        for n in range(15):
            numbers = await publish(store, *(new(key=key) for _ in range(1 + n % 2)), now=None)
            published[key] += numbers

    keys = ["a", "b", "c", "d"]
    total = len(keys) * 22
    producers = [produce(stores[n % 3], key) for n, key in enumerate(keys)]
    workers = [work_until(stores[n % 3], watched, total, limit=limit, seed=n) for n in range(6)]
    await asyncio.gather(*producers, *workers)
    assert watched.seen == published


async def test_many_publishers_of_one_key_get_it_worked_through_one_at_a_time(stores: list[Store]) -> None:
    watched = Watched()
    publishers = [publish_one(stores[n % 3], None, key="k", payload=n) for n in range(60)]
    workers = [work_until(stores[n % 3], watched, 60, limit=2, seed=n) for n in range(4)]
    results = await asyncio.gather(*publishers, *workers)
    assert sorted(watched.seen["k"]) == sorted(number for number in results if number is not None)


async def test_the_last_of_a_key_ends_while_the_next_is_published(stores: list[Store]) -> None:
    publisher, worker, other = stores
    await publish_one(publisher, None, key="k")
    for _ in range(60):
        claim = await take_one(worker, None)
        done, number, looked = await asyncio.gather(
            complete(worker, claim, None), publish_one(publisher, None, key="k"), take(other, 10, now=None)
        )
        assert done
        standing = (await publisher.current([number]))[number]
        if looked:
            assert ids(looked) == [number]
            assert await fail(other, looked[0], now=None)
        else:
            assert standing.state is State.READY, "the key has no head"


async def test_settling_the_same_keys_in_opposite_order_harms_nobody(stores: list[Store]) -> None:
    one, two, three = stores
    keys = [f"k{n}" for n in range(12)]
    await publish(one, *(new(key=key) for key in keys * 6), now=None)
    for _ in range(5):
        claims = await take(one, 100, now=None)
        assert len(claims) == 12
        forward = [Report(claim.held, Complete()) for claim in claims]
        backward = [Report(claim.held, Bury("zombie")) for claim in claims[::-1]]
        shuffled = [new(key=key) for key in random.sample(keys, 12)]
        first, second, _ = await asyncio.gather(one.settle(forward), two.settle(backward), three.publish(shuffled))
        accepted = [answer.id for answer in [*first, *second] if answer.accepted]
        assert sorted(accepted) == sorted(ids(claims)), "each claim ends exactly once"


async def test_halves_of_the_same_keys_are_settled_from_both_ends(stores: list[Store]) -> None:
    one, two, _ = stores
    keys = [f"k{n}" for n in range(10)]
    for _ in range(6):
        await publish(one, *(new(key=key) for key in keys * 2), now=None)
        for _ in range(2):
            claims = await take(one, 100, now=None)
            mixed = [
                [Report(c.held, Retry("again") if n % 2 else Complete()) for n, c in enumerate(claims)],
                [Report(c.held, Complete() if n % 2 else Retry("again")) for n, c in enumerate(claims[::-1])],
            ]
            answers = await asyncio.gather(one.settle(mixed[0]), two.settle(mixed[1]))
            assert sum(answer.accepted for part in answers for answer in part) == len(claims)
        rest = 1
        while rest:
            claims = await take(one, 100, now=None)
            rest = len(claims)
            await one.settle([Report(claim.held, Complete()) for claim in claims])


async def test_extending_and_settling_a_mixed_batch_do_not_block_each_other(stores: list[Store]) -> None:
    worker, heart, _ = stores
    for _ in range(10):
        await publish(worker, *(new() for _ in range(60)), now=None)
        claims = await take(worker, 60, now=None)
        held = [claim.held for claim in claims]
        reports = [Report(each, Complete() if n % 2 else Retry("x", MINUTE)) for n, each in enumerate(held[::-1])]
        beats = asyncio.gather(*(heart.extend(held, MINUTE) for _ in range(4)))
        answers, _ = await asyncio.gather(worker.settle(reports), beats)
        assert all(answer.accepted for answer in answers)


@pytest.mark.parametrize(
    "outcome", [Complete(), Retry("x", MINUTE), Bury("x"), Release()], ids=lambda o: type(o).__name__
)
@pytest.mark.parametrize("key", [None, "k"], ids=["unordered", "ordered"])
async def test_a_heartbeat_at_the_moment_of_the_report_does_not_get_it_refused(
    stores: list[Store], outcome: Outcome, key: str | None
) -> None:
    worker, heart, other = stores
    for turn in range(8):
        await publish(worker, *(new(key=key and f"{key}{turn}-{n}") for n in range(20)), now=None)
        held = [claim.held for claim in await take(worker, 20, now=None)]
        _, answers, _ = await asyncio.gather(
            heart.extend(held, MINUTE),
            worker.settle([Report(each, outcome) for each in held]),
            other.extend(held, MINUTE),
        )
        assert all(answer.accepted for answer in answers)
        while claims := await take(worker, 100, now=None):
            await worker.settle([Report(claim.held, Complete()) for claim in claims])


async def test_heartbeats_at_the_same_moment_lose_no_claim(stores: list[Store]) -> None:
    await publish(stores[0], *(new() for _ in range(30)), now=None)
    held = [claim.held for claim in await take(stores[0], 30, now=None)]
    for _ in range(10):
        assert await asyncio.gather(*(each.extend(held, MINUTE) for each in stores)) == [set()] * 3


async def test_a_zombie_and_the_current_worker_report_at_once(stores: list[Store]) -> None:
    one, two, three = stores
    for turn in range(30):
        head, behind = await publish(one, new(key=f"k{turn}"), new(key=f"k{turn}"), now=None)
        zombie = await take_one(one, None)
        await one.reset(head, reason="race")
        current = await take_one(two, None)
        assert current.event.id == head
        wrong, right, _ = await asyncio.gather(complete(one, zombie, None), complete(two, current, None), three.tend())
        assert (wrong, right) == (False, True)
        assert ids(await take(one, 10, now=None)) == [behind]


async def test_a_parked_key_that_is_retried_and_unparked_at_once_goes_on(stores: list[Store]) -> None:
    one, two, three = stores
    for turn in range(20):
        key = f"k{turn}"
        head, behind = await publish(
            one, new(key=key, park_when_dead=True), new(key=key, park_when_dead=True), now=None
        )
        await bury(one, await take_one(one, None), now=None)
        retried, unparked, more = await asyncio.gather(
            one.retry_dead([head], by="anna"),
            two.unpark(QUEUE, key, by="bert"),
            publish_one(three, None, key=key),
        )
        assert retried or unparked
        expected = [head, behind, more] if retried and not unparked else None
        seen = []
        while claims := await take(one, 10, now=None):
            assert len(claims) == 1, "one head at a time"
            seen += ids(claims)
            await complete(one, claims[0], None)
        assert {behind, more} <= set(seen)
        assert (head in seen) == bool(retried)
        assert expected is None or seen == expected


async def test_an_admin_retries_while_the_key_moves_on(stores: list[Store]) -> None:
    one, two, _ = stores
    for turn in range(20):
        numbers = await publish(one, *(new(key=f"k{turn}") for _ in range(4)), now=None)
        await bury(one, await take_one(one, None), now=None)
        claim = await take_one(one, None)
        retried, done = await asyncio.gather(two.retry_dead(numbers[:1], by="anna"), complete(one, claim, None))
        assert retried == {numbers[0]}
        assert done
        seen = []
        while claims := await take(one, 10, now=None):
            assert len(claims) == 1
            seen += ids(claims)
            await complete(one, claims[0], None)
        assert sorted(seen) == sorted([numbers[0], *numbers[2:]])
        assert [number for number in seen if number != numbers[0]] == numbers[2:]


async def test_racing_admins_retry_once(stores: list[Store]) -> None:
    for _ in range(10):
        number = await publish_one(stores[0], None)
        await bury(stores[0], await take_one(stores[0], None), now=None)
        answers = await asyncio.gather(*(each.retry_dead([number], by="me") for each in stores for _ in range(2)))
        assert answers.count({number}) == 1
        assert answers.count(set()) == 5
        await complete(stores[0], await take_one(stores[0], None), None)


async def test_however_claims_end_at_once_each_ends_exactly_once(stores: list[Store]) -> None:
    """Leases that end at once, while workers report, extend and give back, and others sweep."""
    one, two, three = stores
    keys = [None, None, "a", "b"]
    numbers = await publish(one, *(new(key=keys[n % 4], max_attempts=6) for n in range(40)), now=None)
    accepted: Counter[tuple[int, int]] = Counter()

    async def worker(store: Store, name: str, seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(40):
            for claim in await take(store, 3, now=None, worker=name, lease=seconds(dice.choice([0, 0.002, 5]))):
                if dice.random() < 0.3:
                    await store.extend([claim.held], seconds(0.001))
                outcome = dice.choice([Complete(), Retry("x"), Release(), None])
                if outcome is not None:
                    (answer,) = await store.settle([Report(claim.held, outcome)])
                    accepted[claim.held.id, claim.held.fence] += answer.accepted

    async def sweep(store: Store) -> None:
        for turn in range(60):
            await (store.take_back(["w1"]) if turn % 9 == 8 else store.tend())

    await asyncio.gather(worker(one, "w1", 1), worker(two, "w2", 2), worker(three, "w3", 3), sweep(two), sweep(three))
    for number in numbers:
        log = await one.log(number)
        ended = Counter(entry.fence for entry in log if entry.action in ENDS)
        picked = [entry.fence or 0 for entry in log if entry.action == "PICKED"]
        assert picked == sorted(set(picked)), "fences only grow"
        assert all(count == 1 for count in ended.values()), "an attempt ends once"
        reported = {e.fence for e in log if e.action in {"COMPLETED", "FAILED", "RELEASED"}}
        assert reported == {fence for (each, fence), count in accepted.items() if each == number and count}
        standing = (await one.current([number])).get(number)
        settled = standing is None
        assert settled == any(entry.action in {"COMPLETED", "DEAD"} for entry in log)
        if standing is not None:
            assert standing.fence == len(picked)
            assert standing.attempts == len(picked) - sum(entry.action == "RELEASED" for entry in log)


async def test_a_lease_extended_at_the_last_moment_is_not_swept_away(stores: list[Store]) -> None:
    one, two, three = stores
    for _ in range(20):
        number = await publish_one(one, None, max_attempts=1)
        claim = await take_one(one, None, lease=seconds(0))
        lost, *_ = await asyncio.gather(one.extend([claim.held], MINUTE), two.tend(), three.tend())
        standing = (await one.current([number])).get(number)
        if lost:
            assert standing is None
            letter = await one.dead_event(number)
            assert letter is not None
            assert letter.reason == "worker_lost"
        else:
            assert standing is not None
            assert standing.state is State.LEASED
            assert await complete(one, claim, None)


async def test_a_head_unknown_to_its_reporter_moves_on_under_fire(stores: list[Store]) -> None:
    one, two, _ = stores
    for turn in range(20):
        head, behind = await publish(one, new(key=f"k{turn}"), new(key=f"k{turn}"), now=None)
        claim = await take_one(one, None)
        bare = Held(claim.held.id, claim.held.fence)
        answers = await asyncio.gather(one.settle([Report(bare, Complete())]), two.settle([Report(bare, Bury("late"))]))
        assert sum(answer.accepted for (answer,) in answers) == 1
        assert ids(await take(one, 10, now=None)) == [behind]
        assert head not in await one.current([head])
