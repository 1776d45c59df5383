"""What a subscriber can be told on the command line, and the fields of it that this changes.

Annotations are real ones here, not text: the commands read them in another module.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import Group, Parameter

from eventhub.cli.options import Common, flag
from eventhub.core.subscribers import Format, Guarantee, OnDead, Subscriber
from eventhub.errors import InvalidPayloadError, SettingsError

__all__ = ["Clearable", "Configuration", "Who", "WithSecret", "read_secret"]

CONFIGURATION = Group("Configuration", sort_key=10)
Who = Annotated[str, Parameter(name="SUBSCRIBER", help="Its name or its id.")]
Clearable = Literal[
    "filter", "headers", "ordering-key", "retry-backoff", "retry-on", "rate", "description", "event-type", "on-dead"
]
"""What `edit --clear` can set back to its default."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WithSecret(Common):
    """Options of commands that open what is sealed."""

    secret_file: Annotated[str | None, flag("secret_file")] = None
    allow_private: Annotated[str | None, flag("allow_private")] = None


def _option(name: str, about: str, **more: Any) -> Parameter:
    return Parameter(name=f"--{name}", help=about, group=CONFIGURATION, show_default=False, **more)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Options that are fields of a subscriber; what is not given stays as it is."""

    event_type: Annotated[
        str | None, _option("event-type", "The types it gets: * for all (the default), or a pattern such as order.*.")
    ] = None
    filter: Annotated[
        str | None,
        _option("filter", 'JSON, or @file: what an event must have besides, such as {"payload.country": "SE"}.'),
    ] = None
    header: Annotated[
        tuple[str, ...],
        _option("header", "name=value to send with each request, or name=@file; may be given again.", negative=""),
    ] = ()
    format: Annotated[
        Format | None, _option("format", "How an event is put into a request: standard unless told otherwise.")
    ] = None
    ordering_key: Annotated[
        str | None, _option("ordering-key", "Keep the order of each value of this path, such as payload.customer.id.")
    ] = None
    on_dead: Annotated[
        OnDead | None, _option("on-dead", "A key with a dead message goes on (skip, the default), or waits (park).")
    ] = None
    retry_backoff: Annotated[
        str | None, _option("retry-backoff", "Seconds before each retry, 5,30,300 unless told otherwise; none: none.")
    ] = None
    retry_on: Annotated[str | None, _option("retry-on", "What is tried again, such as 429,5xx,timeout,network.")] = None
    connect_timeout: Annotated[float | None, _option("connect-timeout", "Seconds for the connection: 5.")] = None
    timeout: Annotated[float | None, _option("timeout", "Seconds for the whole request: 10.")] = None
    rate: Annotated[float | None, _option("rate", "Requests a second at most; no limit unless given.")] = None
    max_in_flight: Annotated[int | None, _option("max-in-flight", "Requests at once at most: 32.")] = None
    guarantee: Annotated[Guarantee | None, _option("guarantee", "at_most_once: one request, whatever comes of it.")] = (
        None
    )
    description: Annotated[str | None, _option("description", "A line for people.")] = None

    def changes(self) -> dict[str, Any]:
        """The fields of a subscriber that were given; headers as far as they were named."""
        changed: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None or value == ():
                continue
            name, read = _FIELDS.get(each.name, (each.name, _as_is))
            changed[name] = read(value)
        return changed


def _as_is(value: Any) -> Any:
    return value


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _backoff(text: str) -> list[float]:
    if text.strip().lower() == "none":
        return []
    try:
        return [float(part) for part in _list(text)]
    except ValueError:
        raise SettingsError(f"--retry-backoff is {text[:60]!r}; give seconds with commas, such as 5,30,300.") from None


def _filter(text: str) -> Any:
    from eventhub.core.strict_json import load

    try:
        return load(_from_file("--filter", text[1:]) if text.startswith("@") else text.encode())
    except InvalidPayloadError as error:
        wrong = str(error).removeprefix("payload").removesuffix(".")  # where it is, as seen from the filter
        raise SettingsError(f'--filter{wrong}. Give JSON, such as {{"payload.country": "SE"}}.') from None


def _headers(pairs: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise SettingsError(f"--header is {pair[:20]!r}; give name=value.")
        found[name.strip()] = _text("--header", value) if value.startswith("@") else value
    return found


_FIELDS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "filter": ("filter", _filter),
    "header": ("headers", _headers),
    "retry_backoff": ("retry_backoff_seconds", _backoff),
    "retry_on": ("retry_on", _list),
    "connect_timeout": ("connect_timeout_seconds", _as_is),
    "timeout": ("timeout_seconds", _as_is),
    "rate": ("rate_per_second", _as_is),
}


def defaults(cleared: tuple[Clearable, ...]) -> dict[str, Any]:
    """Fields that are to be what they are when nothing is said."""
    plain = Subscriber(name="default", url="https://default.invalid/")
    found = {}
    for option in cleared:
        field = option.replace("-", "_")
        name = _FIELDS.get(field, (field, _as_is))[0]
        found[name] = getattr(plain, name)
    return found


def read_secret(text: str | None) -> str | None:
    """A secret as it was given, or from the file that was named."""
    return _text("--secret", text) if text is not None and text.startswith("@") else text


def _text(option: str, value: str) -> str:
    try:
        return _from_file(option, value[1:]).decode().strip()
    except UnicodeDecodeError:
        raise SettingsError(f"{option} is {value}, which is no text.") from None


def _from_file(option: str, name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise SettingsError(f"{option} is @{name}, which cannot be read: {error.strerror}.") from None
