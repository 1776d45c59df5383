"""The engine for many processes and hosts: PostgreSQL through asyncpg."""

from eventhub.store.postgres.engine import PostgresStore

__all__ = ["PostgresStore"]
