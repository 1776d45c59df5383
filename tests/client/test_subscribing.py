"""The client for operators: subscribers and dead letters, with typed answers and our own errors."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from eventhub import Client, blocking
from eventhub.errors import (
    BlockedDestination,
    InvalidSubscriberError,
    RemoteError,
    SubscriberChanged,
    SubscriberExists,
    SubscriberNotFound,
)
from tests.client.support import Hub, until
from tests.http.receiver import Receiver

URL = "https://hooks.example.com/in"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture(scope="module")
def webhooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("webhooks"), "hub.db", "--allow-private", "127.0.0.0/8") as running:
        yield running


@pytest.fixture
async def operator(webhooks: Hub) -> AsyncIterator[Client]:
    async with Client(webhooks.url) as opened:
        yield opened


async def test_a_subscriber_is_made_changed_and_removed(operator: Client, tag: str):
    made = await operator.create_subscriber(tag, URL, event_type=f"{tag}.*", retry_backoff_seconds=[1, 2])
    assert made.secret.startswith("whsec_")
    assert (made.name, made.status, made.retry_backoff_seconds) == (tag, "active", (1.0, 2.0))
    found = await operator.subscriber(made.id)
    assert (found.id, found.version, found.headers) == (made.id, made.version, {})
    changed = await operator.change_subscriber(made.id, version=made.version, headers={"X-Team": "a"}, filter=None)
    assert (changed.headers, changed.event_type) == ({"X-Team": "a"}, f"{tag}.*")
    with pytest.raises(SubscriberChanged):
        await operator.change_subscriber(made.id, version=made.version, url=URL)
    assert [each.id for each in await operator.subscribers() if each.name == tag] == [made.id]
    assert (await operator.pause_subscriber(made.id, reason="a while")).reason == "a while"
    assert (await operator.resume_subscriber(made.id)).status == "active"
    secret = await operator.rotate_secret(made.id, overlap=timedelta(hours=1))
    assert secret not in (made.secret, "")
    assert (await operator.subscriber(made.id)).secrets == 2
    assert await operator.remove_subscriber(made.id) == 0
    with pytest.raises(SubscriberNotFound):
        await operator.subscriber(made.id)


async def test_what_the_hub_refuses_is_our_own_error(operator: Client, tag: str):
    await operator.create_subscriber(tag, URL, event_type=f"{tag}.*")
    with pytest.raises(SubscriberExists):
        await operator.create_subscriber(tag, URL)
    with pytest.raises(BlockedDestination):
        await operator.create_subscriber(f"{tag}-in", "http://10.0.0.1/")
    with pytest.raises(InvalidSubscriberError) as caught:
        await operator.create_subscriber(f"{tag}-host", URL, headers={"Host": "evil.example"})
    assert caught.value.field == "headers.Host"
    with pytest.raises(RemoteError, match="max_in_flight"):
        await operator.create_subscriber(f"{tag}-many", URL, max_in_flight="many")  # type: ignore[arg-type]


async def test_dead_letters_are_listed_and_retried(operator: Client, receiver: Receiver, tag: str):
    receiver.statuses[f"/{tag}"] = 400
    made = await operator.create_subscriber(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.x")
    for number in range(3):
        await operator.publish(event_type=f"{tag}.x", payload=number)

    async def all_dead() -> bool:
        return (await operator.dead_letters(subscriber=made.id)).total == 3

    await until(all_dead, "three dead letters")
    page = await operator.dead_letters(
        subscriber=made.id, event_type=f"{tag}.x", since=datetime.now(UTC) - timedelta(minutes=5), limit=2
    )
    assert [letter.reason for letter in page.dead_letters] == ["rejected", "rejected"]
    rest = await operator.dead_letters(subscriber=made.id, before=page.next_before, limit=2)
    assert (len(rest.dead_letters), rest.next_before) == (1, None)
    receiver.statuses[f"/{tag}"] = 200
    wanted = {"subscriber": made.id}
    assert await operator.retry_dead(filter=wanted, dry_run=True) == 3
    assert await operator.retry_dead([rest.dead_letters[0].id]) == 1
    assert await operator.retry_dead(filter=wanted) == 2
    await asyncio.to_thread(receiver.wait, f"/{tag}", 6)
    assert (await operator.dead_letters(subscriber=made.id)).total == 0


def test_programs_without_an_event_loop_have_it_too(webhooks: Hub, tag: str):
    with blocking.Client(webhooks.url) as client:
        made = client.create_subscriber(tag, URL, event_type=f"{tag}.*")
        assert client.subscriber(made.id).name == tag
        assert client.remove_subscriber(made.id) == 0
