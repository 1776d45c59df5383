"""Group commit: concurrent calls share a commit, and what is wrong with one of them is its own affair."""

import asyncio

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
            assert isinstance(answer, list)
            assert answer[0].accepted
    refused = answers[7]
    assert isinstance(refused, list | EventHubError | ValueError)


async def test_a_caller_that_goes_away_harms_no_other(store: Store) -> None:
    tasks = [asyncio.create_task(store.publish([new(payload=n)])) for n in range(50)]
    await asyncio.sleep(0)
    for task in tasks[::5]:
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(answer, list) for n, answer in enumerate(answers) if n % 5)


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
