"""A blocking client of the tests' own: it knows HTTP and nothing of the package. Every answer is checked in passing."""

import contextlib
import http.client
import io
import json
import re
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

from tests.http.receiver import Receiver

PROBLEM = "application/problem+json"
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\Z")
TIMES = frozenset(
    [
        "created_at",
        "updated_at",
        "next_retry_at",
        "lease_expires_at",
        "first_seen",
        "last_seen",
        "expires_at",
        "silent_since",
        "revoked_at",
        "last_used_at",
        "dead_at",
        "retried_at",
        "settled_at",
        "circuit_until",
        "since",
        "last_delivered_at",
        "last_failed_at",
    ]
)
LEAKS = re.compile(
    r"Traceback|File \"|\.py\b|\b(SELECT|INSERT|UPDATE)\b|asyncpg|apsw|sqlite|postgres|hub\.db|eh_[A-Za-z0-9]{12}_",
    re.IGNORECASE,
)


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def kind(self) -> str:
        """The last part of a problem's type."""
        return str(self.json["type"]).rpartition(":")[2]


def check(answer: Answer) -> Answer:
    """What is true of every answer: problems have their form and tell no secrets, times are RFC 3339 in UTC."""
    if answer.status >= 400:
        assert answer.headers["content-type"] == PROBLEM, answer
        if answer.raw:
            body = answer.json
            assert {"type", "title", "status", "detail"} <= body.keys(), body
            assert body["status"] == answer.status
            assert body["type"].startswith("urn:eventhub:")
            assert not LEAKS.search(answer.raw.decode()), answer.raw
    elif answer.status == 204:
        assert answer.raw == b""
        assert "content-type" not in answer.headers
    elif answer.headers.get("content-type") == "application/json" and answer.raw:
        check_times(answer.json)
    return answer


def check_times(value: Any) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            if name == "payload":
                continue
            if name in TIMES and isinstance(item, str):
                assert MOMENT.match(item), f"{name} is {item!r}"
            check_times(item)
    elif isinstance(value, list):
        for item in value:
            check_times(item)


