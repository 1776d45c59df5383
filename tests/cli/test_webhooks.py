"""The commands together: a server sends webhooks, `listen` receives them, operators see and mend."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from eventhub.core.signing import secret_text
from tests.cli.listening import SECRET, Listen, Listener
from tests.cli.support import Command
from tests.client.support import Hub, refusing_port

Serve = Callable[..., Hub]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(db: str, *options: str) -> Hub:
            return stack.enter_context(Hub(tmp_path / "work", db, "--allow-private", "127.0.0.0/8", *options))

        yield start


def subscribe(eventhub: Command, db: str, url: str, *more: str) -> Any:
    own = ("--secret", secret_text(SECRET), "--allow-private", "127.0.0.0/8", "--db", db)
    return eventhub.json("subscribers", "add", "here", "--url", url, *own, *more)


def publish(eventhub: Command, db: str, kind: str, data: str) -> int:
    return int(eventhub("publish", "--db", db, "--type", kind, "--data", data).stdout)


def received(listener: Listener) -> list[Any]:
    """What came to one that ends by itself."""
    listener.process.wait(100)
    return listener.lines()[:-1]


def test_from_publishing_to_a_verified_message(eventhub: Command, listen: Listen, serve: Serve, store_url: str):
    listener = listen("--json", "--secret", secret_text(SECRET), "--count", "3", "--ordered")
    serve(store_url)
    subscribe(eventhub, store_url, listener.url, "--event-type", "order.*", "--ordering-key", "payload.customer")
    tested = eventhub("subscribers", "test", "here", "--wait", "60", "--db", store_url)
    assert (tested.returncode, tested.stdout[:10]) == (0, "Delivered:")
    for number in (1, 2):
        publish(eventhub, store_url, "order.placed", f'{{"customer": "ada", "n": {number}}}')
    test, first, second = received(listener)
    assert (test["type"], test["verified"]) == ("hub.test", True)
    assert [each["payload"]["n"] for each in (first, second)] == [1, 2]
    assert listener.process.returncode == 0  # every signature was good, and the order kept
    number = first["id"].rpartition("_")[2]
    message = eventhub.json("messages", "show", number, "--db", store_url)
    assert (message["status"], message["attempts"][0]["detail"]["status"]) == ("COMPLETED", 204)


@pytest.mark.parametrize("form", ["raw", "ce-binary", "ce-structured"])
def test_every_format_arrives(eventhub: Command, listen: Listen, serve: Serve, form: str):
    listener = listen("--json", "--secret", secret_text(SECRET), "--count", "1")
    serve("hub.db")
    subscribe(eventhub, "hub.db", listener.url, "--format", form)
    publish(eventhub, "hub.db", "order.placed", '{"id": 7}')
    (arrived,) = received(listener)
    assert (arrived["format"], arrived["type"], arrived["payload"]) == (form, "order.placed", {"id": 7})
    assert arrived["verified"] is True


def test_a_failure_is_seen_and_brought_back(eventhub: Command, listen: Listen, serve: Serve):
    failing = listen("--json", "--status", "503", "--retry-after", "1", "--count", "2")
    serve("hub.db")
    subscribe(eventhub, "hub.db", failing.url, "--retry-backoff", "0.1")
    test = eventhub("subscribers", "test", "here", "--wait", "60", "--db", "hub.db")
    assert test.returncode == 1
    assert "503" in test.stdout
    first, again = received(failing)
    assert (first["attempt"], again["attempt"], again["duplicate"]) == (1, 2, False)
    number = first["id"].rpartition("_")[2]
    letters: Any = {"events": []}
    while not letters["events"]:
        letters = eventhub.json("dlq", "list", "--subscriber", "here", "--db", "hub.db")
    (letter,) = letters["events"]
    assert (str(letter["delivery_id"]), letter["reason"]) == (number, "retries_exhausted")
    healthy = listen("--json", "--secret", secret_text(SECRET), "--count", "1")
    moved = ("subscribers", "edit", "here", "--url", healthy.url, "--allow-private", "127.0.0.0/8", "--db", "hub.db")
    assert eventhub(*moved).returncode == 0
    assert eventhub("dlq", "retry", number, "--db", "hub.db").returncode == 0
    (arrived,) = received(healthy)
    assert arrived["id"] == first["id"]


def test_a_subscriber_that_is_not_there_is_an_error_in_words(eventhub: Command, serve: Serve):
    serve("hub.db")
    subscribe(eventhub, "hub.db", f"http://127.0.0.1:{refusing_port()}/")
    done = eventhub("subscribers", "test", "here", "--wait", "60", "--db", "hub.db")
    assert done.returncode == 1
    assert "eventhub messages show " in done.stdout
