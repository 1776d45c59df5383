"""The client: every operation of the hub that workers, publishers and operators need, each one method."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Self, TypedDict, Unpack
from uuid import uuid4

import msgspec

from eventhub.client import answers
from eventhub.client.answers import (
    ClaimedEvent,
    Created,
    EventDetails,
    EventPage,
    EventSummary,
    Lease,
    Orphan,
    QueueNumbers,
    Recorded,
    ReportOutcome,
    WorkerSeen,
)
from eventhub.client.asking import REFUSED, answer_of, given
from eventhub.client.problems import read_problem
from eventhub.client.subscribing import Subscribing
from eventhub.client.transport import Transport
from eventhub.core.events import Action, Status
from eventhub.core.strict_json import dump
from eventhub.errors import InvalidEventError

__all__ = ["Client", "NewEvent", "Report"]

Tags = str | Iterable[str]
Seconds = float | timedelta

MOST_EVENTS: Final = 1000
FIRST_PAGE: Final = "start"
BAD_REQUEST: Final = 400


class NewEvent(TypedDict, total=False):
    """What an event may carry: with ``tags`` it is work for one worker, with ``event_type`` a broadcast, or both."""

    title: str | None
    description: str | None
    tags: Tags | None
    event_type: str | None
    payload: Any
    metadata: Mapping[str, str] | None
    ordering_key: str | None
    idempotency_key: str | None
    deliver_at: datetime | None
    delay: Seconds | None
    priority: int | None


class Report(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """How the work on one event ended; ``error_message`` and ``retry`` are for failures only."""

    event_id: int
    worker_id: str
    fence: int | None = None
    status_code: int | None = None
    execution_time_ms: int | None = None
    error_message: str | None = None
    retry: bool = True


class Client(Subscribing):
    """A hub somewhere else, spoken to over HTTP. Use it in ``async with``, or ``close`` it; one event loop only.

    - ``key``: the API key, where the hub wants one.
    - ``timeout``: seconds that one call may take, retries included.
    - ``retries=False``: try every call once. Else what is safe to repeat is repeated: reading, publishing (each event
      gets an idempotency key of its own unless you give one, so a lost answer never doubles it) and reporting.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        key: str | None = None,
        timeout: float = 30.0,
        retries: bool = True,
    ) -> None:
        self._transport = Transport(url, key=key, timeout=timeout, retries=retries)

    @property
    def url(self) -> str:
        return self._transport.url

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def hang_up(self) -> None:
        """End a ``take`` that waits: it raises ServerUnavailable, or returns what had been given to it already."""
        self._transport.hang_up()

    async def close(self) -> None:
        """Close the connections; harmless when none is open."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -------------------------------------------------------------- publish

    async def publish(self, **event: Unpack[NewEvent]) -> EventDetails:
        """Publish one event; returns after the hub has committed it.

        The same ``idempotency_key`` with the same event gives the first event back, with another one it raises
        IdempotencyConflict.
        """
        return await self._ask(EventDetails, "POST", "/events", body=_composed(event))

    async def publish_many(self, events: Iterable[Mapping[str, Any]]) -> list[Created]:
        """Publish up to 1,000 events, given as mappings of what ``publish`` takes: all of them or none."""
        composed = [_composed(event) for event in events]
        if len(composed) > MOST_EVENTS:
            raise InvalidEventError(
                f"{len(composed):,} events are too many to publish all or none; give at most {MOST_EVENTS:,} at once."
            )
        if not composed:
            return []
        published = await self._ask(answers.PublishedBatch, "POST", "/events/batch", body={"events": composed})
        return list(published.events)

    # ----------------------------------------------------------------- look

    async def event(self, event_id: int, *, logs: bool = False) -> EventDetails:
        """One event, whole; ``logs`` adds what happened to it. Raises EventNotFound."""
        return await self._ask(
            EventDetails, "GET", f"/events/{event_id}", query={"include_logs": "true"} if logs else None
        )

    async def events(
        self,
        *,
        status: Status | str | None = None,
        tags: Tags | None = None,
        event_type: str | None = None,
        limit: int = 20,
        offset: int | None = None,
        cursor: str | None = None,
    ) -> EventPage:
        """A page of events, newest first: by ``offset`` with the total, or by the ``cursor`` of the page before."""
        query = given(
            status=None if status is None else str(status),
            tags=None if tags is None else _joined(tags),
            type=event_type,
            limit=str(limit),
            offset=None if offset is None else str(offset),
            cursor=cursor,
        )
        return await self._ask(EventPage, "GET", "/events", query=query)

    async def every_event(
        self,
        *,
        status: Status | str | None = None,
        tags: Tags | None = None,
        event_type: str | None = None,
        page: int = 100,
    ) -> AsyncIterator[EventSummary]:
        """All events that fit, newest first, fetched page by page; any page costs the same."""
        cursor: str | None = FIRST_PAGE
        while cursor is not None:
            found = await self.events(status=status, tags=tags, event_type=event_type, limit=page, cursor=cursor)
            for event in found.events:
                yield event
            cursor = found.next_cursor

    async def orphans(self) -> list[Orphan]:
        """Events that are being worked on, but of which nothing was heard for a while."""
        return list((await self._ask(answers.Orphans, "GET", "/orphans")).orphans)

    async def workers(self) -> list[WorkerSeen]:
        """Every worker that the hub has seen."""
        return list((await self._ask(answers.Workers, "GET", "/workers")).workers)

    async def stats(self) -> list[QueueNumbers]:
        """Every queue in numbers."""
        return list((await self._ask(answers.Statistics, "GET", "/stats")).queues)

    # ----------------------------------------------------------------- work

    async def take(
        self,
        tags: Tags,
        worker_id: str,
        *,
        limit: int = 1,
        wait: float = 0.0,
        lease: Seconds | None = None,
    ) -> list[ClaimedEvent]:
        """Take up to ``limit`` events that have any of the tags; waits up to ``wait`` seconds for the first.

        Each is this worker's for ``lease``, by default the hub's. When the answer gets lost, so does the claim, until
        its lease ends: this call is not repeated then, but raises ServerUnavailable.
        """
        body = given(tags=_joined(tags), worker_id=worker_id, limit=limit, wait=wait, lease_seconds=_seconds(lease))
        reply = await self._transport.call("POST", "/events/subscribe", body=body, repeatable=False, wait=wait)
        return list(answer_of(reply, answers.ClaimedEvents).events) if reply.body else []

    async def start(
        self, event: int | ClaimedEvent, worker_id: str, *, lease: Seconds | None = None, fence: int | None = None
    ) -> Lease:
        """Say in the event's log that the work has begun; extends the lease too."""
        return await self._hold("start", event, worker_id, lease, fence, repeatable=False)

    async def heartbeat(
        self, event: int | ClaimedEvent, worker_id: str, *, lease: Seconds | None = None, fence: int | None = None
    ) -> Lease:
        """Keep the event for another ``lease`` from now. Raises ClaimLost when somebody else has it."""
        return await self._hold("heartbeat", event, worker_id, lease, fence, repeatable=True)

    async def complete(
        self,
        event: int | ClaimedEvent,
        worker_id: str,
        *,
        status_code: int | None = None,
        execution_time_ms: int | None = None,
        fence: int | None = None,
    ) -> Recorded:
        """The work is done. Repeating it is harmless; raises ClaimLost when somebody else has the event."""
        event_id, fence = _claim(event, fence)
        body = given(worker_id=worker_id, status_code=status_code, execution_time_ms=execution_time_ms, fence=fence)
        return await self._ask(Recorded, "POST", f"/events/{event_id}/complete", body=body)

    async def fail(
        self,
        event: int | ClaimedEvent,
        worker_id: str,
        error_message: str | None = None,
        *,
        retry: bool = True,
        status_code: int | None = None,
        execution_time_ms: int | None = None,
        fence: int | None = None,
    ) -> Recorded:
        """This attempt failed. The answer says when it is tried again, or that it was the last one (``final``).

        ``retry=False`` says that no other attempt can help: the event is dead at once.
        """
        event_id, fence = _claim(event, fence)
        body = given(
            worker_id=worker_id,
            error_message=error_message,
            retry=None if retry else False,
            status_code=status_code,
            execution_time_ms=execution_time_ms,
            fence=fence,
        )
        reply = await self._transport.call("POST", f"/events/{event_id}/fail", body=body)
        if reply.status == BAD_REQUEST and read_problem(reply.status, reply.body).final_failure:
            return Recorded(
                event_id=event_id,
                worker_id=worker_id,
                action=Action.FAILED,
                status_code=status_code,
                execution_time_ms=execution_time_ms,
                error_message=error_message,
                retry_scheduled=False,
            )
        return answer_of(reply, Recorded)

    async def complete_many(self, reports: Iterable[Report]) -> list[ReportOutcome]:
        """Up to 1,000 reports of work that is done, each with an outcome of its own."""
        return await self._report("complete", reports)

    async def fail_many(self, reports: Iterable[Report]) -> list[ReportOutcome]:
        """Up to 1,000 reports of attempts that failed, each with an outcome of its own."""
        return await self._report("fail", reports)

    async def release(self, event: int | ClaimedEvent, worker_id: str, *, fence: int | None = None) -> None:
        """Give an event back untouched: no attempt is charged."""
        event_id, fence = _claim(event, fence)
        body = given(worker_id=worker_id, fence=fence)
        reply = await self._transport.call("POST", f"/events/{event_id}/release", body=body, repeatable=False)
        if reply.status >= REFUSED:
            raise reply.error()

    async def reset(self, event_id: int, *, reason: str | None = None) -> EventDetails:
        """Take an event from the worker that holds it, so that another can have it at once (for operators)."""
        query = given(reason=reason)
        return await self._ask(EventDetails, "POST", f"/events/{event_id}/reset", query=query, repeatable=False)

    # -------------------------------------------------------------- requests

    async def _hold(
        self,
        action: str,
        event: int | ClaimedEvent,
        worker_id: str,
        lease: Seconds | None,
        fence: int | None,
        *,
        repeatable: bool,
    ) -> Lease:
        event_id, fence = _claim(event, fence)
        body = given(worker_id=worker_id, lease_seconds=_seconds(lease), fence=fence)
        return await self._ask(Lease, "POST", f"/events/{event_id}/{action}", body=body, repeatable=repeatable)

    async def _report(self, action: str, reports: Iterable[Report]) -> list[ReportOutcome]:
        listed = list(reports)
        if not listed:
            return []
        outcomes = await self._ask(answers.ReportOutcomes, "POST", f"/events/{action}", body={"reports": listed})
        return list(outcomes.results)


