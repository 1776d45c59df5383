"""A real SQLite store beside the model: it gets the same calls, and must answer and stand the same after each."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from eventhub.core.lifecycle import State
from eventhub.core.strict_json import dump
from eventhub.errors import IdempotencyConflict
from eventhub.store import Store, open_store
from eventhub.store.claims import Claim as WorkClaim
from eventhub.store.messages import HUB, MessageClaim, WantedMessages
from eventhub.store.values import Current, lane_id
from eventhub.testing.simulation.calls import (
    Call,
    Claim,
    ClaimMessages,
    Extend,
    FanOut,
    Grant,
    Publish,
    Refused,
    Reply,
    Reset,
    RetryDead,
    Settle,
    TakeBack,
    Tend,
    Unpark,
)
from eventhub.testing.simulation.memory import Memory
from eventhub.testing.simulation.model import WORK, Row
from eventhub.testing.simulation.setup import Setup, directory, rows_of

__all__ = ["SqliteTwin"]

_OPERATOR = "operator"


class SqliteTwin:
    """Lives in memory; made for one world, and closed with it."""

    def __init__(self, setup: Setup) -> None:
        self._loop = asyncio.new_event_loop()
        self._letters: set[tuple[int, int]] = set()
        self._store: Store = self._wait(open_store(":memory:").open())
        for row in rows_of(setup):
            number = self._wait(self._store.next_id())
            if number != row.id:
                raise RuntimeError(f"The first numbers of a store are subscribers' here, and {number} is not {row.id}.")
            self._wait(self._store.add_subscriber(row))
        version = self._wait(self._store.subscribers_version())
        self._plan = directory(setup, version).plan()

    def close(self) -> None:
        self._wait(self._store.close())
        self._loop.close()

    def _wait(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def compare(self, call: Call, reply: Reply, memory: Memory, now: datetime) -> str | None:
        """Ask the store, too, and say what is different."""
        return self._loop.run_until_complete(self._compare(call, reply, memory, now))

    async def _compare(self, call: Call, reply: Reply, memory: Memory, now: datetime) -> str | None:
        answer = await self._answer(call, now)
        if answer != reply:
            return f"the store answers {answer}, the model {reply}"
        rows = memory.model.rows
        stands = await self._store.current(list(rows))
        for number, row in rows.items():
            expected = _current(row)
            if stands.get(number) != expected:
                return f"delivery {number} is {stands.get(number)} in the store, {expected} in the model"
        return await self._compare_letters(rows)

    async def _compare_letters(self, rows: dict[int, Row]) -> str | None:
        """Those that were written since the last look."""
        for row in rows.values():
            letter = row.letter
            if letter is None or (row.id, row.fence) in self._letters:
                continue
            self._letters.add((row.id, row.fence))
            found = await self._store.dead_letter(row.id)
            expected = (letter.attempts, letter.failures, letter.errors, str(letter.reason))
            shown = found and (found.attempts, found.retry_count, list(found.errors), str(found.reason))
            if shown != expected:
                return f"the letter of delivery {row.id} is {shown} in the store, {expected} in the model"
        return None

    def ends(self, memory: Memory) -> str | None:
        """A last look at all events and their logs."""
        return self._loop.run_until_complete(self._compare_ends(memory))

    async def _compare_ends(self, memory: Memory) -> str | None:
        for number in memory.events:
            event = await self._store.event(number)
            if event is None or event.status != memory.status(number):
                return f"event {number} is {event and event.status} in the store, {memory.status(number)} in the model"
            log = await self._store.log(number)
            for row in (row for row in memory.model.rows.values() if row.event == number):
                told = [(str(entry.action), entry.created_at) for entry in log if entry.delivery_id == row.id]
                if told != row.log:
                    return f"the log of delivery {row.id} tells {told} in the store, {row.log} in the model"
        return None

    async def _answer(self, call: Call, now: datetime) -> Any:  # noqa: PLR0911 - one for each call
        store = self._store
        match call:
            case Publish(events):
                try:
                    return list(await store.publish(events, now=now))
                except IdempotencyConflict:
                    return Refused()
            case Claim(worker, lease, limit, max_attempts):
                asked: dict[str, Any] = {"worker": worker, "lease": lease, "max_attempts": max_attempts}
                return [_grant(each) for each in await store.claim(WORK, limit=limit, now=now, **asked)]
            case ClaimMessages(subscriber, worker, lease, most, roll):
                wanted = [WantedMessages(subscriber, most)]
                claims = await store.claim_messages(wanted, worker=worker, lease=lease, roll=roll, now=now)
                return [_message_grant(each) for each in claims]
            case FanOut(limit):
                return (await store.fan_out(self._plan, limit=limit, now=now)).messages
            case Settle(reports):
                return [each.accepted for each in await store.settle(reports, now=now)]
            case Extend(held, lease):
                return not await store.extend([held], lease, now=now)
            case _:
                return await self._look_after(call, now)

    async def _look_after(self, call: Call, now: datetime) -> Any:
        store = self._store
        match call:
            case Tend():
                await store.tend(now=now)
                return None
            case TakeBack(worker):
                await store.take_back([worker], now=now)
                return None
            case Reset(delivery):
                return await store.reset(delivery, reason="simulated", now=now)
            case RetryDead(delivery):
                return bool(await store.retry_dead([delivery], by=_OPERATOR, now=now))
            case Unpark(consumer, key):
                if consumer == WORK:
                    return await store.unpark(WORK, key, by=_OPERATOR, now=now)
                return await store.unpark_key(int(consumer.partition(":")[2]), key, by=_OPERATOR, now=now)
        raise TypeError(f"There is no call {call!r}.")


def _grant(claim: WorkClaim) -> Grant:
    event = claim.event
    return Grant(claim.held, event.id, dump(event.payload), event.attempts, event.retry_count, claim.max_attempts)


def _message_grant(claim: MessageClaim) -> Grant:
    return Grant(claim.held, claim.event_id, claim.payload, claim.attempts, claim.failures, claim.max_attempts)


def _current(row: Row) -> Current | None:
    if row.state is None:
        return None
    return Current(
        row.id,
        row.fence,
        row.attempts,
        State(row.state),
        row.worker,
        row.due,
        None if row.key is None else lane_id(row.consumer, row.key),
        row.max_attempts,
        row.failures,
        WORK if row.consumer == WORK else HUB,
    )