class Api:
    """Requests to one server, each on a connection of its own."""

    def __init__(self, port: int, *, key: str | None = None, host: str = "127.0.0.1") -> None:
        self.host = host
        self.port = port
        self.key = key

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        **query: Any,
    ) -> Answer:
        """``body`` goes as JSON, ``raw`` as it is; what is left are the parameters of the query."""
        sent = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        if body is not None:
            raw = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        if query:
            path += "?" + urlencode(query)
        with contextlib.closing(http.client.HTTPConnection(self.host, self.port, timeout=timeout)) as connection:
            connection.request(method, path, body=raw, headers=sent)
            response = connection.getresponse()
            got = {name.lower(): value for name, value in response.getheaders()}
            return check(Answer(response.status, got, response.read()))

    def get(self, path: str, **query: Any) -> Answer:
        return self("GET", path, **query)

    def post(self, path: str, body: Any = None, **more: Any) -> Answer:
        return self("POST", path, body, **more)

    def patch(self, path: str, body: Any = None, **more: Any) -> Answer:
        return self("PATCH", path, body, **more)

    def delete(self, path: str, **more: Any) -> Answer:
        return self("DELETE", path, **more)

    # ------------------------------------------------ what most tests do

    def publish(self, **event: Any) -> Any:
        """Publish work; the event as it was answered."""
        answer = self.post("/events", event)
        assert answer.status == 201, answer
        return answer.json

    def take(self, tags: str, worker: str = "worker-01:7234", **query: Any) -> Any:
        """Take one; None when there is none."""
        answer = self.get("/events/subscribe", tags=tags, worker_id=worker, **query)
        assert answer.status in (200, 204), answer
        return answer.json if answer.status == 200 else None

    def taken(self, tags: str, worker: str = "worker-01:7234", **query: Any) -> Any:
        """Take one that is there, or will be in a moment."""
        event = self.take(tags, worker, wait=20, **query)
        assert event is not None, f"no work with {tags}"
        return event

    def complete(self, event_id: int, worker: str = "worker-01:7234", **body: Any) -> Answer:
        return self.post(f"/events/{event_id}/complete", {"worker_id": worker, **body})

    def fail(self, event_id: int, worker: str = "worker-01:7234", **body: Any) -> Answer:
        return self.post(f"/events/{event_id}/fail", {"worker_id": worker, **body})

    def event(self, event_id: int, *, logs: bool = False) -> Any:
        answer = self.get(f"/events/{event_id}", **({"include_logs": "true"} if logs else {}))
        assert answer.status == 200, answer
        return answer.json

    def actions(self, event_id: int) -> list[str]:
        """What happened to an event, in order."""
        return [entry["action"] for entry in self.event(event_id, logs=True)["logs"]]

    def subscribe(self, name: str, url: str, **more: Any) -> Any:
        """Make a subscriber; as it was answered, with its secret."""
        answer = self.post("/subscribers", {"name": name, "url": url, **more})
        assert answer.status == 201, answer
        return answer.json

    def broadcast(self, event_type: str, **more: Any) -> int:
        """Publish to subscribers; the id of the event."""
        answer = self.post("/events", {"event_type": event_type, "payload": None, **more})
        assert answer.status == 202, answer
        event_id: int = answer.json["id"]
        return event_id

    def until_noticed(self, receiver: Receiver) -> None:
        """Return when the dispatcher has seen every change so far: it looks for them about twenty times a second."""
        name = f"beacon-{secrets.token_hex(6)}"
        beacon = self.subscribe(name, f"{receiver.url}/{name}", event_type=name)
        self.broadcast(name)
        receiver.wait(f"/{name}")
        self.delete(f"/subscribers/{beacon['id']}")

    def until(self, path: str, wanted: Callable[[Any], Any], seconds: float = 30.0, **query: Any) -> Any:
        """What a path answers, as soon as it is as wanted: other processes cannot be asked to tell."""
        end = time.monotonic() + seconds
        while True:
            answer = self.get(path, **query)
            if answer.status == 200 and wanted(answer.json):
                return answer.json
            assert time.monotonic() < end, f"{path} is {answer} after {seconds} s"
            time.sleep(0.02)

    def until_waiting(self, number: int, seconds: float = 20.0) -> None:
        """Return when so many workers wait in the server, as its metrics tell."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line in self.get("/metrics").raw.decode().splitlines():
                if "waiting" in line and not line.startswith("#") and float(line.rpartition(" ")[2]) >= number:
                    return
        raise AssertionError(f"{number} workers never waited.")


class Kept(io.BufferedReader):
    """What was read too far stays for the next answer, although an answer closes its file."""

    def close(self) -> None: ...

    def really_close(self) -> None:
        super().close()


class Wire:
    """A bare connection, for tests about bytes."""

    def __init__(self, port: int, timeout: float = 30.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self._file = Kept(self._socket.makefile("rb", buffering=0))
        self.port = port

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_all_it_takes(self, data: bytes) -> None:
        """Send; the server may hang up before it has read everything."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(data)

    def answer(self) -> Answer:
        """The next answer."""
        response = http.client.HTTPResponse(self)  # type: ignore[arg-type]  # of a socket it needs makefile alone
        response.begin()
        got = {name.lower(): value for name, value in response.getheaders()}
        return check(Answer(response.status, got, response.read()))

    def line(self) -> bytes:
        """The next line."""
        return self._file.readline().removesuffix(b"\r\n")

    def makefile(self, *_: Any) -> io.BufferedReader:
        return self._file

    def hang_up(self) -> None:
        self._file.really_close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()


def head(method: str, path: str, port: int, *lines: str) -> bytes:
    """The beginning of a request, by hand."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", *lines, "", ""]).encode("latin-1")
