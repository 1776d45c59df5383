"""Subscribers and dead letters of a hub, for those who operate it: methods of the client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from eventhub.client import answers
from eventhub.client.answers import CreatedSubscriber, DeadLetterPage, SubscriberDetails
from eventhub.client.asking import Asking, given

__all__ = ["SubscriberOptions", "Subscribing"]


class SubscriberOptions(TypedDict, total=False):
    """What a subscriber may be told besides its name and address; the hub checks each and says what it means."""

    event_type: str
    filter: Mapping[str, Any] | None
    headers: Mapping[str, str]
    format: str
    ordering_key: str | None
    on_dead: str
    retry_backoff_seconds: Sequence[float]
    retry_on: Sequence[str] | None
    connect_timeout_seconds: float
    timeout_seconds: float
    rate_per_second: float | None
    max_in_flight: int
    guarantee: str
    description: str | None


class SubscriberChanges(SubscriberOptions, total=False):
    """What may be changed."""

    name: str
    url: str


class Subscribing(Asking):
    """What operators do about webhooks."""

    async def create_subscriber(
        self, name: str, url: str, *, secret: str | None = None, **options: Unpack[SubscriberOptions]
    ) -> CreatedSubscriber:
        """Make a subscriber. Keep its ``secret``: it is never shown again. Raises SubscriberExists."""
        body = {"name": name, "url": url, **given(secret=secret), **options}
        return await self._ask(CreatedSubscriber, "POST", "/subscribers", body=body, repeatable=False)

    async def subscribers(self) -> list[SubscriberDetails]:
        """Every subscriber, by name."""
        return list((await self._ask(answers.Subscribers, "GET", "/subscribers")).subscribers)

    async def subscriber(self, subscriber_id: int) -> SubscriberDetails:
        """One subscriber. Raises SubscriberNotFound."""
        return await self._ask(SubscriberDetails, "GET", f"/subscribers/{subscriber_id}")

    async def change_subscriber(
        self, subscriber_id: int, *, version: int | None = None, **changes: Unpack[SubscriberChanges]
    ) -> SubscriberDetails:
        """Change what is given; with a ``version`` only that one, else SubscriberChanged is raised."""
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        path = f"/subscribers/{subscriber_id}"
        return await self._ask(
            SubscriberDetails, "PATCH", path, body=changes, headers=headers, repeatable=version is None
        )

    async def remove_subscriber(self, subscriber_id: int) -> int:
        """Remove a subscriber; returns how many of its messages were cancelled with it."""
        removed = await self._ask(answers.Counted, "DELETE", f"/subscribers/{subscriber_id}", repeatable=False)
        return removed.count

    async def pause_subscriber(self, subscriber_id: int, *, reason: str | None = None) -> SubscriberDetails:
        """Hold its messages until it is resumed; nothing is lost."""
        path = f"/subscribers/{subscriber_id}/pause"
        return await self._ask(SubscriberDetails, "POST", path, query=given(reason=reason))

    async def resume_subscriber(self, subscriber_id: int) -> SubscriberDetails:
        """Go on sending."""
        return await self._ask(SubscriberDetails, "POST", f"/subscribers/{subscriber_id}/resume")

    async def rotate_secret(
        self, subscriber_id: int, *, overlap: float | timedelta | None = None, secret: str | None = None
    ) -> str:
        """A new secret, shown only now; the old one signs beside it for the ``overlap``, a day unless said."""
        seconds = overlap.total_seconds() if isinstance(overlap, timedelta) else overlap
        path = f"/subscribers/{subscriber_id}/rotate-secret"
        body = given(overlap_seconds=seconds, secret=secret)
        return (await self._ask(answers.NewSecret, "POST", path, body=body, repeatable=False)).secret

    async def dead_letters(
        self,
        *,
        subscriber: int | None = None,
        event_type: str | None = None,
        reason: str | None = None,
        queue: str | None = None,
        since: datetime | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> DeadLetterPage:
        """A page of dead letters, the latest death first; ``before`` is the ``next_before`` of the page before."""
        query = given(
            subscriber=subscriber,
            type=event_type,
            reason=reason,
            queue=queue,
            since=None if since is None else since.isoformat(),
            before=before,
            limit=limit,
        )
        texts = {name: str(value) for name, value in query.items()}
        return await self._ask(DeadLetterPage, "GET", "/dlq", query=texts)

    async def retry_dead(
        self,
        ids: Iterable[int] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - as the hub calls it
        dry_run: bool = False,
    ) -> int:
        """Give dead letters a fresh start, by their ids or by a filter; returns how many. A dry run only counts."""
        body = given(ids=None if ids is None else list(ids), filter=filter, dry_run=dry_run)
        return (await self._ask(answers.Counted, "POST", "/dlq/retry", body=body, repeatable=False)).count
