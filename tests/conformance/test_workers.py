"""A worker is declared dead only on proof; whoever cannot be seen keeps its claims until their leases end."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eventhub.store import open_store, workers
from eventhub.store.workers import is_dead, new_worker, retire
from tests.conformance.support import ids, publish_one, take

NAME = "from eventhub.store.workers import new_worker; print(new_worker(), flush=True); input()"
UNPRIVILEGED = 65534

StartWorker = Callable[[], tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def start_worker() -> Iterator[StartWorker]:
    """Starts processes that have a worker and live until they are told to end."""
    started: list[subprocess.Popen[str]] = []

    def start() -> tuple["subprocess.Popen[str]", str]:
        process = subprocess.Popen(
            [sys.executable, "-c", NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A /proc that shows no process, as ``hidepid=2`` and ``ProtectProc=invisible`` show none of other users."""
    new_worker()  # what is known of this process was read before
    monkeypatch.setattr(workers, "PROC", tmp_path)
    return tmp_path


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def test_a_process_is_dead_when_it_has_ended(start_worker: StartWorker) -> None:
    process, name = start_worker()
    assert not is_dead(name)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(name), "a zombie does nothing any more"
    process.communicate()
    assert is_dead(name)


def test_a_hidden_process_lives_until_the_kernel_says_otherwise(start_worker: StartWorker, hidden: Path) -> None:
    process, name = start_worker()
    assert not is_dead(name)
    end(process)
    assert is_dead(name)


def test_a_process_of_another_user_that_is_hidden_lives(hidden: Path) -> None:
    """Nor may a signal be sent to it: the kernel says so, and that is a sign of life."""
    name = new_worker()
    check = (
        "import os, sys\nfrom pathlib import Path\nfrom eventhub.store import workers\n"
        "workers.new_worker()\n"
        f"workers.PROC = Path({str(hidden)!r})\n"
        f"if os.geteuid() == 0: os.setgroups([]), os.setgid({UNPRIVILEGED}), os.setuid({UNPRIVILEGED})\n"
        "print([workers.is_dead(name) for name in sys.argv[1:]])"
    )
    first = f"here:1:{name.rpartition(':')[2]}"  # nobody but root may signal the first process
    said = subprocess.run([sys.executable, "-c", check, name, first], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[False, False]"


def test_a_process_that_began_at_another_time_is_another_one(start_worker: StartWorker) -> None:
    _, name = start_worker()
    rest, _, life = name.rpartition(":")
    machine, started, number = life.split("-")
    assert is_dead(f"{rest}:{machine}-{int(started) - 1}-{number}")
    assert not is_dead(f"{rest}:elsewhere-{int(started) - 1}-{number}")


def test_a_worker_that_has_retired_is_dead_though_its_process_lives() -> None:
    name = new_worker()
    assert not is_dead(name)
    retire(name)
    assert is_dead(name)


@pytest.mark.parametrize(
    "name", ["", "somebody", "host:²:{}", "host:123456789012345678901234567890:{}", "host:-1:{}", "host:x:{}", "host:1"]
)
def test_a_name_that_says_nothing_is_never_dead(name: str) -> None:
    assert not is_dead(name.format(new_worker().rpartition(":")[2]))


def test_where_proc_is_that_of_another_namespace_nobody_else_is_judged(
    start_worker: StartWorker, hidden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, name = start_worker()
    end(process)
    assert is_dead(name)
    (hidden / "self").symlink_to("1000000")
    workers._machine.cache_clear()
    own = new_worker()
    assert not is_dead(name), "its number may mean another process here"
    assert not is_dead(own)
    retire(own)
    assert is_dead(own)
    workers._machine.cache_clear()


def test_a_forked_child_is_a_process_of_its_own() -> None:
    name = new_worker()
    child = os.fork()
    if child == 0:
        os._exit(0 if not is_dead(name) and new_worker().split(":")[1] == str(os.getpid()) else 1)
    assert os.waitpid(child, 0)[1] == 0


async def test_the_claim_of_a_hidden_worker_is_its_own_until_the_lease_ends(
    store_url: str, start_worker: StartWorker, hidden: Path
) -> None:
    process, name = start_worker()
    async with open_store(store_url) as store:
        number = await publish_one(store, now=None)
        assert ids(await take(store, worker=name, now=None)) == [number]
        assert (await store.recover("work")).total == 0
        end(process)
        assert (await store.recover("work")).abandoned == 1
        assert ids(await take(store, now=None)) == [number]
