"""``eventhub publish``: one event, or a file of them, into a hub over HTTP or straight into its database."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from eventhub.cli.options import open_existing
from eventhub.cli.output import console, document
from eventhub.cli.remote import Remote
from eventhub.config import Settings
from eventhub.core.scopes import JOB
from eventhub.errors import InvalidEventError, InvalidPayloadError, SettingsError

if TYPE_CHECKING:
    from eventhub.cli.event_files import Told
    from eventhub.store.values import NewEvent

__all__ = ["app"]

app = App(
    name="publish",
    help_epilogue="It goes over HTTP when --url is given or EVENTHUB_URL is set, and straight into the database with "
    "--db or when there is no address. Lines of --file are objects with the members of POST /events.",
)


@app.default
def publish(
    *,
    tags: Annotated[str | None, Parameter(help="Work for whoever takes any of these tags, such as email,sms.")] = None,
    type: Annotated[str | None, Parameter(help="The event's type, such as order.placed.")] = None,  # noqa: A002
    title: Annotated[str | None, Parameter(help="A line for people.")] = None,
    description: Annotated[str | None, Parameter(help="More for people.")] = None,
    data: Annotated[
        str | None,
        Parameter(help="The payload: JSON, @file with JSON, or - for standard input.", allow_leading_hyphen=True),
    ] = None,
    metadata: Annotated[
        tuple[str, ...], Parameter(help="name=value to go with it; may be given again.", negative="")
    ] = (),
    ordering_key: Annotated[str | None, Parameter(help="Events of one key are handled in order.")] = None,
    idempotency_key: Annotated[
        str | None,
        Parameter(help="The same key again is the same event; with --file, each line has KEY-LINE unless it says one."),
    ] = None,
    delay: Annotated[float | None, Parameter(help="Seconds before it may be taken.")] = None,
    priority: Annotated[int | None, Parameter(help="From -1000 to 1000; the higher goes first.")] = None,
    queue: Annotated[
        str | None, Parameter(help="With a database: the queue of an EventQueue, instead of that of HTTP workers.")
    ] = None,
    file: Annotated[
        str | None, Parameter(help="Many events instead: a file with one JSON object a line, or - for standard input.")
    ] = None,
    common: Remote | None = None,
) -> None:
    """Publish an event and print its id, or publish all events of a file."""
    common = common or Remote()
    loaded = common.load()
    over_http = common.means_http(loaded)
    if over_http and queue is not None:
        raise SettingsError("--queue is for a database; over HTTP the hub has one queue for all work.")
    if file is not None:
        if any((tags, type, title, description, data, metadata, ordering_key, delay, priority)):
            raise SettingsError(
                "With --file, the lines say everything about their events; leave the other options out."
            )
        _publish_file(file, loaded.settings, idempotency_key, queue, common, over_http=over_http)
        return
    given: dict[str, Any] = {
        "tags": tags,
        "title": title,
        "description": description,
        "payload": _payload(data),
        "metadata": _metadata(metadata) or None,
        "ordering_key": ordering_key,
        "idempotency_key": idempotency_key,
        "delay": delay,
        "priority": priority,
    }
    if queue is None and not type and not (tags or "").replace(",", "").strip():
        raise SettingsError("Give --tags for work, --type for a broadcast, or both.")
    if over_http:
        event_id = asyncio.run(_over_http(loaded.settings, {**given, "event_type": type}))
    else:
        event_id = asyncio.run(_into_database(loaded.settings, {**given, "type": type}, queue))
    if common.json:
        document({"id": event_id})
    else:
        sys.stdout.write(f"{event_id}\n")
        sys.stdout.flush()


async def _over_http(settings: Settings, event: dict[str, Any]) -> int:
    from eventhub.client import Client

    async with Client(settings.url, key=settings.key or None) as client:
        return (await client.publish(**event)).id


async def _into_database(settings: Settings, event: dict[str, Any], queue: str | None) -> int:
    new = _composed(settings, event, queue)
    async with open_existing(settings) as store:
        (published,) = await store.publish([new])
        return published.id


def _publish_file(
    file: str, settings: Settings, key: str | None, queue: str | None, common: Remote, *, over_http: bool
) -> None:
    from eventhub.cli.event_files import Batch, Sent, as_mapping, publish_file

    async def remotely() -> Told:
        from eventhub.client import Client

        async with Client(settings.url, key=settings.key or None) as client:

            async def send(batch: Batch) -> Sent:
                made = await client.publish_many([as_mapping(event) for event in batch])
                return [(each.id, each.duplicate) for each in made]

            return await publish_file(file, send, key=key, quiet=common.json)

    async def directly() -> Told:
        async with open_existing(settings) as store:

            async def send(batch: Batch) -> Sent:
                events = [{"payload": None, "type": None, **as_mapping(event)} for event in batch]
                for event in events:
                    event["type"] = event.pop("event_type", None)
                made = await store.publish([_composed(settings, event, queue) for event in events])
                return [(each.id, each.duplicate) for each in made]

            return await publish_file(file, send, key=key, quiet=common.json)

    told = asyncio.run(remotely() if over_http else directly())
    if common.json:
        document(told)
        return
    before = f", {told.duplicates:,} of them before" if told.duplicates else ""
    console().print(f"{told.published:,} events published{before}.")


def _composed(settings: Settings, event: dict[str, Any], queue: str | None) -> NewEvent:
    """The event as the server would store it, or as an EventQueue of that name would."""
    from eventhub.store.composing import Composer

    named = {**event, "type": event["type"] or JOB}
    if queue is not None:
        return Composer(queue).one(named, None, {})
    new = Composer(settings.work_queue, max_attempts=settings.max_retries).one(named, None, {})
    new.work = bool(new.route.tags)
    new.broadcast = bool(event["type"])
    return new


def _payload(data: str | None) -> Any:
    if data is None:
        return None
    from eventhub.core.strict_json import load

    try:
        if data == "-":
            text = sys.stdin.buffer.read()
        elif data.startswith("@"):
            text = Path(data[1:]).read_bytes()
        else:
            text = data.encode("utf-8", "surrogateescape")
    except OSError as error:
        raise SettingsError(f"--data is {data}, which cannot be read: {error.strerror}.") from None
    try:
        return load(text)
    except InvalidPayloadError as error:
        raise InvalidEventError(
            f'--data: {error} Give JSON, such as {{"id": 7}} or "a text" with its quotes.'
        ) from None


def _metadata(pairs: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise SettingsError(f"--metadata is {pair!r}; give name=value.")
        found[name] = value
    return found