def _composed(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event as it is sent: checked as far as JSON could hide a mistake, and with an idempotency key."""
    unknown = event.keys() - NewEvent.__optional_keys__ - {"type"}
    if unknown:
        known = ", ".join(sorted(NewEvent.__optional_keys__))
        raise InvalidEventError(f"The event has no field {', '.join(map(repr, sorted(unknown)))}; it takes {known}.")
    sent = given(**{name: value for name, value in event.items() if name not in ("payload", "delay", "tags")})
    if "payload" in event:  # null is a payload, too
        sent["payload"] = msgspec.Raw(dump(event["payload"]).encode())
    if event.get("delay") is not None:
        sent["delay_seconds"] = _seconds(event["delay"])
    tags = event.get("tags")
    if tags is not None:
        sent["tags"] = tags if isinstance(tags, str) else list(tags)
    sent.setdefault("idempotency_key", f"client-{uuid4().hex}")
    return sent


def _claim(event: int | ClaimedEvent, fence: int | None) -> tuple[int, int | None]:
    if isinstance(event, ClaimedEvent):
        return event.id, event.fence if fence is None else fence
    return event, fence


def _joined(tags: Tags) -> str:
    return tags if isinstance(tags, str) else ",".join(tags)


def _seconds(value: Seconds | None) -> float | None:
    return value.total_seconds() if isinstance(value, timedelta) else value
