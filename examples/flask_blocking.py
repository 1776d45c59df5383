"""A Flask app without an event loop: it publishes, and a worker process of the same file does the work.

    pip install eventhub flask
    flask --app examples/flask_blocking.py run              # takes orders at http://127.0.0.1:5000/orders
    python examples/flask_blocking.py                       # the worker; start as many as you like

Both open the file that EVENTHUB_DB names (shop.db). A request is answered when its event is on the disk.
"""

from __future__ import annotations

import os
import signal
import sys

from flask import Flask, request

from eventhub import PermanentError, QueuedEvent, Success
from eventhub.blocking import EventManager, EventQueue

queue = EventQueue(os.environ.get("EVENTHUB_DB", "shop.db"), queue="orders", max_attempts=5)
app = Flask(__name__)


@app.post("/orders")
def place() -> tuple[dict[str, int], int]:
    """A client that sends the same Idempotency-Key again gets the first event's number again."""
    order = request.get_json()
    event = queue.publish(
        "order.placed",
        order,
        ordering_key=order["customer"],
        idempotency_key=request.headers.get("Idempotency-Key"),
    )
    return {"event": event.id}, 202


@app.get("/orders/<int:number>")
def show(number: int) -> tuple[dict[str, str], int]:
    event = queue.store.event(number)
    return ({"status": event.status}, 200) if event else ({"status": "unknown"}, 404)


def work() -> None:
    manager = EventManager(queue)

    @manager.on("order.*")
    def ship(event: QueuedEvent) -> Success | PermanentError:
        if event.payload["amount"] < 1:
            return PermanentError("ship", "there is nothing to ship")  # no retry can help
        print("shipped", event.payload["amount"], "to", event.payload["customer"], flush=True)
        return Success()

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # as Ctrl-C: what is under way is given back
    manager.run()


if __name__ == "__main__":
    work()
