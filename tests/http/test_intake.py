"""What bodies may cost: no more values than allowed, before anything is built, and no more bytes than there is room."""

import asyncio
import contextlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.http import intake
from eventhub.http.intake import LARGE, MAX_CONTAINERS, MAX_VALUES, Intake, check_values
from eventhub.http.problems import Problem
from tests.http.api import Wire, head
from tests.http.conftest import Hub, MakeHub

JSON = {"Content-Type": "application/json"}
MEGABYTE = 1_000_000


def is_refused(raw: bytes) -> bool:
    try:
        check_values(raw)
    except Problem as problem:
        return problem.kind == "too-many-values"
    return False


BOMBS = {
    "lists in lists": b"[" + b",".join([b"[" * 60 + b"]" * 60] * 125_000) + b"]",
    "empty lists": b"[" + b",".join([b"[]"] * 5_000_000) + b"]",
    "objects": b"[" + b",".join([b'{"a":1}'] * 1_900_000) + b"]",
    "numbers": b"[" + b",".join([b"1"] * 7_000_000) + b"]",
    "texts": b"[" + b",".join([b'"\\""'] * 3_000_000) + b"]",
}


@pytest.mark.parametrize("name", list(BOMBS))
def test_a_body_full_of_values_is_413_and_costs_no_more_than_its_bytes(make_hub: MakeHub, name: str):
    hub = make_hub()
    hub.get("/events")
    memory, spent = hub.server.memory(), cpu_seconds(hub)
    body = b'{"events": [{"tags": "a", "payload": %s}]}' % BOMBS[name]
    answer = hub.post("/events/batch", raw=body, headers=JSON)
    assert (answer.status, answer.kind) == (413, "too-many-values")
    assert cpu_seconds(hub) - spent < 3
    assert peak(hub) - memory < 120 * MEGABYTE


def cpu_seconds(hub: Hub) -> float:
    fields = Path(f"/proc/{hub.server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def peak(hub: Hub) -> int:
    """Bytes of memory that it ever had."""
    lines = Path(f"/proc/{hub.server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


PAYLOADS = {
    "brackets": json.dumps("[" * MEGABYTE),
    "commas": json.dumps("a, b, " * 150_000),
    "escapes": json.dumps('"[",\\' * 110_000),
    "lists": "[" + "[]," * 340_000 + "1]",
}


@pytest.mark.parametrize("name", list(PAYLOADS))
def test_a_large_payload_is_accepted_whatever_is_in_it(sqlite_hub: Hub, tag: str, name: str):
    raw = f'{{"tags": "{tag}", "payload": {PAYLOADS[name]}}}'.encode()
    assert sqlite_hub.post("/events", raw=raw, headers=JSON).status == 201


def test_the_limits_are_exact():
    numbers = b"[" + b"1," * (MAX_VALUES - 1)
    assert not is_refused(numbers + b"1]")
    assert is_refused(numbers + b"1,1]")
    lists = b"[" + b"[]," * (MAX_CONTAINERS - 2)
    assert not is_refused(lists + b"{}]")
    assert is_refused(lists + b"{},[]]")
    padding = b'"' + b'[{,\\\\\\"' * 200_000 + b'"'  # texts count for nothing, wherever a piece of the body ends
    assert not is_refused(b"[" + padding + b"," + numbers[1:-2] + b"]")


LETTERS = st.text('[]{},"\\a', max_size=8)
VALUES = st.recursive(
    st.integers(0, 9) | LETTERS, lambda kind: st.lists(kind) | st.dictionaries(LETTERS, kind), max_leaves=40
)


@given(VALUES, st.integers(1, 8), st.booleans())
def test_what_is_counted_is_what_is_there(value: Any, chunk: int, ascii: bool):  # noqa: A002, FBT001
    """With limits of a few values, and pieces of a few bytes, the counts are those of the value itself."""
    lists, items = counted(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intake, "CHUNK", chunk)
        for most_lists, most in ((lists, items), (lists - 1, items), (lists, items - 1)):
            patch.setattr(intake, "MAX_CONTAINERS", most_lists)
            patch.setattr(intake, "MAX_VALUES", most)
            raw = json.dumps(value, ensure_ascii=ascii).encode()
            small = len(raw) <= most_lists
            assert is_refused(raw) is (not small and (most_lists < lists or most < items))


def counted(value: Any) -> tuple[int, int]:
    """Lists and objects; brackets and commas."""
    if not isinstance(value, dict | list):
        return 0, 0
    inside = [counted(item) for item in (value.values() if isinstance(value, dict) else value)]
    lists = 1 + sum(found[0] for found in inside)
    return lists, 1 + max(len(value) - 1, 0) + sum(found[1] for found in inside)


# ---------------------------------------------------------- bytes under way


def test_bodies_that_do_not_fit_are_503_until_others_are_done(make_hub: MakeHub, tag: str):
    hub = make_hub("sqlite", "--max-bodies-mb", "17")
    about = ("Content-Type: application/json", f"Content-Length: {MEGABYTE}")
    whole = {"tags": tag, "payload": "x" * 900_000}
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(hub.port)) for _ in range(17)]
        for wire in wires:  # all but their last byte, so that they stay under way
            wire.send(head("POST", "/events", hub.port, *about) + b" " * (MEGABYTE - 1))
        until_room(hub, False)
        refused = hub.post("/events", whole)
        assert (refused.status, refused.kind) == (503, "bodies-limit")
        assert int(refused.headers["retry-after"]) >= 1
        assert hub.get("/events").status == 200
        for wire in wires[:3]:
            wire.send(b"x")
            assert wire.answer().status == 400
        until_room(hub, True)
        assert hub.post("/events", whole).status == 201
        wires[3].hang_up()
        assert hub.post("/events", whole).status == 201


