"""Finalizing: the first verdict stands, and whoever lost the claim changes nothing."""

import asyncio

import pytest

from eventhub.core.events import Action, Status
from eventhub.core.outcomes import PermanentError
from eventhub.errors import ClaimLost, EventNotFound, SettingsError


async def actions(store, event_id):
    return [entry.action for entry in await store.log(event_id)]


async def test_success_completes_the_event(queue, store):
    event = await queue.publish("a", 1)
    await queue.poll()
    await queue.finalize(event.id, success=True)
    assert (await store.event(event.id)).status is Status.COMPLETED
    assert await actions(store, event.id) == [Action.PUBLISHED, Action.PICKED, Action.COMPLETED]
    assert await queue.poll() is None


async def test_without_an_argument_finalize_means_success(queue, store):
    event = await queue.publish("a", 1)
    await queue.finalize(await queue.poll())
    assert (await store.event(event.id)).status is Status.COMPLETED


async def test_no_success_fails_the_event_and_keeps_a_dead_letter(queue, store):
    event = await queue.publish("a", {"n": 1})
    await queue.poll()
    await queue.finalize(event.id, success=False)
    assert (await store.event(event.id)).status is Status.FAILED
    dead = await store.dead_event(event.id)
    assert (dead.reason, dead.errors, dead.payload) == ("finalized", ["finalized as failed"], {"n": 1})


async def test_errors_complete_the_event_with_errors(queue, store):
    event = await queue.publish("a", 1)
    await queue.poll()
    errors = [PermanentError("mailer", "no such address"), PermanentError("ledger", "closed")]
    await queue.finalize(event.id, errors=errors)
    assert (await store.event(event.id)).status is Status.COMPLETED_WITH_ERRORS
    dead = await store.dead_event(event.id)
    assert dead.status is Status.COMPLETED_WITH_ERRORS
    assert dead.errors == ["mailer: no such address; ledger: closed"]


async def test_errors_that_no_database_could_hold_are_made_fit(queue, store):
    event = await queue.publish("a", 1)
    await queue.poll()
    await queue.finalize(event.id, errors=[PermanentError("x", "nul \x00 lone \ud800 " + "long" * 10_000)])
    (error,) = (await store.dead_event(event.id)).errors
    assert "nul \\x00 lone \\ud800" in error
    assert len(error) < 11_000


async def test_success_and_errors_at_once_make_no_sense(queue):
    event = await queue.publish("a", 1)
    with pytest.raises(SettingsError, match="success=True and 1 errors"):
        await queue.finalize(event.id, success=True, errors=[PermanentError("a", "b")])
    with pytest.raises(ValueError, match="errors contains 7"):
        await queue.finalize(event.id, errors=[7])


@pytest.mark.parametrize("again", [{"success": True}, {"success": False}, {"errors": [PermanentError("a", "b")]}])
async def test_the_first_verdict_stands(queue, make_queue, store, again):
    event = await queue.publish("a", 1)
    polled = await queue.poll()
    await queue.finalize(event.id, success=True)
    before = await actions(store, event.id)
    await queue.finalize(event.id, **again)
    await queue.finalize(polled, **again)
    await queue.finalize(event.id, fence=polled.fence, **again)
    await make_queue().finalize(event.id, **again)
    assert (await store.event(event.id)).status is Status.COMPLETED
    assert await actions(store, event.id) == before


async def test_an_unknown_id_is_not_found(queue):
    for unknown in (4711, 2**70, -1):
        with pytest.raises(EventNotFound, match=f"Event with id {unknown} not found"):
            await queue.finalize(unknown, success=True)


async def test_an_event_of_another_queue_is_not_found(queue, make_queue, store):
    event = await make_queue(queue="other").publish("a", 1)
    with pytest.raises(EventNotFound):
        await queue.finalize(event.id, success=True)
    assert (await store.event(event.id)).status is Status.PENDING


@pytest.mark.parametrize(
    ("verdict", "status"),
    [({"success": True}, Status.COMPLETED), ({"success": False}, Status.FAILED)],
)
async def test_a_never_polled_event_may_be_finalized(queue, store, verdict, status):
    event = await queue.publish("a", 1)
    await queue.finalize(event, **verdict)
    assert (await store.event(event.id)).status is status
    assert await queue.poll() is None


async def test_an_event_that_waits_for_its_time_may_be_finalized(queue, store, clock):
    event = await queue.publish("a", 1, delay=60)
    await queue.finalize(event.id, success=True)
    clock.advance(60)
    assert await queue.poll() is None


async def test_a_worker_that_lost_its_claim_is_told_and_changes_nothing(make_queue, clock, store):
    slow, quick = make_queue(worker="worker-a"), make_queue(worker="worker-b")
    event = await slow.publish("a", 1)
    await slow.poll()
    clock.advance(61)
    taken = await quick.poll()
    before = (await store.event(event.id), await store.log(event.id))
    for report in (
        lambda: slow.finalize(event.id, success=True),
        lambda: slow.finalize(event.id, success=False),
        lambda: slow.finalize(event.id, fence=1),
        lambda: slow.extend(event.id),
        lambda: slow.fail(event.id, "x"),
        lambda: slow.release(event.id),
    ):
        with pytest.raises(ClaimLost):
            await report()
        assert (await store.event(event.id), await store.log(event.id)) == before
    await quick.finalize(taken)
    assert (await store.event(event.id)).status is Status.COMPLETED


