"""Group commit: concurrent calls share a commit, and what is wrong with one of them is its own affair."""

import asyncio
from collections.abc import Sequence

import pytest

from eventhub.core.lifecycle import Complete, Retry
from eventhub.errors import EventHubError
from eventhub.store import Store
from eventhub.store.batching import Answer, Batcher
from eventhub.store.values import NewEvent, Report
from tests.conformance.support import ids, new, publish, take


def unstorable() -> NewEvent:
    event = new(payload="bad")
    event.type = None  # type: ignore[assignment]
    return event


async def test_concurrent_publishes_share_commits(store: Store) -> None:
    answers = await asyncio.gather(*(store.publish([new(payload=n)]) for n in range(300)))
    # The time of storing is the time of the commit's transaction, so it tells them apart.
    commits = {answer[0].created_at for answer in answers}
    assert len(commits) < 60
    assert len({answer[0].id for answer in answers}) == 300


async def test_concurrent_reports_share_commits(store: Store) -> None:
    await publish(store, *(new() for _ in range(300)), now=None)
    claims = await take(store, 300, now=None)
    answers = await asyncio.gather(*(store.settle([Report(claim.held, Complete())]) for claim in claims))
    assert all(answer[0].accepted for answer in answers)
    ends = {(await store.log(number))[-1].created_at for number in ids(claims)[::3]}
    assert len(ends) < 40


async def test_each_caller_gets_the_answer_to_its_own_call(store: Store) -> None:
    calls = [[new(payload=[n, m]) for m in range(n % 5)] for n in range(60)]
    answers = await asyncio.gather(*(store.publish(call) for call in calls))
    payloads = {claim.event.id: claim.event.payload for claim in await take(store, 1000, now=None)}
    for n, answer in enumerate(answers):
        assert [payloads[published.id] for published in answer] == [[n, m] for m in range(n % 5)]


async def test_a_call_that_cannot_be_stored_harms_no_other(store: Store) -> None:
    calls = [[unstorable(), new()] if n % 10 == 5 else [new(payload=n)] for n in range(60)]
    answers = await asyncio.gather(*(store.publish(call) for call in calls), return_exceptions=True)
    failed = [n for n, answer in enumerate(answers) if isinstance(answer, BaseException)]
    assert failed == [5, 15, 25, 35, 45, 55]
    payloads = [claim.event.payload for claim in await take(store, 100, now=None)]
    assert sorted(payloads) == [n for n in range(60) if n % 10 != 5]


@pytest.mark.parametrize("error", ["a\x00b", "a\ud800b"], ids=["NUL", "lone surrogate"])
async def test_a_report_that_cannot_be_stored_harms_no_other(store: Store, error: str) -> None:
    await publish(store, *(new() for _ in range(20)), now=None)
    claims = await take(store, 20, now=None)
    reports = [Report(c.held, Retry(error) if n == 7 else Complete()) for n, c in enumerate(claims)]
    answers = await asyncio.gather(*(store.settle([each]) for each in reports), return_exceptions=True)
    for n, answer in enumerate(answers):
        if n != 7:
            assert isinstance(answer, Sequence)
            assert answer[0].accepted
    refused = answers[7]
    assert isinstance(refused, list | EventHubError | ValueError)


async def test_a_caller_that_goes_away_harms_no_other(store: Store) -> None:
    tasks = [asyncio.create_task(store.publish([new(payload=n)])) for n in range(50)]
    await asyncio.sleep(0)
    for task in tasks[::5]:
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(answer, Sequence) for n, answer in enumerate(answers) if n % 5)


async def test_what_is_on_its_way_is_stored_before_the_store_closes(store: Store) -> None:
    tasks = [asyncio.create_task(store.publish([new(payload=n)])) for n in range(50)]
    await asyncio.sleep(0)
    await store.close()
    answers = await asyncio.gather(*tasks)
    assert len({answer[0].id for answer in answers}) == 50


class Recorded:
    """A writer that waits to be told to go on."""

    def __init__(self) -> None:
        self.batches: list[list[list[int]]] = []
        self.go = asyncio.Event()

    async def write(self, calls: list[list[int]]) -> list[Answer[int]]:
        self.batches.append(calls)
        await self.go.wait()
        if any(item == 13 for call in calls for item in call):
            raise ArithmeticError("13")
        return [[item * 2 for item in call] for call in calls]


async def test_calls_wait_together_up_to_the_limit_and_stay_whole() -> None:
    recorded = Recorded()
    batcher: Batcher[int, int] = Batcher(recorded.write, limit=4)  # type: ignore[arg-type]
    calls = [[1], [2, 3], [4, 5], [6, 7, 8, 9, 10], [11]]
    tasks = [asyncio.create_task(batcher.put(call)) for call in calls]
    await asyncio.sleep(0)
    recorded.go.set()
    assert await asyncio.gather(*tasks) == [[item * 2 for item in call] for call in calls]
    assert recorded.batches == [[[1], [2, 3]], [[4, 5]], [[6, 7, 8, 9, 10]], [[11]]]


