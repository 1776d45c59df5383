"""The real stores, writing down every claim, extension and report before and after it is made."""

import json
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from eventhub.errors import EventHubError
from eventhub.store import Store
from eventhub.store.claims import Claim, Held
from eventhub.store.messages import MessageClaim, WantedMessages
from eventhub.store.postgres import PostgresStore
from eventhub.store.sqlite import SqliteStore
from eventhub.store.values import Report, Settled
from eventhub.testing.torture.history import Facts, History, hash_of


class Recording(Store):
    history: History

    async def claim(
        self,
        queue: str,
        *,
        worker: str,
        lease: timedelta,
        limit: int = 1,
        tags: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        max_attempts: int | None = None,
        most_bytes: int | None = None,
        claimed_by: str | None = None,
        now: datetime | None = None,
    ) -> list[Claim]:
        call = self.history.invoke("claim", [{"worker": worker}])
        try:
            claims = await super().claim(
                queue,
                worker=worker,
                lease=lease,
                limit=limit,
                tags=tags,
                types=types,
                max_attempts=max_attempts,
                most_bytes=most_bytes,
                claimed_by=claimed_by,
                now=now,
            )
        except EventHubError as error:
            call.info(error)
            raise
        call.ok([_claimed(claim, worker) for claim in claims])
        return claims

    async def claim_messages(
        self,
        wanted: Sequence[WantedMessages],
        *,
        worker: str,
        lease: timedelta,
        limit: int | None = None,
        roll: float = 0.0,
        now: datetime | None = None,
    ) -> list[MessageClaim]:
        until = time.time() + lease.total_seconds()  # at the earliest: the database looks at the clock later
        call = self.history.invoke("claim", [{"worker": worker}])
        try:
            claims = await super().claim_messages(  # type: ignore[safe-super] # each engine has its own
                wanted, worker=worker, lease=lease, limit=limit, roll=roll, now=now
            )
        except EventHubError as error:
            call.info(error)
            raise
        call.ok([_claimed_message(claim, worker, until) for claim in claims])
        return claims

    async def extend(self, held: Sequence[Held], lease: timedelta, *, now: datetime | None = None) -> set[int]:
        until = time.time() + lease.total_seconds()  # at the earliest: the database looks at the clock later
        items: list[Facts] = [{"id": claim.id, "fence": claim.fence, "until": until} for claim in held]
        call = self.history.invoke("extend", items)
        try:
            lost = await super().extend(held, lease, now=now)
        except EventHubError as error:
            call.info(error)
            raise
        call.ok([{**item, "accepted": item["id"] not in lost} for item in items])
        return lost

    async def settle(
        self, reports: Sequence[Report], *, queue: str | None = None, now: datetime | None = None
    ) -> Sequence[Settled]:
        items: list[Facts] = [
            {"id": report.held.id, "fence": report.held.fence, "outcome": type(report.outcome).__name__}
            for report in reports
        ]
        call = self.history.invoke("report", items)
        try:
            settled = await super().settle(reports, queue=queue, now=now)
        except EventHubError as error:
            call.info(error)
            raise
        answers = zip(items, settled, strict=True)
        call.ok([{**item, "accepted": answer.accepted} for item, answer in answers])
        return settled


class RecordedSqlite(Recording, SqliteStore):
    pass


class RecordedPostgres(Recording, PostgresStore):
    pass


def recorded(url: str, history: History) -> Store:
    store: Recording
    if url.partition("://")[0] in ("postgres", "postgresql"):
        store = RecordedPostgres(url, pool_size=4)
    else:
        store = RecordedSqlite(url.removeprefix("sqlite:///"))
    store.history = history
    return store


def _claimed(claim: Claim, worker: str) -> Facts:
    return {
        "id": claim.held.id,
        "fence": claim.held.fence,
        "attempt": claim.event.attempts,
        "key": claim.event.ordering_key,
        "hash": hash_of(claim.event.payload),
        "until": claim.lease_expires_at.timestamp(),
        "worker": worker,
    }


def _claimed_message(claim: MessageClaim, worker: str, until: float) -> Facts:
    return {
        "id": claim.held.id,
        "fence": claim.held.fence,
        "attempt": claim.attempts,
        "key": claim.ordering_key,
        "hash": hash_of(json.loads(claim.payload)),
        "until": until,
        "worker": worker,
    }
