"""The hub from elsewhere: a client for its HTTP interface, and a worker that needs nothing else of the hub.

Client ──▶ transport (retries, trace context, problems → errors) ──▶ POST /events, …
Worker ──▶ taker ──▶ handlers ──▶ outbox        each event until it is done, lost or given back
             keeper, in a thread of its own: leases, whatever the handlers do to the event loop
"""

from eventhub.client.answers import (
    ClaimedEvent,
    Created,
    CreatedSubscriber,
    DeadLetterPage,
    DeadLetterSummary,
    EventDetails,
    EventPage,
    EventSummary,
    Lease,
    LogRow,
    Orphan,
    QueueNumbers,
    Recorded,
    ReportOutcome,
    SubscriberDetails,
    WorkerSeen,
)
from eventhub.client.api import Client, Report
from eventhub.client.performing import Ended
from eventhub.client.worker import Worker
from eventhub.client.working import WorkerNumbers

__all__ = [
    "ClaimedEvent",
    "Client",
    "Created",
    "CreatedSubscriber",
    "DeadLetterPage",
    "DeadLetterSummary",
    "Ended",
    "EventDetails",
    "EventPage",
    "EventSummary",
    "Lease",
    "LogRow",
    "Orphan",
    "QueueNumbers",
    "Recorded",
    "Report",
    "ReportOutcome",
    "SubscriberDetails",
    "Worker",
    "WorkerNumbers",
    "WorkerSeen",
]
