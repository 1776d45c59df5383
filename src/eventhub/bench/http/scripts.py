"""What connections do: publish one by one or in batches; take work and complete it, one by one or in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from eventhub.bench.http.wire import Answer, request
from eventhub.bench.payloads import PAYLOAD

__all__ = ["JOB", "TAG", "Publishing", "WorkingInBatches", "WorkingOneByOne", "expect", "publish_request"]

TAG: Final = "email"
JOB: Final = {"title": "Send Email Notification", "tags": TAG, "payload": PAYLOAD}

_OK: Final = 200
_CREATED: Final = 201
_NOTHING: Final = 204


class Claimed(msgspec.Struct):
    """As much of a claim as a report needs."""

    id: int
    fence: int


class Claims(msgspec.Struct):
    events: list[Claimed]


_claimed: Final = msgspec.json.Decoder(Claimed).decode
_claims: Final = msgspec.json.Decoder(Claims).decode


class _Outcome(msgspec.Struct):
    status: int


class _Outcomes(msgspec.Struct):
    results: list[_Outcome]


_outcomes: Final = msgspec.json.Decoder(_Outcomes).decode


def expect(answer: Answer, *statuses: int) -> None:
    """Anything but these answers ends the run: figures of refused requests say nothing."""
    if answer.status not in statuses:
        raise RuntimeError(f"The server answered {answer.status}: {answer.body[:500].decode(errors='replace')}")


def publish_request(host: str, *, batch: int = 0) -> bytes:
    """One job, or a batch of so many."""
    if not batch:
        return request("POST", "/events", msgspec.json.encode(JOB), host=host)
    return request("POST", "/events/batch", msgspec.json.encode({"events": [JOB] * batch}), host=host)


class Publishing:
    """Sends the same request while the shared count lasts."""

    def __init__(self, publish: bytes, left: Iterator[int]) -> None:
        self._request = publish
        self._left = left

    def next(self, answer: Answer | None) -> bytes | None:
        if answer is not None:
            expect(answer, _CREATED)
        return None if next(self._left, None) is None else self._request


class WorkingOneByOne:
    """A worker: take one, complete it, until there is nothing left."""

    def __init__(self, host: str, worker: str) -> None:
        self._host = host
        self._subscribe = request("GET", f"/events/subscribe?tags={TAG}&worker_id={worker}", host=host)
        self._report = f'{{"worker_id":"{worker}","execution_time_ms":5,"status_code":200,"fence":'
        self._holds = False
        self.completed = 0

    def next(self, answer: Answer | None) -> bytes | None:
        if answer is None:
            return self._subscribe
        expect(answer, _OK, _NOTHING)
        if self._holds:
            self._holds = False
            self.completed += 1
            return self._subscribe
        if answer.status == _NOTHING:
            return None
        claim = _claimed(answer.body)
        self._holds = True
        report = f"{self._report}{claim.fence}}}".encode()
        return request("POST", f"/events/{claim.id}/complete", report, host=self._host)


class WorkingInBatches:
    """A worker: take up to so many, complete them in one request, until there is nothing left."""

    def __init__(self, host: str, worker: str, limit: int) -> None:
        self._host = host
        self._worker = worker
        self._subscribe = request("GET", f"/events/subscribe?tags={TAG}&worker_id={worker}&limit={limit}", host=host)
        self._holds = False
        self.completed = 0

    def next(self, answer: Answer | None) -> bytes | None:
        if answer is None:
            return self._subscribe
        expect(answer, _OK)
        if self._holds:
            self._holds = False
            results = _outcomes(answer.body).results
            if any(result.status != _OK for result in results):
                raise RuntimeError(f"The server refused reports of {self._worker}: {answer.body[:500]!r}")
            self.completed += len(results)
            return self._subscribe
        claims = _claims(answer.body).events
        if not claims:
            return None
        self._holds = True
        reports = [{"event_id": c.id, "worker_id": self._worker, "fence": c.fence} for c in claims]
        return request("POST", "/events/complete", msgspec.json.encode({"reports": reports}), host=self._host)
