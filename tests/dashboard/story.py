"""A hub with a past: subscribers that do well and badly, dead letters, keys that stand still, and workers."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.http.api import Api
from tests.http.receiver import Receiver

ORDERS = ("order.created", "order.paid", "order.shipped")
COUNTRIES = ("SE", "DE", "FR", "PL", "IT")


class Story(NamedTuple):
    """The ids that tests and pictures need."""

    healthy: int
    """A subscriber whose messages arrive."""
    failing: int
    """One whose receiver answers 500, so that its messages die."""
    parked: int
    """One with an ordering key that a dead message holds."""
    delivered: int
    """An event that every subscriber had."""
    claimed: int
    """An event that a worker has."""


def tell(api: Api, receiver: Receiver, *, orders: int = 6) -> Story:
    """Fill a hub through its API; its dispatcher must be allowed to reach this machine."""
    before = api.get("/dlq").json["total"]
    receiver.statuses |= {"/billing": 500, "/crm": 500}
    healthy = _subscriber(api, receiver, "shipping", event_type="order.*", description="The warehouse's own service")
    failing = _subscriber(api, receiver, "billing", event_type="order.paid", retry_backoff_seconds=[])
    parked = _subscriber(
        api,
        receiver,
        "crm",
        event_type="order.created",
        ordering_key="ordering_key",
        on_dead="park",
        retry_backoff_seconds=[],
    )
    api.post(f"/subscribers/{_subscriber(api, receiver, 'analytics')}/pause", reason="until the new warehouse is up")
    api.until_noticed(receiver)
    first, *_ = [_order(api, number) for number in range(orders)]
    claimed = _work(api)
    api.until("/dlq", lambda page: page["total"] == before + orders // 2 + 3)
    api.until(f"/subscribers/{parked}/keys", lambda page: page["keys"])
    api.until("/messages", lambda page: not page["messages"], subscriber=healthy, status="PENDING")
    return Story(healthy=healthy, failing=failing, parked=parked, delivered=first, claimed=claimed)


def _subscriber(api: Api, receiver: Receiver, name: str, **more: Any) -> int:
    number: int = api.subscribe(name, f"{receiver.url}/{name}", **more)["id"]
    return number


def _order(api: Api, number: int) -> int:
    kind = ORDERS[number % 2]
    payload = {
        "order_id": 4100 + number,
        "customer": {"id": number % 3, "country": COUNTRIES[number % len(COUNTRIES)]},
        "lines": [{"sku": "TEA-250", "quantity": 1 + number % 4, "price": "12.50"}],
        "total": 12.5 * (1 + number % 4),
    }
    return api.broadcast(
        kind,
        title=f"Order {4100 + number}",
        payload=payload,
        ordering_key=f"customer-{number % 2}",
        metadata={"source": "shop"},
    )


def _work(api: Api) -> int:
    """Mails and messages: done, failed, given up, in hand, and waiting."""
    for number in range(8):
        api.publish(
            title=f"Send welcome mail {number}", tags="email,priority-high", payload={"user_id": 12_300 + number}
        )
    for number, worker in enumerate(["mail-01:7234", "mail-02:7311", "mail-01:7234", "mail-03:902"]):
        event = api.taken("email", worker)
        if number == 3:
            api.fail(
                event["id"],
                worker,
                error_message="SMTPServerDisconnected: connection lost after 31 s",
                execution_time_ms=31_002,
            )
        else:
            api.complete(event["id"], worker, execution_time_ms=840 + 211 * number, status_code=200)
    for number in range(2):
        event = api.taken("email", "mail-02:7311")
        error = f"ValueError: the address of user {event['payload']['user_id']} is empty"
        api.fail(event["id"], "mail-02:7311", error_message=error, retry=False, execution_time_ms=12 + number)
    claimed: int = api.taken("email", "mail-04:118")["id"]
    api.publish(title="Text a reminder", tags="sms", payload={"to": "+46700000000"})
    return claimed


def dead_work(api: Api, tag: str) -> int:
    """Work that a worker has given up."""
    number: int = api.publish(title="Given up", tags=tag)["id"]
    api.taken(tag, "worker:1")
    assert api.fail(number, "worker:1", error_message=f"no {tag}", retry=False).status == 200
    return number
