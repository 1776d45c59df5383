"""API keys over HTTP, for administrators."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from eventhub.http.answers import NO_STORE, Answer, document, empty
from eventhub.http.asking import Ask
from eventhub.http.bodies.basics import Asked
from eventhub.http.bodies.keys import CreatedKey, KeyBody, KeyList, NewKeyBody
from eventhub.http.operations import Example, Operation
from eventhub.store.values import ApiKey

__all__ = ["OPERATIONS"]


class RotateQuery(Asked):
    overlap_seconds: Annotated[
        float, Meta(ge=0, le=2_592_000, description="How long the old key still works beside the new one.")
    ] = 86_400.0


async def create(ask: Ask) -> Answer:
    """A new key; this answer is the only one that has it whole."""
    body: NewKeyBody = ask.body
    key, text = await ask.service.keys.create(body.name, body.scopes, body.expires_at)
    return document(_created(key, text), 201, NO_STORE)


async def list_keys(ask: Ask) -> Answer:
    """Every key, without its secret."""
    return document(KeyList(keys=[_shown(key) for key in await ask.service.keys.list()]))


async def revoke(ask: Ask) -> Answer:
    """Ends a key for good."""
    await ask.service.keys.revoke(ask.parameters["key_id"])
    return empty()


async def rotate(ask: Ask) -> Answer:
    """A successor; the old key lives on for the overlap."""
    overlap = timedelta(seconds=ask.query.overlap_seconds)
    key, text = await ask.service.keys.rotate(ask.parameters["key_id"], overlap)
    return document(_created(key, text), 201, NO_STORE)


def _created(key: ApiKey, text: str) -> CreatedKey:
    return CreatedKey(**msgspec.structs.asdict(_shown(key)), key=text)


def _shown(key: ApiKey) -> KeyBody:
    return KeyBody(
        id=key.id,
        name=key.name,
        scopes=list(key.scopes),
        created_at=key.created_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
    )


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/api-keys",
        name="create_key",
        summary="Make a key; it is shown once",
        handle=create,
        scope="admin",
        group="Keys",
        body=NewKeyBody,
        answers={201: CreatedKey},
        example=Example(body={"name": "shop", "scopes": ["publish:order.*"]}),
    ),
    Operation(
        method="GET",
        path="/api-keys",
        name="list_keys",
        summary="Every key, without its secret",
        handle=list_keys,
        scope="admin",
        group="Keys",
        answers={200: KeyList},
    ),
    Operation(
        method="DELETE",
        path="/api-keys/{key_id}",
        name="revoke_key",
        summary="End a key for good",
        handle=revoke,
        scope="admin",
        group="Keys",
        answers={204: None},
        problems=(404,),
    ),
    Operation(
        method="POST",
        path="/api-keys/{key_id}/rotate",
        name="rotate_key",
        summary="A successor; the old key lives on for the overlap",
        handle=rotate,
        scope="admin",
        group="Keys",
        query=RotateQuery,
        answers={201: CreatedKey},
        problems=(404, 422),
    ),
)
