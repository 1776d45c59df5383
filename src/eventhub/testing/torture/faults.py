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
        words="SIGKILL just before or after a sync of the disk, each of the first ten of a process",
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
        words="a sync that fails with an I/O error, each of the first ten of a process",
        expected="the call fails, what was acknowledged is there later, and the process goes on",
        where="sqlite",
        tests=("tests/torture/test_syncs.py",),
    ),
    Fault(
        number=9,
        words="a file that cannot grow, and a disk with less room than the reserve",
        expected="the call fails in words and nothing acknowledged is lost; below the reserve publishing is refused "
        "with 503 and Retry-After while reports are still taken, until there is room",
        where="sqlite",
        tests=(
            "tests/conformance/test_bad_sqlite.py",
            "tests/http/test_hostile_input.py",
            "tests/http/test_limits.py",
        ),
    ),
    Fault(
        number=10,
        words="a copy in the lake with a value changed, with rows missing or doubled, or a file cut in half",
        expected="found before rows leave the database; they stay, and a file that cannot be read is told as such",
        tests=("tests/pipeline/test_archiving.py", "tests/lake/test_verifying.py"),
    ),
    Fault(
        number=11,
        words="PostgreSQL crashes (immediate stop) under load and comes back",
        expected="everybody is at work again by himself within 20 s, at the former rate within 30 s; nothing is lost",
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
        words="a commit, or any other request, is done and its answer lost",
        expected="repeated, it is found to be done",
        soak=("reply-lost",),
        tests=("tests/crash/test_database_faults.py",),
    ),
    Fault(
        number=14,
        words="latency, resets, slow bytes and silence of up to 15 s, on the way to servers and to PostgreSQL",
        expected="calls end and are made again; every promise holds",
        soak=("latency", "reset", "blackhole", "slow-bytes"),
    ),
    Fault(
        number=15,
        words="a receiver that answers 404, 429 or 500, hangs, resets, or never ends its answer; by itself also one "
        "that redirects, drips, or whose TLS fails",
        expected="retried or given up as the rules say; one that hangs or refuses delays nobody else; at most 16 KiB "
        "of an answer are read",
        soak=("evil-receiver",),
        tests=(
            "tests/hub/sending/test_sending.py",
            "tests/hub/sending/test_connecting.py",
            "tests/crash/test_slow_consumers.py",
        ),
    ),
    Fault(
        number=16,
        words="the clock that a store is given jumps an hour, forwards or back",
        expected="leases and retries are judged by it alone; nothing is lost, and no late report let in",
        tests=("tests/crash/test_fences.py", "tests/simulation/test_simulation.py"),
    ),
    Fault(
        number=17,
        words="a hub is killed and starts again under its workers; 500 clients are told at once to come later",
        expected="they come back by themselves and nothing is lost; their waits are spread",
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
        words="SIGKILL whoever copies to the lake, at random; on PostgreSQL at each step of a copy, and a driver of "
        "Spark while its tasks read",
        expected="the next run completes it: each row is there once",
        soak=("kill-pipeline",),
        tests=("tests/crash/test_pipeline_kills.py",),
    ),
    Fault(
        number=20,
        words="a copy that was left behind: only intended, with files of its own, or in the lake and not written down",
        expected="the next one goes by the hub's own positions and no checkpoint: nothing missing, nothing twice",
        tests=("tests/pipeline/test_extraction.py", "tests/torture/test_planted.py"),
    ),
    Fault(
        number=21,
        words="SIGKILL between the steps of an archive while rows are purged",
        expected="rows go only after their copy was read again and is the same",
        tests=("tests/crash/test_archive_kills.py", "tests/pipeline/test_archiving.py"),
    ),
    Fault(
        number=22,
        words="SIGKILL while the tables are made: before each statement on SQLite, at random moments on both engines",
        expected="the next start completes them",
        tests=("tests/crash/test_migrations.py",),
    ),
    Fault(
        number=23,
        words="PostgreSQL fails over to a synchronous standby",
        expected="nothing is lost or out of order, claims stay good, and all go on within seconds",
        where="postgres",
        server=True,
        tests=("tests/crash/test_failover.py",),
    ),
    Fault(
        number=24,
        words="PostgreSQL fails over to an asynchronous standby that lacks the last commits",
        expected="these are lost with the database; what is acknowledged afterwards is handed out, goes to routes that "
        "there are, in the order of its keys, and has an id that was never given before",
        where="postgres",
        server=True,
        tests=("tests/crash/test_failover.py", "tests/torture/test_planted.py", "tests/pipeline/test_incarnations.py"),
    ),
    Fault(
        number=25,
        words="a restore from a dump or a copy of the file, older than the lake and the webhooks sent",
        expected="a new incarnation: no id or webhook-id again, the lake is compared and goes on, the log says so",
        tests=("tests/conformance/test_restored.py", "tests/pipeline/test_incarnations.py"),
    ),
    Fault(
        number=26,
        words="PgBouncer in between, in transaction and in session mode",
        expected="all works; wake-ups come by a URL of their own, or new events are looked for and the log says so",
        where="postgres",
        server=True,
        tests=("tests/conformance/test_poolers.py", "tests/http/test_poolers.py"),
    ),
    Fault(
        number=27,
        words="the first of several hosts is silent, refuses, or cannot be written to",
        expected="the next one is asked within three seconds",
        where="postgres",
        server=True,
        tests=("tests/conformance/test_hosts_postgres.py",),
    ),
    Fault(
        number=28,
        words="PostgreSQL hangs (SIGSTOP to the server and all its processes)",
        expected="/ready says so within 5 s, every call ends within a minute, and all go on afterwards",
        where="postgres",
        server=True,
        soak=("postgres-hang",),
        tests=("tests/conformance/test_hanging_postgres.py", "tests/http/test_hanging_database.py"),
    ),
    Fault(
        number=29,
        words="an SQLite file that is moved, deleted, replaced or made read-only while it is open",
        expected="nothing is acknowledged any more, in words; work goes on once the file is back, or after a restart "
        "with what is in its place",
        where="sqlite",
        tests=("tests/conformance/test_moved_sqlite.py", "tests/torture/test_moved.py"),
    ),
    Fault(
        number=30,
        words="a disk without room for the -shm file, the log or another file",
        expected="the call fails in words, and the next one goes through once there is room",
        where="sqlite",
        tests=("tests/conformance/test_bad_sqlite.py",),
    ),
    Fault(
        number=33,
        words="a migration behind a long reader, such as a dump",
        expected="those who are at work wait for less than two seconds at a time, and the migration is done after it",
        where="postgres",
        server=True,
        tests=("tests/crash/test_migrations_under_way.py",),
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
