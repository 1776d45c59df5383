"""Work queues on one fresh store, with a clock that only the test moves; others stand for other processes."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from eventhub.clock import ManualClock
from eventhub.queue.work import WorkQueue
from eventhub.store import Store, open_store
from tests.conformance.conftest import empty_store_url
from tests.postgres_cluster import PostgresCluster
from tests.queue.work.support import Spy

MakeWork = Callable[..., WorkQueue]
OpenAnother = Callable[..., Awaitable[WorkQueue]]


@pytest.fixture(scope="session")
def work_postgres_url(postgres: PostgresCluster) -> Iterator[str]:
    """A database for all of these tests; making one for each would take most of the time."""
    yield postgres.create_database("work")
    postgres.start()
    postgres.drop_database("work")


@pytest.fixture(params=["sqlite", "postgres"])
async def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty store, each engine in turn."""
    return await empty_store_url(request, "work_postgres_url")


@pytest.fixture
async def make_work(store: Store, clock: ManualClock) -> AsyncIterator[MakeWork]:
    """Work queues on the one store; ``clock=None`` for the database's clock."""
    made: list[WorkQueue] = []

    def make(**options: Any) -> WorkQueue:
        made.append(WorkQueue(store, **{"clock": clock, **options}))
        return made[-1]

    yield make
    for queue in made:
        await queue.close()


@pytest.fixture
def work(make_work: MakeWork) -> WorkQueue:
    return make_work()


@pytest.fixture
def live(make_work: MakeWork) -> WorkQueue:
    """By the database's own clock, as in production."""
    return make_work(clock=None)


@pytest.fixture
async def other_process(store_url: str, clock: ManualClock) -> AsyncIterator[OpenAnother]:
    """Work queues with a store of their own on the same database: they remember nothing of what the others did."""
    opened: list[tuple[WorkQueue, Store]] = []

    async def open_one(**options: Any) -> WorkQueue:
        store = await open_store(store_url)
        opened.append((WorkQueue(store, **{"clock": clock, **options}), store))
        return opened[-1][0]

    yield open_one
    for queue, store in opened:
        await queue.close()
        await store.close()


@pytest.fixture
def spy(store: Store) -> Spy:
    return Spy(store)
