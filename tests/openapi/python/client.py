"""Publishes an event, takes it and completes it, with the package that was made of the OpenAPI document."""

import json
import sys

from event_hub_client import Client
from event_hub_client.api.events import publish, show_event
from event_hub_client.api.work import complete, subscribe_by_body
from event_hub_client.models import (
    ClaimedBody,
    CompleteBody,
    EventBody,
    NewEventBody,
    ProblemBody,
    ReportBody,
    SubscribeBody,
)


def main(url: str) -> None:
    with Client(base_url=url, raise_on_unexpected_status=True) as client:
        published = publish.sync(client=client, body=NewEventBody(tags=["python"], payload={"total": 42}))
        assert isinstance(published, EventBody), published
        worker = "python:1"
        taken = subscribe_by_body.sync(client=client, body=SubscribeBody(tags="python", worker_id=worker))
        assert isinstance(taken, ClaimedBody), taken
        report = CompleteBody(worker_id=worker, status_code=200)
        completed = complete.sync(taken.id, client=client, body=report)
        assert isinstance(completed, ReportBody), completed
        shown = show_event.sync(published.id, client=client)
        assert not isinstance(shown, ProblemBody), shown
        assert shown is not None
        missing = show_event.sync(published.id + 1, client=client)
        assert isinstance(missing, ProblemBody), missing
    told = {
        "published": published.id,
        "taken": taken.id,
        "payload": taken.payload,
        "action": completed.action,
        "status": shown.status,
        "missing": missing.title,
    }
    sys.stdout.write(json.dumps(told))


main(sys.argv[1])
