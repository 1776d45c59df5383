"""Several server processes: one stop for all, whoever is signalled and whenever, and none left behind."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from tests.http.api import Wire, head
from tests.http.conftest import Hub, MakeHub
from tests.http.server import HubServer, until_refused


def children(hub_pid: int) -> list[psutil.Process]:
    return list(psutil.Process(hub_pid).children(recursive=True))


def until_serving(hub: Hub, count: int) -> list[psutil.Process]:
    """Until so many children run; a request proves that one of them serves."""
    assert hub.get("/health").status == 200
    found = children(hub.server.pid)
    assert len(found) == count
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_group_counts_once(make_hub: MakeHub, tag: str, number: signal.Signals):
    hub = make_hub("sqlite", "--workers", "2")
    everyone = [hub.server.pid, *(child.pid for child in until_serving(hub, 2))]
    with ThreadPoolExecutor(10) as pool:
        waiting = [pool.submit(hub.get, "/events/subscribe", tags=tag, worker_id=f"w{n}", wait=60) for n in range(10)]
        hub.until_waiting(10)
        for pid in everyone:
            os.kill(pid, number)
        assert [each.result(timeout=15).status for each in waiting] == [204] * 10
    assert hub.server.wait(15) == 0
    assert not any(psutil.pid_exists(pid) for pid in everyone[1:])


def test_a_process_that_dies_is_started_again_and_its_waiters_count_no_longer(make_hub: MakeHub, tag: str):
    hub = make_hub("sqlite", "--workers", "2")
    first, other = until_serving(hub, 2)
    first.kill()
    while first in (found := children(hub.server.pid)) or len(found) < 2:
        assert hub.get("/health").status == 200
    assert other.pid in {child.pid for child in found}
    assert hub.post("/events", {"tags": tag, "payload": 1}).status == 201


def test_a_stop_ends_a_parent_whose_children_have_all_just_died(make_hub: MakeHub):
    hub = make_hub("sqlite", "--workers", "3")
    for child in until_serving(hub, 3):
        child.kill()
    hub.server.send(signal.SIGTERM)
    assert hub.server.wait(15) == 0


@pytest.mark.parametrize("delay", [0, 1, 3, 10])
def test_a_stop_while_the_processes_are_being_started_is_not_lost(tmp_path: Path, delay: int):
    server = HubServer(str(tmp_path / "hub.db"), tmp_path / "work", "--workers", "3")
    with server:
        for _ in range(delay):
            children(server.pid)  # a little later each time
        server.send(signal.SIGTERM)
        assert server.wait(20) == 0


def test_children_end_with_a_parent_that_was_killed(make_hub: MakeHub):
    hub = make_hub("sqlite", "--workers", "2")
    found = until_serving(hub, 2)
    hub.server.kill()
    gone, alive = psutil.wait_procs(found, timeout=15)
    assert (len(gone), alive) == (2, [])


def test_a_second_signal_ends_all_at_once(make_hub: MakeHub):
    hub = make_hub("sqlite", "--workers", "2")
    found = until_serving(hub, 2)
    with Wire(hub.port) as wire:
        lines = ("Content-Type: application/json", "Content-Length: 100", "Expect: 100-continue")
        wire.send(head("POST", "/events", hub.port, *lines))
        assert wire.line() == b"HTTP/1.1 100 Continue"  # a request that would hold up a polite end
        hub.server.send(signal.SIGTERM)
        until_refused(hub.port)
        hub.server.send(signal.SIGTERM)
        assert hub.server.wait(10) == 0
    assert psutil.wait_procs(found, timeout=10)[1] == []
