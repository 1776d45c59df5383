"""Many events from a file, one JSON object a line, published in batches that are stored whole or not at all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec
from msgspec import UNSET

from eventhub.cli.progress import bar
from eventhub.core.strict_json import load
from eventhub.errors import EventHubError, InvalidEventError, InvalidPayloadError, SettingsError

if TYPE_CHECKING:
    from eventhub.http.bodies.events import NewEventBody

__all__ = ["Batch", "Sent", "Told", "as_mapping", "publish_file"]

MOST_EVENTS: Final = 500
MOST_BYTES: Final = 4 * 1_048_576
LONGEST_LINE: Final = 2 * 1_048_576

Batch = list["NewEventBody"]
Sent = list[tuple[int, bool]]
"""The id of each event, and whether its idempotency key stood for it before."""


class Told(msgspec.Struct):
    """What became of a file."""

    published: int = 0
    duplicates: int = 0
    first_id: int | None = None
    last_id: int | None = None


def publish_file(name: str, send: Callable[[Batch], Sent], *, key: str | None = None, quiet: bool = False) -> Told:
    """Publish what is in a file, or on standard input for ``-``; a file is checked to its end before the first event.

    With ``key``, an event without an idempotency key gets one of its line: the same file again publishes nothing twice.
    Reading may wait for whoever writes, so it is no business of an event loop, which could not be interrupted then.
    """
    told = Told()
    with _opened(name) as file:
        total = None
        if name != "-":
            total = sum(len(batch) for _, batch in _batches(file, key))
            file.seek(0)
        with bar("events", total, quiet=quiet) as advance:
            for line, batch in _batches(file, key):
                try:
                    sent = send(batch)
                except EventHubError as error:
                    raise EventHubError(f"{error} ({_so_far(told, line)}.)") from error
                _count(told, sent)
                advance(len(sent))
    return told


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as file:
            if not file.seekable():
                raise SettingsError(
                    f"--file is {name}, which can be read only once; give it as standard input, with -."
                )
            yield file
    except OSError as error:
        raise SettingsError(f"--file is {name}, which cannot be read: {error.strerror}.") from None


def _batches(file: BinaryIO, key: str | None) -> Iterator[tuple[int, Batch]]:
    """Events that belong together, with the number of the first one's line."""
    from eventhub.http.bodies.events import NewEventBody

    batch: Batch = []
    first, size, number = 1, 0, 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if not line.strip():
            continue
        event = _event(line, number, NewEventBody)
        if key is not None and event.idempotency_key is None:
            event.idempotency_key = f"{key}-{number}"
        if batch and (len(batch) == MOST_EVENTS or size + len(line) > MOST_BYTES):
            yield first, batch
            batch, size = [], 0
        first = first if batch else number
        batch.append(event)
        size += len(line)
    if batch:
        yield first, batch


def _event(line: bytes, number: int, wanted: type[NewEventBody]) -> NewEventBody:
    if len(line) > LONGEST_LINE:
        raise InvalidEventError(f"--file, line {number}: it is longer than {LONGEST_LINE:,} bytes.")
    try:
        event = msgspec.convert(load(line), wanted)
    except (InvalidPayloadError, msgspec.ValidationError) as error:
        raise InvalidEventError(
            f'--file, line {number}: {error} Give one object a line, such as {{"type": "order.placed", "payload": 7}}.'
        ) from None
    event.event_type = event.event_type or event.type
    if not event.event_type and not event.tags:
        raise InvalidEventError(f"--file, line {number}: give it tags for work, a type for a broadcast, or both.")
    return event


def _count(told: Told, sent: Sent) -> None:
    told.published += len(sent)
    told.duplicates += sum(duplicate for _, duplicate in sent)
    told.first_id = sent[0][0] if told.first_id is None else told.first_id
    told.last_id = sent[-1][0]


def _so_far(told: Told, line: int) -> str:
    return f"{told.published:,} events were published before it, and none from line {line:,} on"


def as_mapping(event: NewEventBody) -> dict[str, Any]:
    """What an event says, under the names that clients and stores know; members that say nothing are left out."""
    found = {name: value for name, value in msgspec.structs.asdict(event).items() if value is not None}
    found["payload"] = None if event.payload is UNSET else event.payload
    found.pop("type", None)
    if "delay_seconds" in found:
        found["delay"] = found.pop("delay_seconds")
    return found
