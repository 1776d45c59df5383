"""The examples, started as their first lines say and used as anybody would."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import asyncpg
import pytest

from eventhub import Hub, Subscriber, open_store
from eventhub.core.signing import parse_secret, secret_text, sign
from eventhub.store.values import EventFilter

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST = 60.0


class Running:
    """A program whose lines can be waited for."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._readers = [threading.Thread(target=self._read, args=(pipe,)) for pipe in (process.stdout, process.stderr)]
        for reader in self._readers:
            reader.start()

    def _read(self, pipe: IO[str]) -> None:
        for line in pipe:
            with self._news:
                self.lines.append(line)
                self._news.notify_all()

    def says(self, pattern: str) -> re.Match[str]:
        """The first line like this, whenever it comes."""
        with self._news:
            if not self._news.wait_for(lambda: self._found(pattern), LONGEST):
                raise AssertionError(f"It did not say {pattern!r}, but:\n{''.join(self.lines)}")
            found = self._found(pattern)
        assert found is not None
        return found

    def _found(self, pattern: str) -> re.Match[str] | None:
        return next((found for line in self.lines if (found := re.search(pattern, line))), None)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(LONGEST)
        for reader in self._readers:
            reader.join()
        return code


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(*arguments: object, env: Mapping[str, str] | None = None) -> Running:
            kept = {name: value for name, value in os.environ.items() if not name.startswith("EVENTHUB_")}
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, *map(str, arguments)],
                    cwd=tmp_path,
                    env={**kept, **(env or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(process.kill)
            return Running(process)

        yield begin


def asked(url: str, body: object = None, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """The status and the JSON of an answer; a body is posted as JSON, or as it is when it is bytes."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=LONGEST) as answer:
            said = answer.read()
            return answer.status, json.loads(said) if said else None
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None


def test_the_embedded_bus_handles_gives_up_and_tries_again(start: Start):
    shop = start(EXAMPLES / "embedded_bus.py", "shop.db")
    assert shop.process.wait(LONGEST) == 0
    shop.says("mail: tea is reserved")
    shop.says("given up after 3 attempts: LookupError: there is no coffee")
    shop.says("mail: coffee is reserved")


async def test_the_outbox_has_an_event_for_each_order_and_none_without(start: Start, postgres_url: str):
    app = start(
        *("-m", "uvicorn", "--app-dir", EXAMPLES, "fastapi_outbox:app", "--port", "0"),
        env={"DATABASE_URL": postgres_url},
    )
    url = app.says(r"running on (http://\S+)")[1]
    status, told = asked(f"{url}/orders", {"item": "tea", "amount": 2})
    assert status == 201
    assert asked(f"{url}/orders", {"item": "tea", "amount": 11})[0] == 409
    app.end()
    app.says("Application shutdown complete")
    async with open_store(postgres_url) as store:
        (event,) = await store.events(EventFilter(queue="shop"))
        whole = await store.event(event.id)
    assert whole is not None
    assert (whole.id, whole.type) == (told["event"], "order.placed")
    assert whole.payload == {"order": told["order"], "item": "tea", "amount": 2}
    connection = await asyncpg.connect(postgres_url)
    assert [row["id"] for row in await connection.fetch("SELECT id FROM orders")] == [told["order"]]
    await connection.close()


def test_flask_publishes_and_a_worker_of_the_same_file_works(start: Start):
    path = EXAMPLES / "flask_blocking.py"
    app, worker = start("-m", "flask", "--app", path, "run", "--port", "0"), start(path)
    url = app.says(r"Running on (http://\S+)")[1]
    once = {"Idempotency-Key": "order-7"}
    first = asked(f"{url}/orders", {"customer": "ada", "amount": 2}, once)
    assert (first[0], asked(f"{url}/orders", {"customer": "ada", "amount": 2}, once)) == (202, first)
    worker.says("shipped 2 to ada")
    nothing = asked(f"{url}/orders", {"customer": "ada", "amount": 0})[1]["event"]
    end = time.monotonic() + LONGEST
    while asked(f"{url}/orders/{nothing}")[1]["status"] != "COMPLETED_WITH_ERRORS":
        assert time.monotonic() < end
        time.sleep(0.02)
    assert asked(f"{url}/orders/{first[1]['event']}") == (200, {"status": "COMPLETED"})
    assert asked(f"{url}/orders/4242")[0] == 404
    assert worker.end() == 0
    assert sum("shipped" in line for line in worker.lines) == 1


async def test_the_consumer_takes_what_is_signed_and_each_message_once(start: Start, sqlite_path: Path):
    secret = secret_text(os.urandom(24))
    consumer = start(EXAMPLES / "webhook_consumer.py", 0, env={"WEBHOOK_SECRET": secret})
    url = consumer.says(r"Listening on (\S+)")[1]
    async with Hub(sqlite_path, allow_private=["127.0.0.0/8"]) as hub:
        await hub.subscribers.create(Subscriber(name="me", url=url), secret=secret)
        await hub.publish("order.placed", {"id": 7})
        await asyncio.to_thread(consumer.says, r'^order\.placed \{"id": 7\}$')
    body, now = b'{"type": "order.paid", "data": {"id": 8}}', int(time.time())

    def signed(stamp: int) -> dict[str, str]:
        signature = sign([parse_secret(secret)], "msg_8", stamp, body)
        return {"webhook-id": "msg_8", "webhook-timestamp": str(stamp), "webhook-signature": signature}

    assert asked(url, body)[0] == 401
    assert asked(url, body, signed(now - 301))[0] == 401, "too old: it may be a replay"
    assert asked(url, body + b" ", signed(now))[0] == 401
    assert [asked(url, body, signed(now))[0] for _ in range(2)] == [204, 204]
    consumer.says(r'^order\.paid \{"id": 8\}$')
    consumer.end()
    assert sum("order" in line for line in consumer.lines) == 2
