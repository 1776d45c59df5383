"""A consumer of webhooks: it keeps what it gets, and answers as it is told."""

import base64
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Got(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    def signed_by(self, secret: str) -> bool:
        """Whether one of its signatures was made with the secret, as Standard Webhooks has it."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        said = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.raw
        wanted = "v1," + base64.b64encode(hmac.new(key, said, hashlib.sha256).digest()).decode()
        return wanted in self.headers["webhook-signature"].split(" ")


class Receiver:
    """A server on this machine; every path of it is an address for webhooks."""

    def __init__(self) -> None:
        self.statuses: dict[str, int] = {}
        """What is answered to a path; 200 unless it is here."""
        self._got: list[Got] = []
        self._news = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length", 0)))
                got = Got(self.path, {name.lower(): value for name, value in self.headers.items()}, raw)
                status = receiver.statuses.get(got.path, 200)
                with receiver._news:
                    receiver._got.append(got)
                    receiver._news.notify_all()
                self.send_response(status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def at(self, path: str) -> list[Got]:
        """What has come to a path so far."""
        with self._news:
            return [got for got in self._got if got.path == path]

    def wait(self, path: str, number: int = 1, seconds: float = 30.0) -> list[Got]:
        """The requests to a path, as soon as there are so many."""
        end = time.monotonic() + seconds
        with self._news:
            while True:
                found = [got for got in self._got if got.path == path]
                if len(found) >= number:
                    return found
                left = end - time.monotonic()
                assert left > 0, f"{len(found)} of {number} requests came to {path} within {seconds} s"
                self._news.wait(left)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
