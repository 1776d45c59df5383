"""Every administrative act leaves a row in its own transaction, and what has changed nothing leaves none."""

import getpass
from datetime import timedelta
from typing import Any

import pytest

from eventhub.core.lifecycle import Bury
from eventhub.store import Store
from eventhub.store.acts import of_message
from eventhub.store.audit import HUB, Act, Actor, AuditEntry, AuditFilter, acting_as
from eventhub.store.values import ApiKey
from tests.conformance.support import START, at, new, publish_one, report, seconds, take_one

ANNA = Actor("anna", "key", "192.0.2.7", "k0")


def key(key_id: str) -> ApiKey:
    return ApiKey(id=key_id, name="shop", digest=b"x", scopes=("read",), created_at=START)


async def acts(store: Store, **wanted: Any) -> list[AuditEntry]:
    """Oldest first."""
    return (await store.audit(AuditFilter(**wanted)))[::-1]


async def bury_one(store: Store) -> int:
    number = await publish_one(store)
    await report(store, await take_one(store), Bury("broken"))
    return number


async def test_an_act_has_actor_address_target_and_time(store: Store) -> None:
    with acting_as(ANNA):
        await store.add_key(key("k1"))
        await store.revoke_key("k1", at(5))
    created, revoked = await acts(store)
    assert (created.actor, created.actor_kind, created.address, created.key_id) == ("anna", "key", "192.0.2.7", "k0")
    assert (created.action, created.target, created.details["name"]) == ("key.create", "key:k1", "shop")
    assert (revoked.action, revoked.target, revoked.created_at) == ("key.revoke", "key:k1", at(5))


async def test_what_changes_nothing_leaves_no_row(store: Store) -> None:
    await store.add_key(key("k1"))
    assert not await store.revoke_key("k2")
    assert not await store.reset(4711, reason="no such event")
    assert not await store.retry_dead([4711], by="anna")
    assert not await store.set_status(4711, "paused")
    assert await store.purge_dead(older_than=timedelta(0)) == 0
    assert [act.action for act in await acts(store)] == ["key.create"]


async def test_an_act_that_fails_leaves_no_row(store: Store) -> None:
    await store.add_key(key("k1"))
    with pytest.raises(Exception, match="an API key with the id k1 already"):
        await store.add_key(key("k1"))
    assert len(await acts(store)) == 1


async def test_without_a_context_it_is_the_user_of_this_machine(store: Store) -> None:
    await store.add_key(key("k1"))
    (act,) = await acts(store)
    assert (act.actor, act.actor_kind) == (getpass.getuser(), "user")
    assert act.address


async def test_dead_letters_are_told_by_their_ids(store: Store) -> None:
    first, second = await bury_one(store), await bury_one(store)
    with acting_as(ANNA):
        await store.retry_dead([first], by="anna")
        assert await store.purge_dead(older_than=timedelta(0), now=at(10)) == 1
    retried, purged = await acts(store)
    assert (retried.action, retried.target) == ("dead_letter.retry", f"delivery:{first}")
    assert retried.details == {"count": 1, "deliveries": [first]}
    assert (purged.action, purged.details) == ("dead_letter.purge", {"count": 1, "events": [second]})


async def test_a_reset_and_a_freed_key_are_told(store: Store) -> None:
    number = await publish_one(store)
    await take_one(store)
    assert await store.reset(number, reason="stuck", now=at(1))
    (act,) = await acts(store)
    assert (act.action, act.target, act.details) == ("event.reset", f"event:{number}", {"reason": "stuck"})


async def test_an_act_of_publishing_names_what_is_new_and_a_repetition_is_none(store: Store) -> None:
    act = Act("event.replay", "event:7")
    for _ in range(2):
        with acting_as(ANNA):
            (published,) = await store.publish([new(idempotency_key="again")], act=act)
    (told,) = await acts(store)
    assert (told.action, told.target, told.details) == ("event.replay", "event:7", {"published": [published.id]})
    assert (await take_one(store)).event.id == published.id


async def test_pages_and_filters(store: Store) -> None:
    for number in range(5):
        with acting_as(ANNA if number % 2 else HUB):
            await store.record_act(of_message("retry", number), now=at(number))
            await store.record_act(Act("key.revoke", f"key:{number}"), now=at(number))
    assert len(await acts(store)) == 10
    page = await store.audit(AuditFilter(limit=3))
    assert [entry.target for entry in page] == ["key:4", "message:4", "key:3"]
    following = await store.audit(AuditFilter(limit=3, before_id=page[-1].id))
    assert [entry.target for entry in following] == ["message:3", "key:2", "message:2"]
    assert [entry.target for entry in await acts(store, actor="anna", action="key")] == ["key:1", "key:3"]
    assert await acts(store, action="ke") == []
    assert [entry.actor for entry in await acts(store, target="key:2")] == ["hub"]
    timed = await acts(store, since=at(1), until=at(2), action="message.retry")
    assert [entry.target for entry in timed] == ["message:1", "message:2"]


async def test_old_acts_are_pruned_at_the_end_of_their_time(store: Store) -> None:
    for number in range(3):
        await store.record_act(Act("key.revoke", f"key:{number}"), now=at(number))
    assert await store.prune_audit(seconds(10), now=at(11.5)) == 2
    assert [entry.target for entry in await acts(store)] == ["key:2"]
    assert await store.prune_audit(seconds(10), now=at(12)) == 0


async def test_texts_from_outside_are_bounded(store: Store) -> None:
    with acting_as(Actor("x" * 1000, "key")):
        await store.record_act(Act("key.create", "key:" + "y" * 1000, {"name": "z" * 1000}))
    (act,) = await acts(store)
    assert (len(act.actor), len(act.target or ""), len(act.details["name"])) == (200, 200, 200)
