"""The private PostgreSQL under the name that the tests know; it lives in the package, for users' tests too."""

from eventhub.testing.postgres_cluster import PostgresCluster, PostgresError, _processes_of

__all__ = ["PostgresCluster", "PostgresError", "_processes_of"]
