"""``eventhub publish``: one event, or a file of them, into a hub over HTTP or straight into its database."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from eventhub.cli.destinations import Destination, ToDatabase, ToHub
from eventhub.cli.event_files import publish_file
from eventhub.cli.output import console, document
from eventhub.cli.remote import Remote
from eventhub.errors import InvalidEventError, InvalidPayloadError, SettingsError

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
        str | None,
        Parameter(
            help="Many events instead: a file with one JSON object a line, or - for standard input.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    common: Remote | None = None,
) -> None:
    """Publish an event and print its id, or publish all events of a file."""
    common = common or Remote()
    loaded = common.load()
    over_http = common.means_http(loaded)
    if over_http and queue is not None:
        raise SettingsError("--queue is for a database; over HTTP the hub has one queue for all work.")
    common.say_target(*(("hub", loaded, "url") if over_http else ("database", loaded, "db")))
    if over_http:
        destination: Destination = ToHub(loaded.settings, key=loaded.key_for_url(), quiet=common.json)
    else:
        destination = ToDatabase(loaded.settings, queue)
    if file is not None:
        if any((tags, type, title, description, data, metadata, ordering_key, delay, priority)):
            raise SettingsError(
                "With --file, the lines say everything about their events; leave the other options out."
            )
        _publish_file(file, destination, idempotency_key, json=common.json)
        return
    if queue is None and not type and not (tags or "").replace(",", "").strip():
        raise SettingsError("Give --tags for work, --type for a broadcast, or both.")
    event: dict[str, Any] = {
        "tags": tags,
        "event_type": type,
        "title": title,
        "description": description,
        "metadata": _metadata(metadata) or None,
        "ordering_key": ordering_key,
        "idempotency_key": idempotency_key,
        "delay": delay,
        "priority": priority,
        "payload": None if data is None else _payload(data),
    }
    event_id = asyncio.run(_publish(destination, event))
    if common.json:
        document({"id": event_id})
    else:
        sys.stdout.write(f"{event_id}\n")
        sys.stdout.flush()


async def _publish(destination: Destination, event: dict[str, Any]) -> int:
    async with destination:
        return await destination.one(event)


def _publish_file(file: str, destination: Destination, key: str | None, *, json: bool) -> None:
    with asyncio.Runner() as runner:
        runner.run(destination.__aenter__())
        try:
            told = publish_file(file, lambda batch: runner.run(destination.many(batch)), key=key, quiet=json)
        finally:
            runner.run(destination.__aexit__())
    if json:
        document(told)
        return
    before = f", {told.duplicates:,} of them before" if told.duplicates else ""
    console().print(f"{told.published:,} events published{before}.")


def _payload(data: str) -> Any:
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
