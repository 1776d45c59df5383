"""A consumer of webhooks with nothing but Python's own library: the signature first, then each message once.

    WEBHOOK_SECRET=whsec_… python examples/webhook_consumer.py [port]
    eventhub subscribers add me --url http://127.0.0.1:9000/ --allow-private 127.0.0.0/8      # shows the secret

The scheme is that of Standard Webhooks, for which most languages have a library; this is all there is to it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import sys
import time
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
TOLERANCE = 300
LARGEST = 1 << 20
seen = sqlite3.connect("consumer.db")
seen.execute("CREATE TABLE IF NOT EXISTS seen (id TEXT PRIMARY KEY)")


def is_genuine(headers: Message, body: bytes) -> bool:
    """Whether one of the signatures fits, and is not too old to be a replay."""
    message, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not stamp.isdecimal() or abs(time.time() - int(stamp)) > TOLERANCE:
        return False
    signed = hmac.new(SECRET, f"{message}.{stamp}.".encode() + body, hashlib.sha256)
    expected = "v1," + base64.b64encode(signed.digest()).decode()
    given = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(one.encode(), expected.encode()) for one in given)


class Consumer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(min(int(self.headers.get("content-length", 0)), LARGEST))
        if not is_genuine(self.headers, body):
            return self.answer(401)
        with seen:  # the mark and what is done about the event belong into one transaction
            new = seen.execute("INSERT OR IGNORE INTO seen VALUES (?)", (self.headers["webhook-id"],)).rowcount
            if new:
                event = json.loads(body)
                print(event["type"], json.dumps(event["data"]), flush=True)
        return self.answer(204)  # 2xx: I have it. 5xx or nothing: try again. 4xx: give up.

    def answer(self, status: int) -> None:
        self.send_response_only(status)
        self.end_headers()


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
    with HTTPServer(("127.0.0.1", port), Consumer) as server:
        print(f"Listening on http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()
