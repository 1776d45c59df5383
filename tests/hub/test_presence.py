"""Roles leave signs of life, so that another process can tell whether anybody has them."""

from eventhub.hub.crew import Crew
from eventhub.hub.destinations import Destinations
from eventhub.hub.presence import is_present
from eventhub.hub.sealing import Vault
from eventhub.hub.subscribers import SubscriberBook
from eventhub.store import open_store
from tests.hub.test_delivery import until


async def test_whoever_has_a_role_is_known_to_others(store_url: str) -> None:
    async with open_store(store_url) as here, open_store(store_url) as elsewhere:
        assert not await is_present(here, "janitor")
        destinations = Destinations(())
        book = SubscriberBook(elsewhere, Vault(b"s" * 32), destinations, queue="work")
        crew = Crew(elsewhere, book, destinations, queue="work", roles=frozenset({"janitor"}))
        await crew.start()
        try:
            await until(lambda: is_present(here, "janitor"))
            assert not await is_present(here, "dispatcher")
            assert await here.workers("work") == []
        finally:
            await crew.stop()
