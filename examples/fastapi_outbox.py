"""A FastAPI app whose orders and events are one transaction (outbox): there is never one without the other.

    pip install 'eventhub[postgres]' fastapi uvicorn 'sqlalchemy[asyncio]'
    DATABASE_URL=postgresql://app@localhost/shop uvicorn --app-dir examples fastapi_outbox:app
    curl -d '{"item": "tea", "amount": 2}' -H 'content-type: application/json' http://127.0.0.1:8000/orders

Whatever works on the queue ``shop`` of that database gets order.placed, after the commit, at least once.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from eventhub import EventQueue

URL = os.environ["DATABASE_URL"]
queue = EventQueue(URL, queue="shop")
engine = create_async_engine("postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(URL))
sessions = async_sessionmaker(engine)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    amount: Mapped[int]


class NewOrder(BaseModel):
    item: str
    amount: int


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with queue:
        yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


async def publish(session: AsyncSession, kind: str, payload: dict[str, object]) -> int:
    """Publish within the session's transaction, which has to have begun: flush first."""
    raw = await (await session.connection()).get_raw_connection()
    return (await queue.publish(kind, payload, connection=raw.driver_connection)).id


@app.post("/orders", status_code=201)
async def place(new: NewOrder) -> dict[str, int]:
    async with sessions.begin() as session:  # both rows, or neither
        order = Order(item=new.item, amount=new.amount)
        session.add(order)
        await session.flush()
        event = await publish(session, "order.placed", {"order": order.id, "item": new.item, "amount": new.amount})
        if new.amount > 10:  # noqa: PLR2004
            raise HTTPException(409, "We do not have so much of it.")  # the event is gone with the order
        return {"order": order.id, "event": event}
