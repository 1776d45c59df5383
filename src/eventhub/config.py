"""The settings, each declared once: its name, type, default and meaning are the fields of ``Settings``.

    flag --db  ›  variable EVENTHUB_DB  ›  db = "…" in eventhub.toml  ›  default

The file is ``eventhub.toml`` in the working directory, or the one that ``EVENTHUB_CONFIG`` names. ``load`` also
tells where each value came from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Meta

from eventhub.errors import SettingsError

__all__ = ["Loaded", "Settings", "describe", "hide_password", "load", "unknown_variables"]

FILE: Final = "eventhub.toml"
PREFIX: Final = "EVENTHUB_"
FILE_VARIABLE: Final = "EVENTHUB_CONFIG"
LISTEN_SECRET: Final = "EVENTHUB_LISTEN_SECRET"  # noqa: S105 - the name of a variable
OTHER_VARIABLES: Final = (FILE_VARIABLE, LISTEN_SECRET, "EVENTHUB_SPARK_TRAINING", "EVENTHUB_JDBC_JAR")
"""Variables that are read elsewhere and are no settings."""
"""What `eventhub listen` checks signatures with; no setting, because it is the consumer's."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set about the hub as a whole. A new setting is a new field here, and nothing else."""

    db: Annotated[
        str,
        Meta(min_length=1, description="The database: a path such as app.db, or postgresql://user@host/database."),
    ] = "eventhub.db"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error", "critical"],
        Meta(description="The least serious log records that are written."),
    ] = "info"
    log_format: Annotated[
        Literal["human", "json"], Meta(description="Log records for people, or one JSON object a line.")
    ] = "human"
    pool_size: Annotated[
        int, Meta(ge=1, le=1000, description="PostgreSQL: the connections that a process shares; it opens one more.")
    ] = 10
    listen_url: Annotated[
        str,
        Meta(
            description="PostgreSQL behind a pooler: the URL of the database itself, over which a process is woken. "
            "Without it new events are looked for twice a second."
        ),
    ] = ""
    synchronous: Annotated[
        Literal["FULL", "NORMAL", "EXTRA"],
        Meta(description="SQLite: FULL survives a power loss; NORMAL is faster and may lose the last commits."),
    ] = "FULL"

    lake: Annotated[
        str,
        Meta(min_length=1, description="Where the history is kept: a directory, or a URL such as s3://bucket/lake."),
    ] = "lake"

    # ------------------------------------------------------ a hub elsewhere
    url: Annotated[str, Meta(min_length=1, description="The hub that `publish` and `worker` speak to over HTTP.")] = (
        "http://127.0.0.1:8080"
    )
    key: Annotated[str, Meta(description="The API key that they send; better in EVENTHUB_KEY than as a flag.")] = ""

    # --------------------------------------------------------- the HTTP server
    host: Annotated[str, Meta(min_length=1, description="The address that the server listens on.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port that it listens on; 0 takes a free one.")] = 8080
    workers: Annotated[int, Meta(ge=1, le=256, description="Server processes that share the port.")] = 1
    roles: Annotated[
        str,
        Meta(min_length=1, description="What a process does, with commas: api, fanout, dispatcher, janitor; or all."),
    ] = "all"
    allowed_hosts: Annotated[
        str, Meta(description="Names, with commas, that clients may call the server by besides its own address.")
    ] = ""
    secret_file: Annotated[
        str, Meta(description="The file with the server's secret, which all its processes and hosts share.")
    ] = "eventhub.secret"  # noqa: S105 - the name of a file
    allow_private: Annotated[
        str, Meta(description="Private networks, with commas, that webhooks may go to, such as 127.0.0.0/8.")
    ] = ""
    work_queue: Annotated[str, Meta(min_length=1, description="The queue in which work for HTTP workers is kept.")] = (
        "work"
    )
    max_retries: Annotated[
        int, Meta(ge=1, le=1000, description="The failure of a job that is final, counted from 1.")
    ] = 3
    retry_seconds: Annotated[
        float, Meta(ge=0, le=31_536_000, description="Seconds before a failed job is tried again.")
    ] = 300.0
    lease_seconds: Annotated[
        float, Meta(ge=1, le=86_400, description="Seconds that an HTTP worker has, unless it asks for others.")
    ] = 300.0
    forget_workers_days: Annotated[
        int, Meta(ge=1, le=36_500, description="Days after which a worker that is not seen any more is forgotten.")
    ] = 30
    webhook_concurrency: Annotated[
        int, Meta(ge=1, le=10_000, description="Webhooks that one dispatcher sends at the same time.")
    ] = 500
    circuit_failures: Annotated[
        int, Meta(ge=1, description="Failures in a row after which a subscriber is left alone for a while.")
    ] = 20
    circuit_seconds: Annotated[float, Meta(ge=0, description="But not before it has been failing for this long.")] = (
        60.0
    )
    keep_attempts_days: Annotated[
        int, Meta(ge=0, le=36_500, description="Days that attempts at webhooks are remembered; 0 means for ever.")
    ] = 30
    keep_dead_days: Annotated[
        int, Meta(ge=0, le=36_500, description="Days after which dead letters are purged; 0 means never.")
    ] = 0
    keep_idempotency_keys_days: Annotated[
        int,
        Meta(ge=0, le=36_500, description="Days that idempotency keys last after their event; 0 means for ever."),
    ] = 7
    keep_audit_days: Annotated[
        int, Meta(ge=0, le=36_500, description="Days that the audit log is kept; 0 means for ever.")
    ] = 365
    rate_per_second: Annotated[
        float, Meta(ge=0, description="Requests a second that one key may make; 0 means no limit.")
    ] = 0.0
    rate_burst: Annotated[
        int, Meta(ge=1, description="Requests that a key may make at once before its rate counts.")
    ] = 200
    max_backlog: Annotated[
        int, Meta(ge=0, description="Open deliveries beyond which publishing is refused; 0 means no limit.")
    ] = 0
    max_bodies_mb: Annotated[
        int,
        Meta(ge=17, le=100_000, description="Megabytes of request bodies that a process holds; beyond, it refuses."),
    ] = 32
    min_free_disk_mb: Annotated[
        int, Meta(ge=0, description="SQLite: publishing is refused when the disk has less room than this.")
    ] = 100
    request_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="Seconds within which a client must have sent its whole request.")
    ] = 30.0
    shutdown_seconds: Annotated[
        float, Meta(ge=0, le=3600, description="Seconds that requests under way may take when the server stops.")
    ] = 30.0

    @property
    def role_names(self) -> frozenset[str]:
        """What a server process does."""
        named = frozenset(role.strip() for role in self.roles.split(",") if role.strip())
        known = ("api", "fanout", "dispatcher", "janitor")
        unknown = sorted(named - {*known, "all"})
        if unknown or not named:
            raise SettingsError(f"roles is {self.roles!r}; give all, or some of {', '.join(known)}, with commas.")
        return frozenset(known) if "all" in named else named

    @property
    def private_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The private networks that webhooks may go to."""
        named = [text.strip() for text in self.allow_private.split(",") if text.strip()]
        try:
            return tuple(ip_network(text) for text in named)
        except ValueError as error:
            raise SettingsError(
                f"allow_private is {self.allow_private!r} ({error}); "
                "give networks such as 127.0.0.0/8 or fd00::/8, with commas."
            ) from None


class Loaded(msgspec.Struct, frozen=True):
    """Settings and, by name, where each value came from."""

    settings: Settings
    sources: dict[str, str]
    found: frozenset[str] = frozenset()
    """What a file says that lies in the working directory, and that nobody has named."""

    def is_default(self, name: str) -> bool:
        return self.sources[name] == "default"

    def key_for_url(self) -> str | None:
        """The API key to send to ``url``; None when there is none.

        A settings file that lies in the working directory may have come with a download or a checkout: it must not say
        where a key goes that you have brought yourself.
        """
        key = self.settings.key
        if key and "url" in self.found and "key" not in self.found:
            raise SettingsError(
                f"The key of {self.sources['key']} is not sent to {hide_password(self.settings.url)}, which "
                f"the {self.sources['url']} in the working directory names. Give the address with --url "
                f"or EVENTHUB_URL, or name the file with {FILE_VARIABLE} if it is yours."
            )
        return key or None

    def exposed(self) -> list[str]:
        """Settings with a secret that were given as a flag, where every user of the machine can read them."""
        shown = [name for name in ("db", "url") if hide_password(value := getattr(self.settings, name)) != value]
        secret = [*shown, "key"] if self.settings.key else shown
        return [name for name in secret if self.sources[name].startswith("flag ")]

    def shown(self, name: str) -> Any:
        """A value fit for a screen or a log: without a password or a key."""
        value = getattr(self.settings, name)
        if name == "key":
            return "***" if value else ""
        return hide_password(value) if name in ("db", "url", "listen_url") else value


_TYPES: Final[dict[str, Any]] = get_type_hints(Settings, include_extras=True)


def describe(name: str) -> str:
    """What a setting means, in a sentence."""
    for extra in get_args(_TYPES[name]):
        if isinstance(extra, Meta) and extra.description:
            return extra.description
    return ""


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Loaded:
    """Settings from flags (None means not given), the environment, the file and the defaults, in this order."""
    environment = os.environ if environment is None else environment
    path, from_file = _read_file(environment, directory or Path())
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name in Settings.__struct_fields__:
        variable = PREFIX + name.upper()
        flag = (flags or {}).get(name)
        if flag is not None:
            source, value = f"flag --{name.replace('_', '-')}", flag
        elif environment.get(variable):
            source, value = f"variable {variable}", environment[variable]
        elif name in from_file:
            source, value = f"file {path}", from_file[name]
        else:
            sources[name] = "default"
            continue
        values[name] = _convert(name, value, source)
        sources[name] = source
    by_file = frozenset(name for name, source in sources.items() if source.startswith("file "))
    return Loaded(Settings(**values), sources, frozenset() if environment.get(FILE_VARIABLE) else by_file)


def unknown_variables(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables that look like settings but are none, each with the nearest known name or an empty string."""
    known = [PREFIX + name.upper() for name in Settings.__struct_fields__] + [*OTHER_VARIABLES]
    found = os.environ if environment is None else environment
    return {name: _nearest(name, known) for name in sorted(found) if name.startswith(PREFIX) and name not in known}


