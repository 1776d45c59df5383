"""A standby of a private PostgreSQL: streaming replication, and the promotion that a failover is.

    with PostgresCluster(tcp=True) as primary, PostgresStandby(primary) as standby:
        url = failover_url(primary, standby)
        standby.catch_up()      # it has all that the primary had by then
        standby.disconnect()    # what is committed from now on, it lacks
        primary.stop("immediate")
        standby.promote()

The one that is to lose nothing is made synchronous with ``wait_for_standby``.
"""

import time
from pathlib import Path

from eventhub.testing.postgres_cluster import PostgresCluster, PostgresError, Setting

__all__ = ["PostgresStandby", "failover_url", "wait_for_standby"]

PATIENCE = 60.0
NAME = "eventhub_standby"


class PostgresStandby(PostgresCluster):
    """A server that follows another one, which runs; it has the same settings, users and passwords."""

    def __init__(self, primary: PostgresCluster, **settings: Setting) -> None:
        super().__init__(tcp=primary.port is not None, **(primary.settings | settings))
        self._primary = primary
        self.password = primary.password

    def catch_up(self) -> None:
        """Wait until it has replayed what the primary has written by now."""
        goal = self._primary.execute("SELECT pg_current_wal_insert_lsn()")
        self._wait_until(f"SELECT pg_last_wal_replay_lsn() >= '{goal}'::pg_lsn", f"did not come to {goal}")

    def disconnect(self) -> None:
        """Receive nothing more; returns when the receiver has ended."""
        self.execute("ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
        self._wait_until("SELECT count(*) = 0 FROM pg_stat_wal_receiver", "went on receiving")

    def promote(self) -> None:
        """Make it a primary, on a timeline of its own; returns when it can be written."""
        if self.execute(f"SELECT pg_promote(true, {int(PATIENCE)})") != "t":
            raise PostgresError("The standby was not promoted. See its log.")

    def _wait_until(self, question: str, complaint: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.execute(question) != "t":
            if time.monotonic() > deadline:
                raise PostgresError(f"The standby {complaint} within {PATIENCE:g} s.")
            time.sleep(0.01)

    def _make_data(self, password: Path) -> None:  # noqa: ARG002 - the copy has it
        source = f"host={self._primary.directory} port={self._primary.port or 5432} user=postgres"
        place = ["-D", str(self.directory / "data"), "--no-sync", "--checkpoint=fast", "--wal-method=stream"]
        self._run("pg_basebackup", *place, "-d", source)
        data = self.directory / "data"
        (data / "standby.signal").touch(0o600)
        self._give(data / "standby.signal")
        with (data / "postgresql.auto.conf").open("a") as file:
            file.write(f"primary_conninfo = '{source} application_name={NAME}'\nsynchronous_standby_names = ''\n")


def wait_for_standby(primary: PostgresCluster, *, wait: bool = True) -> None:
    """Let commits of the primary wait until the standby has them, or not."""
    names = NAME if wait else ""
    primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'", "SELECT pg_reload_conf()")
    deadline = time.monotonic() + PATIENCE
    question = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
    while int(primary.execute(question)) != int(wait):
        if time.monotonic() > deadline:
            raise PostgresError(f"The standby was not made synchronous within {PATIENCE:g} s.")
        time.sleep(0.01)


def failover_url(*clusters: PostgresCluster, database: str = "postgres") -> str:
    """One URL with the addresses of several servers, in the order in which they are tried."""
    hosts = ",".join(f"127.0.0.1:{cluster.port}" for cluster in clusters)
    return f"postgresql://postgres:{clusters[0].password}@{hosts}/{database}"
