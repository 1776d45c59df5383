"""What the pipeline has made of the past, as the report tells it."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from eventhub.http.answers import Answer, document
from eventhub.http.asking import Ask
from eventhub.http.bodies.basics import Answered, Asked, Time
from eventhub.http.operations import Example, Operation
from eventhub.http.problems import Problem
from eventhub.lake.figures import Figures
from eventhub.lake.standing import LOCK

__all__ = ["OPERATIONS"]

INSTALL: Final = "pip install 'eventhub[spark]'"


class HistoryQuery(Asked):
    days: Annotated[int, Meta(ge=1, le=366, description="The last so many days that the lake knows.")] = 7


class LastRun(Answered):
    """When rows were last copied to the lake, and whether the pipeline runs now."""

    at: Time | None
    running: bool


class HistoryBody(Figures, frozen=True, kw_only=True):
    """The last days in figures, and when the pipeline last ran."""

    last_run: LastRun


async def history(ask: Ask) -> Answer:
    """The figures of the marts."""
    service = ask.service
    reports = service.reports
    if reports is None or not reports.can_read:
        raise Problem(404, "no-lake-reader", f"This hub cannot read a lake. Install what it needs: {INSTALL}.")
    names = {str(row.id): row.name for row in (await service.store.subscribers())[1]}
    found = await reports.read(ask.query.days, names)
    if found is None:
        raise Problem(404, "no-history", "There is no history yet. Make it with: eventhub pipeline run.")
    copies = await service.store.lake_commits("event_log", limit=2)
    last = LastRun(
        at=max((copy.done_at for copy in copies if copy.done_at is not None), default=None),
        running=await service.store.lock_holder(LOCK) is not None,
    )
    return document(HistoryBody(**msgspec.structs.asdict(found), last_run=last))


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/history",
        name="history",
        summary="The last days in figures, from the marts of the pipeline",
        description="404 `no-history` until the pipeline has run, `no-lake-reader` where the extra `spark` is missing.",
        handle=history,
        scope="read",
        group="Dashboard",
        query=HistoryQuery,
        answers={200: HistoryBody},
        problems=(404,),
        example=Example(query="days=7"),
    ),
)