async def test_the_error_names_both_attempts_and_the_remedy(make_queue, clock):
    slow, quick = make_queue(worker="worker-a"), make_queue(worker="worker-b")
    event = await slow.publish("a", 1)
    await slow.poll()
    clock.advance(61)
    await quick.poll()
    with pytest.raises(ClaimLost) as caught:
        await slow.finalize(event.id, success=True)
    assert str(caught.value) == (
        f"Delivery {event.id}, attempt 1: the lease ended and attempt 2 is running on worker-b. "
        "Set abandoned_after (60s) above the handler's longest run, or extend it while it runs."
    )


async def test_a_zombie_in_the_same_queue_object_is_known_by_its_fence(queue, clock, store):
    await queue.publish("a", 1)
    zombie = await queue.poll()
    clock.advance(61)
    successor = await queue.poll()
    with pytest.raises(ClaimLost):
        await queue.finalize(zombie, success=False)
    await queue.finalize(successor, success=True)
    assert (await store.event(zombie.id)).status is Status.COMPLETED


async def test_a_zombie_cannot_finalize_what_waits_for_its_next_attempt(make_queue, clock, store):
    slow, other = make_queue(), make_queue()
    await slow.publish("a", 1)
    zombie = await slow.poll()
    clock.advance(61)
    await other.release(await other.poll())
    with pytest.raises(ClaimLost, match="waits for its next attempt"):
        await slow.finalize(zombie)
    assert (await store.event(zombie.id)).status is Status.PENDING


@pytest.mark.parametrize("first", ["finalize", "finalize_many", "fail", "release", "extend"])
@pytest.mark.parametrize("successor", ["release", "fail"])
async def test_a_zombie_that_was_told_once_is_told_again(make_queue, clock, store, first, successor):
    slow, quick = make_queue(), make_queue()
    event = await slow.publish("a", 1)
    await slow.poll()
    clock.advance(61)
    taken = await quick.poll()
    reports = {
        "finalize": lambda: slow.finalize(event.id, success=True),
        "finalize_many": lambda: slow.finalize_many([event.id], success=True),
        "fail": lambda: slow.fail(event.id, "too late"),
        "release": lambda: slow.release(event.id),
        "extend": lambda: slow.extend(event.id),
    }
    with pytest.raises(ClaimLost):
        await reports[first]()
    await (quick.release(taken) if successor == "release" else quick.fail(taken, "x"))
    before = (await store.event(event.id), await store.log(event.id))
    for report in reports.values():  # nobody holds it now, but the claim that was lost stays lost
        with pytest.raises(ClaimLost):
            await report()
        assert (await store.event(event.id), await store.log(event.id)) == before


async def test_somebody_elses_claim_cannot_be_finalized_by_its_id(make_queue, store):
    holder, stranger = make_queue(worker="holder"), make_queue()
    event = await holder.publish("a", 1)
    await holder.poll()
    with pytest.raises(ClaimLost, match="attempt 1 is running on holder"):
        await stranger.finalize(event.id, success=True)
    assert (await store.event(event.id)).status is Status.PROCESSING


async def test_a_fence_carries_the_claim_to_another_queue_object(make_queue, store):
    holder, colleague = make_queue(), make_queue()
    event = await holder.publish("a", 1)
    polled = await holder.poll()
    await colleague.finalize(event.id, fence=polled.fence)
    assert (await store.event(event.id)).status is Status.COMPLETED


async def test_a_forgotten_claim_of_this_worker_is_found_again(make_queue, store):
    event = await make_queue(worker="w").publish("a", 1)
    await make_queue(worker="w").poll()
    await make_queue(worker="w").finalize(event.id, success=True)
    assert (await store.event(event.id)).status is Status.COMPLETED


async def test_racing_finalizers_end_an_event_once(make_queue, store):
    event = await make_queue().publish("a", 1)
    await asyncio.gather(*(make_queue().finalize(event.id, success=True) for _ in range(10)))
    assert await actions(store, event.id) == [Action.PUBLISHED, Action.COMPLETED]


async def test_finalize_racing_a_poll_is_judged_again(make_queue, store):
    for _ in range(20):
        one, other = make_queue(), make_queue()
        event = await one.publish("a", 1)
        finalizing, polling = one.finalize(event.id, success=True), other.poll()
        answers = await asyncio.gather(finalizing, polling, return_exceptions=True)
        if isinstance(answers[0], ClaimLost):
            await other.finalize(answers[1])
        assert (await store.event(event.id)).status is Status.COMPLETED


async def test_many_are_finalized_in_one_go(queue, store):
    ids = await queue.publish_many([{"type": "n", "payload": n} for n in range(50)])
    await queue.finalize_many(await queue.poll_many(50), success=True)
    assert {(await store.event(event_id)).status for event_id in ids} == {Status.COMPLETED}
    assert len(queue._claims) == 0


async def test_those_who_lost_their_claim_do_not_hold_up_the_others(make_queue, clock, store):
    slow, quick = make_queue(), make_queue()
    await slow.publish_many([{"type": "n", "payload": n} for n in range(3)])
    mine = await slow.poll_many(3)
    clock.advance(61)
    stolen = await quick.poll()
    for event in mine[1:]:
        await slow.store.claim_ids([event.id], worker=slow.worker, lease=slow.abandoned_after, now=clock.now())
    with pytest.raises(ClaimLost, match=f"Delivery {stolen.id}"):
        await slow.finalize_many([mine[0], mine[1].id, mine[2].id])
    with pytest.raises(EventNotFound, match="4711"):
        await slow.finalize_many([4711])


async def test_failing_what_is_not_claimed_is_refused(queue):
    event = await queue.publish("a", 1)
    with pytest.raises(ClaimLost, match="is not claimed"):
        await queue.fail(event.id, "x")
    await queue.finalize(event.id)
    with pytest.raises(ClaimLost, match="settled already"):
        await queue.release(event.id)
