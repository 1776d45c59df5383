"""What a user would write instead of a hub: a FastAPI app that does one INSERT for each request.

``python -m eventhub.bench.http.rival`` serves it with uvicorn on uvloop and httptools, on a free port. It is written as
one writes such an app, with a pool, models and a table with an identity column; it has no work queue, no retries, no
log and no idempotency.
"""

import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import asyncpg
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

__all__ = ["app"]

TABLE = """
CREATE TABLE IF NOT EXISTS plain_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    title text,
    tags text NOT NULL,
    payload jsonb NOT NULL,
    status text NOT NULL DEFAULT 'PENDING',
    created_at timestamptz NOT NULL DEFAULT now()
)
"""
INSERT = "INSERT INTO plain_events (title, tags, payload) VALUES ($1, $2, $3) RETURNING *"


class NewEvent(BaseModel):
    title: str | None = None
    tags: str
    payload: dict[str, Any]


class Event(NewEvent):
    id: int
    status: str
    created_at: datetime


@asynccontextmanager
async def life(_: FastAPI) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], init=understand_json) as pool:
        await pool.execute(TABLE)
        app.state.pool = pool
        yield


async def understand_json(connection: Any) -> None:
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


app = FastAPI(lifespan=life)


@app.post("/events", status_code=201)
async def publish(event: NewEvent) -> Event:
    row = await app.state.pool.fetchrow(INSERT, event.title, event.tags, event.payload)
    return Event(**row)


def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"listens on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)  # noqa: T201 - the bench waits for it
    config = uvicorn.Config(app, loop="uvloop", http="httptools", access_log=False, log_level="warning")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
