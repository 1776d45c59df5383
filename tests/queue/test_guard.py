"""A step of an event is done once, however often its handler runs."""

import asyncio

import pytest

from eventhub.errors import InvalidEventError
from eventhub.queue import IdempotencyGuard


@pytest.fixture(params=["queue", "store"])
def guard(request, queue, store):
    return IdempotencyGuard(queue if request.param == "queue" else store)


async def test_a_step_is_first_once(guard, queue):
    event = await queue.publish("a", 1)
    assert not await guard.is_guarded(event, "charge")
    assert await guard(event, "charge")
    assert not await guard(event, "charge")
    assert await guard.is_guarded(event.id, "charge")


async def test_steps_and_events_are_guarded_separately(guard, queue):
    one, other = await queue.publish("a", 1), await queue.publish("a", 2)
    assert await guard(one, "charge")
    assert await guard(one.id, "mail")
    assert await guard(other, "charge")


async def test_only_one_of_many_at_once_is_first(guard, queue):
    event = await queue.publish("a", 1)
    answers = await asyncio.gather(*(guard(event, "charge") for _ in range(20)))
    assert sorted(answers) == [False] * 19 + [True]


async def test_once_marks_only_what_succeeded(guard, queue):
    event = await queue.publish("a", 1)

    async def fail_inside():
        async with guard.once(event, "charge") as first:
            assert first
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail_inside()
    async with guard.once(event, "charge") as first:
        assert first
    async with guard.once(event, "charge") as first:
        assert not first


@pytest.mark.parametrize("step", ["", "x" * 201, "a\x00b", 7])
async def test_a_step_needs_a_name(guard, step):
    with pytest.raises(InvalidEventError, match="is not usable"):
        await guard(1, step)


@pytest.mark.parametrize("event", ["x", None, 1.5, True, 0, -1, 2**63, b"1"], ids=repr)
async def test_what_is_no_event_is_refused(guard, event):
    with pytest.raises(InvalidEventError, match="give an event, or the id of one"):
        await guard(event, "step")
    with pytest.raises(InvalidEventError):
        await guard.is_guarded(event, "step")
