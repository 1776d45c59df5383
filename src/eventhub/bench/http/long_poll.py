"""Many workers that wait at once for the same tag, and events that come one by one: how long until one has it.

A time counts from when the publishing request was sent to when the answer with the event was read. A worker completes
what it got and waits again, so that nearly all of them are waiting all the time.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import Final

import msgspec

from eventhub.bench.http.driving import PATIENCE, Connection, Driver
from eventhub.bench.http.scripts import TAG, expect
from eventhub.bench.http.wire import Answer, request
from eventhub.bench.payloads import PAYLOAD

__all__ = ["long_poll"]

WAIT: Final = 60
"""Seconds that a worker asks to wait, the most that is allowed."""
PUBLISHERS: Final = 8
"""Connections to publish on: one that waits for its answer must not hold up the next event."""
_OK: Final = 200
_CREATED: Final = 201
_NOTHING: Final = 204


class _Payload(msgspec.Struct):
    number: int


class _Job(msgspec.Struct):
    id: int
    payload: _Payload


_job: Final = msgspec.json.Decoder(_Job).decode


class Times:
    """When each event was sent and received; every one must arrive once."""

    def __init__(self) -> None:
        self.sent: list[float] = []
        self.took: dict[int, float] = {}

    def receive(self, number: int) -> None:
        if number in self.took:
            raise RuntimeError(f"Event {number} was given to two workers.")
        self.took[number] = perf_counter() - self.sent[number]

    @property
    def outstanding(self) -> int:
        return len(self.sent) - len(self.took)


class Waiting:
    """A worker: wait, complete, wait again."""

    def __init__(self, host: str, worker: str, times: Times) -> None:
        self._host = host
        self._times = times
        target = f"/events/subscribe?tags={TAG}&worker_id={worker}&wait={WAIT}"
        self._subscribe = request("GET", target, host=host)
        self._report = f'{{"worker_id":"{worker}"}}'.encode()
        self._holds = False

    def next(self, answer: Answer | None) -> bytes | None:
        if answer is None:
            return self._subscribe
        expect(answer, _OK, _NOTHING)
        if self._holds or answer.status == _NOTHING:
            self._holds = False
            return self._subscribe
        job = _job(answer.body)
        self._times.receive(job.payload.number)
        self._holds = True
        return request("POST", f"/events/{job.id}/complete", self._report, host=self._host)


class OnePublish:
    """A connection that is lent for one event and handed back with the answer."""

    def __init__(self, connection: Connection, free: deque[Connection]) -> None:
        self._connection = connection
        self._free = free

    def next(self, answer: Answer | None) -> bytes | None:
        if answer is not None:
            expect(answer, _CREATED)
            self._free.append(self._connection)
        return None


def long_poll(driver: Driver, host: str, *, workers: int, events: int, rate: float) -> list[float]:
    """Let so many workers wait, publish for a second to warm up, then measure; the seconds of each event."""
    times = Times()
    for number, connection in enumerate(driver.connect(workers)):
        driver.begin(connection, Waiting(host, f"worker-{number}", times))
        if number % 50 == 0:
            driver.step(0)
    free = deque(driver.connect(PUBLISHERS))
    warm_up = max(int(rate), 1)
    _settle_down(driver)
    _publish(driver, host, times, free, count=warm_up, rate=rate)
    _publish(driver, host, times, free, count=events, rate=rate)
    return [times.took[number] for number in range(warm_up, warm_up + events)]


def _settle_down(driver: Driver) -> None:
    """Until all workers sit and wait: the server has had a moment without anything to say."""
    until = perf_counter() + 1.0
    while (left := until - perf_counter()) > 0:
        driver.step(left)


def _publish(driver: Driver, host: str, times: Times, free: deque[Connection], *, count: int, rate: float) -> None:
    """Publish at a steady rate, whatever the answers do, and wait until everything has arrived."""
    started = perf_counter()
    for place in range(count):
        due = started + place / rate
        while (left := due - perf_counter()) > 0 or not free:
            driver.step(max(left, 0.001))
        connection = free.popleft()  # in turn: a server closes connections that nobody uses
        number = len(times.sent)
        body = msgspec.json.encode({"tags": TAG, "payload": {**PAYLOAD, "number": number}})
        sending = request("POST", "/events", body, host=host)
        connection.script = OnePublish(connection, free)
        times.sent.append(perf_counter())
        driver.send(connection, sending)
    deadline = perf_counter() + PATIENCE
    while times.outstanding or len(free) < PUBLISHERS:
        if perf_counter() > deadline:
            raise TimeoutError(f"{times.outstanding} events reached no worker within {PATIENCE:.0f} s.")
        driver.step(1.0)