def until_room(hub: Hub, wanted: bool) -> None:  # noqa: FBT001
    """Wait until the server has read what was sent: it goes on with a body when there is room, which takes none yet."""
    about = ("Content-Type: application/json", f"Content-Length: {MEGABYTE}", "Expect: 100-continue")
    end = time.monotonic() + 60
    while True:
        with Wire(hub.port) as wire:
            wire.send(head("POST", "/events", hub.port, *about))
            if wire.line().startswith(b"HTTP/1.1 100") is wanted:
                return
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_worker_that_waits_holds_no_bytes(make_hub: MakeHub, tag: str):
    hub = make_hub("sqlite", "--max-bodies-mb", "17")
    asked = b'{"tags": "%s", "worker_id": "w", "wait": 60%s}' % (tag.encode(), b" " * 65_000)
    about = ("Content-Type: application/json", f"Content-Length: {len(asked)}")
    with contextlib.ExitStack() as stack:
        for _ in range(280):
            stack.enter_context(Wire(hub.port)).send(head("POST", "/events/subscribe", hub.port, *about) + asked)
        hub.until_waiting(280)
        assert hub.post("/events", {"tags": f"{tag}-other", "payload": "x" * 900_000}).status == 201


def test_whoever_shows_no_good_key_has_no_body_read(make_hub: MakeHub, tag: str):
    hub = make_hub()
    key = hub.post("/api-keys", {"name": "root", "scopes": ["admin"]}).json["key"]
    reader = hub.with_key(key).post("/api-keys", {"name": "reader", "scopes": ["read"]}).json["key"]
    body = b'{"events": [{"tags": "a", "payload": %s}]}' % BOMBS["empty lists"]
    spent = cpu_seconds(hub)
    assert hub.post("/events/batch", raw=body, headers=JSON).status == 401
    assert hub.with_key(reader).post("/events/batch", raw=body, headers=JSON).status == 403
    assert cpu_seconds(hub) - spent < 2
    answer = hub.post("/session", raw=b'{"key": "%s"}' % (b"x" * 5000), headers=JSON)
    assert answer.status == 413


async def test_large_bodies_have_their_turns_and_small_ones_need_none():
    bodies = Intake(17)
    running = most = 0

    async def work(size: int) -> None:
        nonlocal running, most
        async with bodies.turn(size):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(work(LARGE + 1) for _ in range(20)))
    assert most == 2
    await asyncio.gather(*(work(LARGE) for _ in range(20)))
    assert most == 20


def test_bytes_are_given_back_once():
    bodies = Intake(17)
    with bodies.receive() as received:
        received.add(17 * MEGABYTE)
        for much in (received.add, received.expect):
            with pytest.raises(Problem, match="again in a moment"):
                much(1)
        received.release()
        assert bodies.free_bytes == 17 * MEGABYTE
        received.add(5)
    assert bodies.free_bytes == 17 * MEGABYTE