async def test_lanes_are_how_many_batches_may_be_on_their_way() -> None:
    recorded = Recorded()
    batcher: Batcher[int, int] = Batcher(recorded.write, limit=1, lanes=2)  # type: ignore[arg-type]
    tasks = [asyncio.create_task(batcher.put([n])) for n in range(5)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(recorded.batches) == 2
    recorded.go.set()
    await asyncio.gather(*tasks)
    await batcher.drain()
    assert sorted(recorded.batches) == [[[n]] for n in range(5)]


async def test_the_call_to_blame_is_found() -> None:
    recorded = Recorded()
    batcher: Batcher[int, int] = Batcher(recorded.write)  # type: ignore[arg-type]
    recorded.go.set()
    answers = await asyncio.gather(*(batcher.put([n]) for n in (1, 13, 2)), return_exceptions=True)
    assert answers[0] == [2]
    assert isinstance(answers[1], ArithmeticError)
    assert answers[2] == [4]


async def test_a_call_that_comes_alone_is_written_in_place_and_the_next_ones_together() -> None:
    recorded = Recorded()
    batcher: Batcher[int, int] = Batcher(recorded.write, in_place=True)  # type: ignore[arg-type]
    first = asyncio.create_task(batcher.put([1]))
    await asyncio.sleep(0)
    assert recorded.batches == [[[1]]]
    assert not batcher._running
    others = [asyncio.create_task(batcher.put([n])) for n in (2, 3, 4)]
    await asyncio.sleep(0)
    recorded.go.set()
    assert await asyncio.gather(first, *others) == [[2], [4], [6], [8]]
    assert recorded.batches == [[[1]], [[2], [3], [4]]]
    many = [asyncio.create_task(batcher.put([n])) for n in (5, 6)]  # there was company just now
    assert await asyncio.gather(*many) == [[10], [12]]
    assert recorded.batches[2:] == [[[5], [6]]]
    assert await batcher.put([7]) == [14]
    recorded.go.clear()
    last = asyncio.create_task(batcher.put([8]))
    await asyncio.sleep(0)
    assert recorded.batches[-1] == [[8]]
    assert not batcher._running
    recorded.go.set()
    assert await last == [16]


async def test_who_is_cancelled_in_place_leaves_the_way_free() -> None:
    recorded = Recorded()
    batcher: Batcher[int, int] = Batcher(recorded.write, in_place=True)  # type: ignore[arg-type]
    first = asyncio.create_task(batcher.put([1]))
    await asyncio.sleep(0)
    second = asyncio.create_task(batcher.put([2]))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    recorded.go.set()
    assert await second == [4]


@pytest.mark.timeout(20)
def test_a_loop_that_ends_in_the_middle_leaves_a_batcher_that_another_can_use() -> None:
    recorded = Recorded()
    batcher: Batcher[int, int] = Batcher(recorded.write, in_place=True)  # type: ignore[arg-type]

    async def cut_off() -> None:
        for n in (1, 2, 3):
            asyncio.ensure_future(batcher.put([n]))  # noqa: RUF006 - the end of the loop cancels them
        await asyncio.sleep(0)

    async def go_on() -> None:
        recorded.go.set()
        await batcher.drain()
        assert await batcher.put([4]) == [8]

    asyncio.run(cut_off())
    assert (batcher._busy, len(batcher._waiting)) == (0, 0)
    asyncio.run(go_on())


async def test_an_error_in_place_is_the_callers_and_leaves_the_way_free() -> None:
    recorded = Recorded()
    batcher: Batcher[int, int] = Batcher(recorded.write, in_place=True)  # type: ignore[arg-type]
    recorded.go.set()
    with pytest.raises(ArithmeticError):
        await batcher.put([13])
    assert await batcher.put([1]) == [2]


async def test_draining_waits_for_what_is_written_in_place() -> None:
    recorded = Recorded()
    batcher: Batcher[int, int] = Batcher(recorded.write, in_place=True)  # type: ignore[arg-type]
    writing = asyncio.create_task(batcher.put([1]))
    await asyncio.sleep(0)
    draining = asyncio.create_task(batcher.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    recorded.go.set()
    await draining
    assert await writing == [2]


async def test_a_publisher_that_is_cancelled_leaves_the_store_whole(store: Store) -> None:
    """Alone, it cancels its own statement: afterwards the event is there, or it is not, and the next one is stored."""
    for turn in range(20):
        lonely = asyncio.create_task(store.publish([new(payload=turn)]))
        for _ in range(turn % 7):
            await asyncio.sleep(0)
        lonely.cancel()
        await asyncio.gather(lonely, return_exceptions=True)
        (published,) = await store.publish([new(payload="next")])
        assert await store.event(published.id) is not None
