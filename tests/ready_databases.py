"""Databases whose tables are there: copied from a pattern, several at a time, and dropped several at a time.

Starting psql and copying take longer than most tests do; so both are done for many tests at once.
"""

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

from eventhub.store import open_store
from tests.postgres_cluster import PostgresCluster

_PATTERN = "pattern_of_ready_databases"
_STOCK = 10
_NOWHERE = "DELETE FROM eventhub.meta WHERE key = 'place'"
"""A copy is another database and would begin a new incarnation; these are to be like new."""
_numbers = itertools.count(1)


class ReadyDatabases:
    """The databases of one cluster: some in stock, some that nobody needs any more."""

    def __init__(self, cluster: PostgresCluster) -> None:
        self._cluster = cluster
        self._stock: list[str] = []
        self._used: list[str] = []
        url = cluster.create_database(_PATTERN)
        with ThreadPoolExecutor(1) as aside:  # this thread's event loop may be running
            aside.submit(asyncio.run, _migrate(url)).result()
        cluster.execute(_NOWHERE, database=_PATTERN)

    def take(self) -> str:
        """The name of a database as `eventhub migrate` would leave it."""
        if not self._stock:
            new = [f"ready_{next(_numbers)}" for _ in range(_STOCK)]
            dropping = [f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)' for name in self._used]
            copying = [f'CREATE DATABASE "{name}" TEMPLATE {_PATTERN} STRATEGY file_copy' for name in new]
            self._cluster.execute(*dropping, *copying)
            self._used.clear()
            self._stock = new
        return self._stock.pop()

    def leave(self, name: str) -> None:
        """Nobody needs it any more; it is dropped before the next ones are made."""
        self._used.append(name)


_of_clusters: WeakKeyDictionary[PostgresCluster, ReadyDatabases] = WeakKeyDictionary()


def ready_databases(cluster: PostgresCluster) -> ReadyDatabases:
    """Those of this cluster, which runs."""
    if cluster not in _of_clusters:
        _of_clusters[cluster] = ReadyDatabases(cluster)
    return _of_clusters[cluster]


async def _migrate(url: str) -> None:
    async with open_store(url):
        pass