def hide_password(url: str) -> str:
    """The URL with its password starred out; anything else as it is."""
    if "://" not in url:
        return url
    authority, _, further = url.partition("://")[2].partition("/")
    if "@" in further or "password" in further.lower() or any(mark in authority for mark in "?#"):
        from eventhub.store.opening import shown  # a password in an unusual place: show less

        return shown(url)
    parts = urlsplit(url)
    if parts.password is None:
        return url
    user, _, place = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:***@{place}"))


def _read_file(environment: Mapping[str, str], directory: Path) -> tuple[Path, dict[str, Any]]:
    named = environment.get(FILE_VARIABLE)
    path = Path(named) if named else directory / FILE
    if not named and not path.exists():
        return path, {}
    import tomllib

    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise SettingsError(
            f"The settings file {path} cannot be read ({error.strerror}). Check the path and its permissions"
            + (f", or unset {FILE_VARIABLE}." if named else ".")
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(
            f'The settings file {path} is not TOML: {error}. Write lines such as db = "app.db".'
        ) from error
    unknown = [name for name in content if name not in Settings.__struct_fields__]
    if unknown:
        raise SettingsError(f"The settings file {path} has {_explain(unknown)}")
    return path, content


def _explain(unknown: list[str]) -> str:
    known = list(Settings.__struct_fields__)
    words = []
    for name in unknown:
        near = _nearest(name, known)
        words.append(f"{name!r} (did you mean {near!r}?)" if near else repr(name))
    return f"no such setting as {', '.join(words)}. Known are: {', '.join(known)}."


def _nearest(name: str, known: list[str]) -> str:
    import difflib

    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.6)), "")


def _convert(name: str, value: Any, source: str) -> Any:
    wanted = _TYPES[name]
    choices = _choices(wanted)
    if choices and isinstance(value, str):
        value = next((choice for choice in choices if choice.lower() == value.lower()), value)
    try:
        # Flags and variables are text; a file has types of its own, and a wrong one there is a mistake.
        return msgspec.convert(value, wanted, strict=source.startswith("file "))
    except msgspec.ValidationError as error:
        shown = hide_password(value) if isinstance(value, str) else value
        expected = f"give one of {', '.join(choices)}" if choices else _expectation(error)
        raise SettingsError(f"{name} is {shown!r} (from {source}); {expected}.") from None


def _choices(wanted: Any) -> tuple[str, ...]:
    plain = get_args(wanted)[0] if get_origin(wanted) is Annotated else wanted
    return get_args(plain) if get_origin(plain) is Literal else ()


def _expectation(error: msgspec.ValidationError) -> str:
    text = str(error).replace("`", "")
    return f"{text[0].lower()}{text[1:]}"
