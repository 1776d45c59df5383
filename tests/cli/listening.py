"""A running `eventhub listen`, and what to send to it."""

import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.message import Message
from typing import Any

from standardwebhooks import Webhook

SECRET = b"0123456789abcdef01234567"
OTHER = b"76543210fedcba9876543210"


class Listener:
    """A running `eventhub listen`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stderr is not None
        found = re.search(r"Listening on (\S+)", process.stderr.readline())
        assert found is not None
        self.url = found[1]

    def post(self, body: bytes, headers: Mapping[str, str], *, timeout: float = 60) -> tuple[int, Message]:
        request = urllib.request.Request(self.url, data=body, headers=dict(headers), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.headers
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, answer.headers

    def send(self, message_id: str, data: Any, *, secret: bytes = SECRET, timeout: float = 60) -> int:
        now = datetime.now(UTC)
        body = json.dumps({"type": "order.placed", "timestamp": now.isoformat(), "data": data})
        headers = {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(secret).sign(message_id, now, body),
        }
        return self.post(body.encode(), headers, timeout=timeout)[0]

    def interrupt(self) -> str:
        """What it printed, after Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=60)[0]

    def lines(self) -> list[Any]:
        """The objects of one that ends by itself, or is ended."""
        output = self.process.communicate(timeout=60)[0] if self.process.poll() is not None else self.interrupt()
        return [json.loads(line) for line in output.splitlines()]


Listen = Callable[..., Listener]
