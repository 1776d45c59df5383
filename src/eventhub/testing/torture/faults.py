"""The faults that a hub has to outlast, one row each: what is done, what is expected, and what proves it."""

from __future__ import annotations

import importlib.util
from typing import Final, Literal

import msgspec

__all__ = ["FAULTS", "KILLS", "Fault", "possible"]

Where = Literal["both", "sqlite", "postgres"]

KILLS: Final = {
    "kill-publisher": "publisher",
    "kill-worker": "worker",
    "kill-server": "server",
    "kill-receiver": "receiver",
    "kill-pipeline": "pipeline",
}
"""Faults that kill, and the role of whom."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the matrix. With ``soak`` it is done in every run, under these names; else tests prove it."""

    number: int
    words: str
    expected: str
    where: Where = "both"
    soak: tuple[str, ...] = ()
    server: bool = False
    """It needs a database server of its own."""
    tests: tuple[str, ...] = ()


FAULTS: Final = (
    Fault(
        number=1,
        words="SIGKILL a publisher before, in or after a call",
        expected="repeated with its idempotency key it is one event; a call is there whole, or not at all",
        soak=("kill-publisher",),
    ),
    Fault(
        number=2,
        words="SIGKILL a worker in a handler",
        expected="its events are taken by others soon after their lease; the attempt counts",
        soak=("kill-worker",),
        tests=("tests/crash/test_stops.py",),
    ),
    Fault(
        number=3,
        words="SIGSTOP a worker past its lease, then SIGCONT",
        expected="its late report is refused and changes nothing",
        soak=("stop-worker", "stop-server"),
        tests=("tests/crash/test_stops.py", "tests/crash/test_fences.py"),
    ),
    Fault(
        number=4,
        words="an event whose handler aborts its process",
        expected="a dead letter with reason worker_lost after its last attempt; its key goes on",
        soak=("poison",),
        tests=("tests/crash/test_stops.py",),
    ),
    Fault(
        number=5,
        words="SIGKILL a dispatcher, fan-out or server between a request and its record; SIGKILL a receiver",
        expected="sent again under the same webhook-id; nothing of its key overtakes it",
        soak=("kill-server", "kill-receiver"),
        tests=("tests/crash/test_webhook_stops.py", "tests/crash/test_webhook_order.py"),
    ),
    Fault(
        number=6,
        words="SIGKILL at each sync of the disk",
        expected="what was acknowledged is there; what was not is there whole, or not at all",
        where="sqlite",
        tests=("tests/torture/test_syncs.py",),
    ),
    Fault(
        number=7,
        words="loss of power: writes since the last sync are lost, kept or torn",
        expected="with synchronous=FULL nothing acknowledged is lost; with NORMAL some must be, or nothing is proved",
        where="sqlite",
        tests=("eventhub torture power-loss", "tests/torture/test_power_loss.py"),
    ),
    Fault(
        number=8,
        words="a disk that fails to sync (EIO)",
        expected="the call fails, and nothing is acknowledged that is not there later",
        where="sqlite",
        tests=("tests/torture/test_syncs.py",),
    ),
    Fault(
        number=9,
        words="a full disk",
        expected="publishing is refused with 503 and Retry-After while reports are still taken; it goes on by itself",
        where="sqlite",
        tests=("tests/conformance/test_bad_sqlite.py", "tests/http/test_limits.py"),
    ),
    Fault(
        number=10,
        words="a copy in the lake that is not what was copied",
        expected="found before rows leave the database; they stay",
        tests=("tests/pipeline/test_archiving.py", "tests/lake/test_verifying.py"),
    ),
    Fault(
        number=11,
        words="PostgreSQL crashes (immediate stop) under load and comes back",
        expected="everybody goes on by himself, nothing is lost",
        where="postgres",
        server=True,
        soak=("postgres-crash",),
        tests=("tests/crash/test_database_faults.py", "tests/crash/test_webhook_database_faults.py"),
    ),
    Fault(
        number=12,
        words="all connections of PostgreSQL are ended, five times a second",
        expected="the same",
        where="postgres",
        server=True,
        soak=("postgres-terminate",),
        tests=("tests/crash/test_database_faults.py",),
    ),
    Fault(
        number=13,
        words="a commit, or a request, is done and its answer lost",
        expected="repeated, it is found to be done",
        soak=("reply-lost",),
        tests=("tests/crash/test_database_faults.py",),
    ),
    Fault(
        number=14,
        words="a network with latency, resets, silence and slow bytes",
        expected="calls end in time and are made again; no connection is left behind",
        soak=("latency", "reset", "blackhole", "slow-bytes"),
    ),
    Fault(
        number=15,
        words="a receiver that answers 404, 429 or 500, hangs, resets, or never ends its answer",
        expected="retried or given up as the rules say; others are not delayed; at most 16 KiB are read",
        soak=("evil-receiver",),
        tests=("tests/hub/sending/test_sending.py", "tests/crash/test_slow_consumers.py"),
    ),
    Fault(
        number=16,
        words="the clock jumps an hour, forwards or back",
        expected="leases are judged by one clock; nothing is lost, and no late report let in",
        tests=("tests/crash/test_fences.py",),
    ),
    Fault(
        number=17,
        words="the server restarts under many workers",
        expected="they come back by themselves, each after a wait of its own",
        tests=("tests/client/test_restarts.py", "tests/client/test_herds.py"),
    ),
    Fault(
        number=18,
        words="SIGTERM, and a second SIGTERM",
        expected="no more is taken, what is under way may end, the rest is given back uncharged",
        soak=("terminate", "terminate-twice"),
        tests=("tests/crash/test_stops.py", "tests/crash/test_webhook_stops.py", "tests/http/test_shutdown.py"),
    ),
    Fault(
        number=19,
        words="SIGKILL whoever copies to the lake, at random and at each step of a commit",
        expected="nothing half-done is seen; the next run has each row once",
        soak=("kill-pipeline",),
        tests=("tests/crash/test_pipeline_kills.py",),
    ),
    Fault(
        number=20,
        words="a copy that goes on without what it knew: only the hub's own positions are left",
        expected="nothing is missing, nothing is there twice",
        tests=("tests/pipeline/test_extraction.py",),
    ),
    Fault(
        number=21,
        words="SIGKILL between the steps of an archive while rows are purged",
        expected="rows go only after their copy was read again and is the same",
        tests=("tests/crash/test_archive_kills.py", "tests/pipeline/test_archiving.py"),
    ),
    Fault(
        number=22,
        words="SIGKILL before each statement of a migration",
        expected="the next start completes it",
        tests=("tests/crash/test_migrations.py",),
    ),
)


def possible(engine: Literal["sqlite", "postgres"], *, server: bool) -> frozenset[str]:
    """The names of what a run can do on this machine; ``server`` when the database server is its own."""
    names = {
        name
        for fault in FAULTS
        if fault.where in ("both", engine) and (server or not fault.server)
        for name in fault.soak
    }
    if importlib.util.find_spec("deltalake") is None:
        names.discard("kill-pipeline")
    return frozenset(names)
