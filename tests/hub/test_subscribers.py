"""The book of subscribers, on both engines: nothing secret is kept in the clear or shown twice."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from eventhub.core.signing import parse_secret
from eventhub.core.subscribers import Subscriber
from eventhub.errors import (
    BlockedDestination,
    InvalidSubscriberError,
    SettingsError,
    SubscriberChanged,
    SubscriberExists,
    SubscriberNotFound,
)
from eventhub.hub.destinations import Destinations
from eventhub.hub.sealing import Vault
from eventhub.hub.subscribers import ReadySubscriber, SubscriberBook
from eventhub.store import Store

URL = "https://hooks.example.com/orders"
OWN = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
DAY = timedelta(days=1)


@pytest.fixture
def book(store: Store) -> SubscriberBook:
    return opened(store)


def opened(store: Store, *, secret: bytes = b"s" * 32, allowed: tuple[str, ...] = ()) -> SubscriberBook:
    return SubscriberBook(store, Vault(secret), Destinations.parse(allowed))


def made(name: str = "shipping", **fields: Any) -> Subscriber:
    return Subscriber(**{"name": name, "url": URL, **fields})


async def ready(book: SubscriberBook, store: Store, number: int, *, later: timedelta = timedelta(0)) -> ReadySubscriber:
    row = await store.subscriber(number)
    assert row is not None
    found = book.ready(row, await store.now() + later)
    assert found is not None
    return found


async def test_a_new_subscriber_is_active_and_its_secret_is_made(book: SubscriberBook, store: Store):
    view, secret = await book.create(made(event_type="order.*", filter={"payload.a": 1}))
    assert (view.status, view.circuit, view.version, view.secrets) == ("active", "closed", 1, 1)
    assert view.subscriber == made(event_type="order.*", filter={"payload.a": 1})
    assert len(parse_secret(secret)) == 32
    assert await book.get(view.id) == view
    assert (await ready(book, store, view.id)).secrets == (parse_secret(secret),)
    _, other = await book.create(made("billing"))
    assert other != secret


async def test_a_secret_of_ones_own_is_taken_if_it_is_one(book: SubscriberBook):
    _, secret = await book.create(made(), secret=OWN)
    assert secret == OWN
    with pytest.raises(InvalidSubscriberError) as caught:
        await book.create(made("other"), secret="hunter2")
    assert caught.value.field == "secret"
    assert [view.subscriber.name for view in await book.list()] == ["shipping"]


async def test_nothing_secret_is_stored_in_the_clear_or_shown(book: SubscriberBook, store: Store):
    view, secret = await book.create(made(headers={"Authorization": "Bearer hunter2", "X-Tenant": "t1"}))
    assert view.subscriber.headers == {"Authorization": "***", "X-Tenant": "t1"}
    row = await store.subscriber(view.id)
    assert row is not None
    for hidden in ("hunter2", secret, secret.removeprefix("whsec_")):
        assert hidden not in row.document
        assert hidden.encode() not in (row.sealed or b"")
    found = await ready(book, store, view.id)
    assert found.headers == {"authorization": "Bearer hunter2", "x-tenant": "t1"}
    assert "hunter2" not in repr(found)
    assert secret not in repr(found)


async def test_a_name_is_one_subscribers(book: SubscriberBook):
    first, _ = await book.create(made("a"))
    second, _ = await book.create(made("b"))
    with pytest.raises(SubscriberExists, match="'a'"):
        await book.create(made("a"))
    with pytest.raises(SubscriberExists):
        await book.update(second.id, {"name": "a"})
    assert (await book.find("a")).id == first.id
    assert (await book.find(str(second.id))).subscriber.name == "b"
    assert [view.id for view in await book.list()] == [first.id, second.id]


async def test_who_is_not_there_is_not_found(book: SubscriberBook):
    for call in (
        book.get(4711),
        book.find("nobody"),
        book.find("4711"),
        book.update(4711, {}),
        book.remove(4711, "me"),
        book.enable(4711),
        book.disable(4711),
        book.pause(4711),
        book.resume(4711),
        book.rotate_secret(4711, DAY),
    ):
        with pytest.raises(SubscriberNotFound):
            await call


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://example.com:25/"])
async def test_an_internal_address_is_refused_when_it_is_made_and_when_it_is_changed(
    book: SubscriberBook, store: Store, url: str
):
    with pytest.raises(BlockedDestination):
        await book.create(made(url=url))
    view, _ = await book.create(made())
    with pytest.raises(BlockedDestination):
        await book.update(view.id, {"url": url})
    assert (await book.get(view.id)).subscriber.url == URL


async def test_an_internal_address_is_taken_where_it_is_allowed(store: Store):
    view, _ = await opened(store, allowed=("127.0.0.0/8",)).create(made(url="http://localhost:8080/"))
    assert view.subscriber.url == "http://localhost:8080/"


async def test_a_change_replaces_what_it_names(book: SubscriberBook):
    view, _ = await book.create(made(rate_per_second=5, headers={"X-A": "1"}))
    changed = await book.update(view.id, {"event_type": "order.*", "rate_per_second": None})
    assert changed.subscriber == made(event_type="order.*", headers={"X-A": "1"})
    assert changed.version == view.version + 1
    assert (await book.update(view.id, {"headers": {}})).subscriber.headers == {}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"colour": "red"}, "colour"),
        ({"max_in_flight": 0}, "max_in_flight"),
        ({"url": None}, "url"),
        ({"headers": {"Host": "x"}}, "headers.Host"),
        ({"headers": {"X-Api-Key": "***"}}, "headers.X-Api-Key"),
        ({"filter": {"payload.a": {"like": 1}}}, "filter.payload.a"),
    ],
)
async def test_a_change_for_the_worse_is_refused_and_changes_nothing(
    book: SubscriberBook, changes: dict[str, Any], field: str
):
    view, _ = await book.create(made())
    with pytest.raises(InvalidSubscriberError) as caught:
        await book.update(view.id, changes)
    assert caught.value.field == field
    assert await book.get(view.id) == view


@pytest.mark.parametrize(
    "url",
    [
        "https://attacker.example/hook",
        "http://hooks.example/in",
        "https://hooks.example:8443/in",
        "https://hooks.example.attacker.example/in",
    ],
)
@pytest.mark.parametrize("given", [{}, {"headers": {"Authorization": "***"}}])
async def test_a_secret_header_does_not_go_along_to_another_address(
    book: SubscriberBook, store: Store, url: str, given: dict[str, Any]
):
    view, _ = await book.create(made(url="https://hooks.example/in", headers={"Authorization": "Bearer one"}))
    with pytest.raises(InvalidSubscriberError, match="Give its value again") as caught:
        await book.update(view.id, {"url": url, **given})
    assert caught.value.field == "headers.Authorization"
    assert (await ready(book, store, view.id)).subscriber.url == "https://hooks.example/in"
    await book.update(view.id, {"url": url, "headers": {"Authorization": "Bearer two"}})
    assert (await ready(book, store, view.id)).headers == {"authorization": "Bearer two"}
    await book.update(view.id, {"url": "https://elsewhere.example/", "headers": {}})
    assert (await ready(book, store, view.id)).headers == {}


@pytest.mark.parametrize("url", ["https://hooks.example/other?a=b", "https://HOOKS.example:443/in"])
async def test_a_secret_header_stays_for_another_path_of_the_same_address(book: SubscriberBook, store: Store, url: str):
    view, _ = await book.create(made(url="https://hooks.example/in", headers={"Authorization": "Bearer one"}))
    await book.update(view.id, {"url": url})
    assert (await ready(book, store, view.id)).headers == {"authorization": "Bearer one"}


async def test_a_hidden_header_stays_as_it_was_when_it_is_given_back(book: SubscriberBook, store: Store):
    view, _ = await book.create(made(headers={"Authorization": "Bearer one", "X-Api-Key": "two"}))
    await book.update(view.id, {"headers": {"authorization": "***", "X-Api-Key": "three"}})
    assert (await ready(book, store, view.id)).headers == {"authorization": "Bearer one", "x-api-key": "three"}
    given_back = msgspec.structs.asdict((await book.get(view.id)).subscriber)
    await book.update(view.id, given_back)
    assert (await ready(book, store, view.id)).headers == {"authorization": "Bearer one", "x-api-key": "three"}
    await book.update(view.id, {"headers": {"X-Api-Key": "***"}})
    with pytest.raises(InvalidSubscriberError):
        await book.update(view.id, {"headers": {"authorization": "***"}})


async def test_a_change_of_another_version_is_refused(book: SubscriberBook):
    view, _ = await book.create(made())
    await book.update(view.id, {"max_in_flight": 5}, expected_version=view.version)
    with pytest.raises(SubscriberChanged, match="version 2, not 1"):
        await book.update(view.id, {"max_in_flight": 6}, expected_version=view.version)
    assert (await book.get(view.id)).subscriber.max_in_flight == 5


async def test_changes_at_the_same_time_are_all_made(store: Store):
    books = [opened(store) for _ in range(3)]
    view, _ = await books[0].create(made())
    fields: list[dict[str, Any]] = [{"max_in_flight": 7}, {"description": "x"}, {"event_type": "a.*"}]
    await asyncio.gather(*(book.update(view.id, change) for book, change in zip(books, fields, strict=True)))
    assert (await books[0].get(view.id)).subscriber == made(max_in_flight=7, description="x", event_type="a.*")


async def test_after_a_rotation_both_secrets_sign_until_the_overlap_ends(book: SubscriberBook, store: Store):
    view, old = await book.create(made())
    new = await book.rotate_secret(view.id, DAY)
    assert new != old
    assert (await book.get(view.id)).secrets == 2
    both = (parse_secret(new), parse_secret(old))
    assert (await ready(book, store, view.id)).secrets == both
    assert (await ready(book, store, view.id, later=DAY - timedelta(minutes=1))).secrets == both
    assert (await ready(book, store, view.id, later=DAY + timedelta(minutes=1))).secrets == both[:1]


async def test_a_rotation_without_overlap_ends_all_earlier_secrets(book: SubscriberBook, store: Store):
    view, _ = await book.create(made())
    await book.rotate_secret(view.id, DAY)
    new = await book.rotate_secret(view.id, timedelta(0), secret=OWN)
    assert new == OWN
    assert (await ready(book, store, view.id)).secrets == (parse_secret(OWN),)


async def test_an_earlier_secret_never_lives_longer_than_it_was_told(book: SubscriberBook, store: Store):
    view, first = await book.create(made())
    second = await book.rotate_secret(view.id, timedelta(hours=1))
    third = await book.rotate_secret(view.id, DAY)
    in_two_hours = await ready(book, store, view.id, later=timedelta(hours=2))
    assert in_two_hours.secrets == (parse_secret(third), parse_secret(second))
    assert parse_secret(first) in (await ready(book, store, view.id)).secrets


async def test_what_cannot_be_rotated_is_refused(book: SubscriberBook, store: Store):
    view, secret = await book.create(made())
    for overlap in (timedelta(seconds=-1), timedelta(days=31)):
        with pytest.raises(InvalidSubscriberError, match="overlap"):
            await book.rotate_secret(view.id, overlap)
    with pytest.raises(InvalidSubscriberError, match="already"):
        await book.rotate_secret(view.id, DAY, secret=secret)
    for _ in range(4):
        await book.rotate_secret(view.id, DAY)
    with pytest.raises(InvalidSubscriberError, match="still live"):
        await book.rotate_secret(view.id, DAY)
    assert len((await ready(book, store, view.id)).secrets) == 5
    await book.rotate_secret(view.id, timedelta(0))
    assert len((await ready(book, store, view.id)).secrets) == 1


async def test_a_pause_is_ended_by_resuming(book: SubscriberBook):
    view, _ = await book.create(made())
    paused = await book.pause(view.id, "maintenance")
    assert (paused.status, paused.reason) == ("paused", "maintenance")
    assert (await book.pause(view.id)).status == "paused"
    resumed = await book.resume(view.id)
    assert (resumed.status, resumed.reason) == ("active", None)
    assert (await book.resume(view.id)).status == "active"


async def test_who_is_disabled_must_be_enabled(book: SubscriberBook):
    view, _ = await book.create(made())
    assert (await book.disable(view.id, "spam")).reason == "spam"
    for call in (book.resume(view.id), book.pause(view.id)):
        with pytest.raises(SubscriberChanged, match="spam"):
            await call
    assert (await book.enable(view.id)).status == "active"
    assert (await book.disable(view.id)).status == "disabled"


async def test_switching_one_off_is_news_once(book: SubscriberBook, store: Store):
    view, _ = await book.create(made())
    await book.disable(view.id, "spam")
    await book.disable(view.id, "again")
    waiting, _ = await store.fanout_waiting(10)
    assert waiting == 1


async def test_a_reason_has_a_size(book: SubscriberBook):
    view, _ = await book.create(made())
    for reason in ("x" * 1001, "\x00"):
        with pytest.raises(InvalidSubscriberError, match="reason"):
            await book.pause(view.id, reason)


async def test_who_is_removed_is_gone(book: SubscriberBook):
    view, _ = await book.create(made())
    assert await book.remove(view.id, "me") == 0
    assert await book.list() == []
    again, _ = await book.create(made())
    assert again.id > view.id


async def test_under_another_secret_file_nothing_is_sent_but_all_can_be_seen_and_removed(store: Store):
    view, _ = await opened(store).create(made(headers={"Authorization": "x"}))
    stranger = opened(store, secret=b"t" * 32)
    row = await store.subscriber(view.id)
    assert row is not None
    assert stranger.ready(row, await store.now()) is None
    assert [each.secrets for each in await stranger.list()] == [0]
    for call in (stranger.update(view.id, {"max_in_flight": 1}), stranger.rotate_secret(view.id, DAY)):
        with pytest.raises(SettingsError, match="EVENTHUB_SECRET_FILE"):
            await call
    assert await stranger.remove(view.id, "me") == 0


async def test_secrets_of_one_row_do_not_open_in_another(book: SubscriberBook, store: Store):
    one, _ = await book.create(made("a"))
    two, _ = await book.create(made("b"))
    first, second = await store.subscriber(one.id), await store.subscriber(two.id)
    assert first is not None
    assert second is not None
    swapped = msgspec.structs.replace(first, sealed=second.sealed)
    assert book.ready(swapped, await store.now()) is None


async def test_what_is_wrong_with_a_subscriber_is_said_once_until_it_changes(store: Store):
    view, _ = await opened(store).create(made())
    stranger = opened(store, secret=b"t" * 32)

    async def complaints() -> int:
        row = await store.subscriber(view.id)
        assert row is not None
        with capture_logs() as told:
            assert stranger.ready(row, await store.now()) is None
        return [entry["event"] for entry in told].count("subscriber_not_usable")

    assert [await complaints() for _ in range(3)] == [1, 0, 0]
    await opened(store).update(view.id, {"description": "other"})
    assert [await complaints() for _ in range(3)] == [1, 0, 0]
