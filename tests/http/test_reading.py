"""How bodies are read: within one time for all of it, and a large one without holding up the loop."""

import asyncio
import threading
import time
from collections.abc import MutableMapping
from typing import Any

import pytest

from eventhub.http.intake import LARGE, Intake
from eventhub.http.problems import Problem
from eventhub.http.reading import aside, read_body
from tests.http.conftest import Hub

JSON = {"Content-Type": "application/json"}


async def test_a_body_in_pieces_has_no_more_time_than_one_in_a_piece():
    pieces = 0

    async def receive() -> MutableMapping[str, Any]:
        nonlocal pieces
        pieces += 1
        await asyncio.sleep(0.3 if pieces == 1 else 60)
        return {"type": "http.request", "body": b"x", "more_body": True}

    started = time.monotonic()
    with pytest.raises(Problem) as caught:
        await read_body(receive, Intake(17).receive(), declared=None, limit=100, seconds=0.4)
    assert caught.value.status == 408
    assert time.monotonic() - started < 0.6


async def test_work_on_a_large_body_is_done_in_a_thread_and_on_a_small_one_at_once():
    assert await aside(LARGE, threading.get_ident) == threading.get_ident()
    assert await aside(LARGE + 1, threading.get_ident) != threading.get_ident()


@pytest.mark.parametrize("last", [b"1", b'"\\u0000"'])
def test_a_long_key_above_many_items_costs_no_more_than_its_bytes(sqlite_hub: Hub, last: bytes):
    started = time.monotonic()
    body = b'[{"tags": "a", "payload": {"\\n": 1, "%s": [%s%s]}}]' % (b"k" * 3_000_000, b"1," * 900_000, last)
    assert sqlite_hub("POST", "/events/batch", raw=body, headers=JSON).status in (400, 413)
    assert time.monotonic() - started < 5
