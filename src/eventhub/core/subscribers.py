"""A subscriber: who wants which events, where they are sent, and how hard to try."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any, Final, Literal, NoReturn, Self, get_args
from urllib.parse import urlsplit

import msgspec

from eventhub.core.filters import Filter
from eventhub.core.matching import Pattern
from eventhub.core.ordering import key_path
from eventhub.core.retry import RetryPolicy
from eventhub.errors import InvalidEventError, InvalidSubscriberError

__all__ = ["Format", "Guarantee", "OnDead", "Subscriber", "has_one_host", "is_secret_header"]

Format = Literal["standard", "raw", "ce-binary", "ce-structured"]
OnDead = Literal["skip", "park"]
Guarantee = Literal["at_least_once", "at_most_once"]

LONGEST_NAME: Final = 100
LONGEST_URL: Final = 2048
LONGEST_DESCRIPTION: Final = 1000
LARGEST_DOCUMENT: Final = 65_536
"""Bytes: it is kept with every dead letter."""
MOST_HEADERS: Final = 32
LONGEST_HEADERS: Final = 16_384
"""Characters of all their names and values."""
MOST_RETRIES: Final = 50
LONGEST_BACKOFF: Final = 7 * 86_400.0
SHORTEST_LEASE: Final = timedelta(seconds=60)
LEASE_MARGIN: Final = timedelta(seconds=30)

_PATTERN: Final = re.compile(r"[A-Za-z0-9._:*-]+\Z")
_URL: Final = re.compile(r"[!#-;=?-\[\]_a-z~]+\Z")
"""Printable ASCII without what never stands in a URL: blanks, quotes, angle brackets, backslash, ^ ` { | }."""
_AUTHORITY: Final = re.compile(r"[^\[\]]*\Z|\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(?:%[^\[\]]*)?\](?::[0-9]*)?\Z")
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}\Z")
_VALUE: Final = re.compile(r"[!-~](?:[ \t!-~]*[!-~])?\Z")
_RETRY_ON: Final = re.compile(r"(?:timeout|network|[1345]xx|[1345][0-9][0-9])\Z")
_OURS: Final = frozenset(
    {
        "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
        "keep-alive", "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_OUR_PREFIXES: Final = ("webhook-", "ce-", "eventhub-", "proxy-")
_SECRET_NAMES: Final = frozenset({"authorization", "proxy-authorization", "cookie"})
_SECRET_WORDS: Final = ("token", "secret", "key", "password", "passwd", "signature", "credential", "auth")


def is_secret_header(name: str) -> bool:
    """Whether the value of this header must be kept encrypted and never shown."""
    small = name.lower()
    return small in _SECRET_NAMES or any(word in small for word in _SECRET_WORDS)


def has_one_host(authority: str) -> bool:
    """Whether brackets, if any, are around all of the host: of ``trusted.example[other.example]`` some take the second.

    Inside is an IPv6 address; whether it is a good one is for others to say.
    """
    return _AUTHORITY.match(authority.rpartition("@")[2]) is not None


class Subscriber(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a subscriber is configured to be; when it is made, InvalidSubscriberError says what is wrong with it."""

    name: str
    url: str
    event_type: str = "*"
    filter: dict[str, Any] | None = None
    headers: dict[str, str] = {}
    format: Format = "standard"
    ordering_key: str | None = None
    on_dead: OnDead = "skip"
    retry_backoff_seconds: tuple[float, ...] = (5.0, 30.0, 300.0)
    retry_on: tuple[str, ...] | None = None
    connect_timeout_seconds: float = 5.0
    timeout_seconds: float = 10.0
    rate_per_second: float | None = None
    max_in_flight: int = 32
    guarantee: Guarantee = "at_least_once"
    description: str | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_url(self.url)
        _check_event_type(self.event_type)
        if self.filter is not None:
            Filter.parse(self.filter)
        _check_headers(self.headers)
        _one_of("format", self.format, get_args(Format))
        _one_of("on_dead", self.on_dead, get_args(OnDead))
        _one_of("guarantee", self.guarantee, get_args(Guarantee))
        _check_ordering_key(self.ordering_key)
        msgspec.structs.force_setattr(self, "retry_backoff_seconds", _backoff(self.retry_backoff_seconds))
        msgspec.structs.force_setattr(self, "retry_on", _retry_on(self.retry_on))
        _number("connect_timeout_seconds", self.connect_timeout_seconds, 0.1, 60)
        _number("timeout_seconds", self.timeout_seconds, 0.1, 300)
        if self.rate_per_second is not None:
            _number("rate_per_second", self.rate_per_second, 0.001, 100_000)
        _number("max_in_flight", self.max_in_flight, 1, 1000)
        if not isinstance(self.max_in_flight, int):
            _refuse("max_in_flight", f"is {self.max_in_flight!r}; give a whole number")
        _check_description(self.description)
        self._check_size()

    def _check_size(self) -> None:
        try:
            size = len(msgspec.json.encode(self))
        except (TypeError, ValueError, OverflowError, UnicodeError) as error:
            raise InvalidSubscriberError(f"The filter cannot be written as JSON: {error}.", field="filter") from None
        if size > LARGEST_DOCUMENT:
            raise InvalidSubscriberError(
                f"The subscriber has {size:,} bytes of configuration; at most {LARGEST_DOCUMENT:,} are allowed.",
                field="filter" if self.filter is not None else "headers",
            )

    @classmethod
    def parse(cls, document: Any) -> Self:
        """From a mapping of plain values, or JSON text; unknown fields and wrong types are refused."""
        try:
            if isinstance(document, str | bytes):
                return msgspec.json.decode(document, type=cls)
            return msgspec.convert(document, cls)
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, InvalidSubscriberError):
                raise error.__cause__ from None
            raise InvalidSubscriberError(f"{error}.", field=_place(str(error))) from None
        except UnicodeEncodeError:
            raise InvalidSubscriberError(
                "The subscriber contains a lone surrogate; send well-formed Unicode.", field=""
            ) from None
        except msgspec.DecodeError as error:
            raise InvalidSubscriberError(f"The subscriber is not JSON: {error}.", field="") from None

    @property
    def max_attempts(self) -> int:
        """The first request and the retries; one for ``at_most_once``."""
        return 1 if self.guarantee == "at_most_once" else len(self.retry_backoff_seconds) + 1

    @property
    def policy(self) -> RetryPolicy:
        return RetryPolicy.listed(self.retry_backoff_seconds, max_retries=self.max_attempts - 1)

    @property
    def lease(self) -> timedelta:
        """How long a dispatcher may have a message: longer than any request takes."""
        request = timedelta(seconds=self.connect_timeout_seconds + self.timeout_seconds)
        return max(SHORTEST_LEASE, request + LEASE_MARGIN)

    @property
    def pattern(self) -> Pattern:
        return Pattern(self.event_type)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME:
        _refuse("name", f"must have 1 to {LONGEST_NAME} characters")
    if not name.isprintable() or name.strip() != name:
        _refuse("name", "must be printable, without blanks around it")
    if name.isdecimal():
        _refuse("name", "looks like an id; add a letter")


def _check_url(url: object) -> None:
    if not isinstance(url, str) or not 1 <= len(url) <= LONGEST_URL:
        _refuse("url", f"must have 1 to {LONGEST_URL} characters")
    if not _URL.match(url):
        _refuse("url", "has characters that no URL has; write them as %XX, and an international host name as xn--…")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        _refuse("url", f"cannot be read ({error}); give one such as https://example.com/hook")
    if parts.scheme.lower() not in ("http", "https") or not url.lower().startswith(("http://", "https://")):
        _refuse("url", "must begin with https:// or http://")
    if not has_one_host(parts.netloc):
        _refuse("url", "has brackets; they are for an IPv6 address alone, such as https://[2001:db8::1]/hook")
    if not host or port == 0 or parts.netloc.endswith(":"):
        _refuse("url", "must have a host, and a port only if it is a number; give one such as https://example.com/hook")
    if "@" in parts.netloc:
        _refuse("url", "must have no user or password; put credentials into headers")
    if "#" in url:
        _refuse("url", "must have no fragment: it is never sent")


def _check_event_type(pattern: object) -> None:
    if not isinstance(pattern, str):
        _refuse("event_type", "is no text; give a pattern such as order.*")
    try:
        Pattern(pattern)
    except InvalidEventError as error:
        raise InvalidSubscriberError(str(error), field="event_type") from None
    if not _PATTERN.match(pattern):
        _refuse("event_type", "matches no event: types have letters, digits, dots, colons, underscores and hyphens")


def _check_headers(headers: object) -> None:
    if not isinstance(headers, dict):
        _refuse("headers", "is no mapping of names to values")
    if len(headers) > MOST_HEADERS:
        _refuse("headers", f"has {len(headers)} entries; at most {MOST_HEADERS} are allowed")
    seen: set[str] = set()
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.match(name):
            _refuse("headers", f"has {str(name)[:60]!r}, which is no name of a header")
        field, small = f"headers.{name}", name.lower()
        if small in _OURS or small.startswith(_OUR_PREFIXES):
            _refuse(field, "is set by the hub itself; leave it out")
        if small in seen:
            _refuse(field, "is there twice, in capitals and small letters")
        if not isinstance(value, str) or not _VALUE.match(value):
            _refuse(field, "must be printable ASCII, not empty, without line breaks or blanks around it")
        seen.add(small)
    if sum(len(name) + len(value) for name, value in headers.items()) > LONGEST_HEADERS:
        _refuse("headers", f"are too long together; at most {LONGEST_HEADERS:,} characters are allowed")


def _check_ordering_key(path: object) -> None:
    if path is None:
        return
    try:
        key_path(path)  # type: ignore[arg-type] # it says what is wrong with its type, too
    except ValueError as error:
        _refuse("ordering_key", f"{error}; give ordering_key, or a path such as payload.customer.id")


def _check_description(text: object) -> None:
    if text is None:
        return
    if not isinstance(text, str) or len(text) > LONGEST_DESCRIPTION or "\x00" in text:
        _refuse("description", f"must be a text of at most {LONGEST_DESCRIPTION:,} characters")


def _backoff(waits: object) -> tuple[float, ...]:
    if not isinstance(waits, list | tuple) or len(waits) > MOST_RETRIES:
        _refuse("retry_backoff_seconds", f"must be a list of at most {MOST_RETRIES} waits")
    for wait in waits:
        _number("retry_backoff_seconds", wait, 0, LONGEST_BACKOFF)
    return tuple(float(wait) for wait in waits)


def _retry_on(entries: object) -> tuple[str, ...] | None:
    if entries is None:
        return None
    if not isinstance(entries, list | tuple) or len(entries) > 100:  # noqa: PLR2004
        _refuse("retry_on", "must be a list such as ['429', '5xx', 'timeout', 'network']")
    for entry in entries:
        if not isinstance(entry, str) or not _RETRY_ON.match(entry):
            _refuse(
                "retry_on",
                f"has {str(entry)[:40]!r}; give statuses ('409'), classes (1xx, 3xx, 4xx, 5xx), timeout or network",
            )
    return tuple(dict.fromkeys(entries))


def _number(field: str, value: object, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or not least <= value <= most:
        _refuse(field, f"is {str(value)[:40]}; give a number from {least:,g} to {most:,g}")


def _one_of(field: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        _refuse(field, f"is {str(value)[:40]!r}; give one of {', '.join(known)}")


def _place(words: str) -> str:
    """The field in what msgspec says: "… - at `$.headers[...]`"."""
    found = re.search(r"`\$\.?([A-Za-z_]*)|field `([A-Za-z_]+)`", words)
    return "" if found is None else found.group(1) or found.group(2) or ""


def _refuse(field: str, problem: str) -> NoReturn:
    raise InvalidSubscriberError(f"{field} {problem}.", field=field)
