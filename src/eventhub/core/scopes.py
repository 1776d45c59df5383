"""What an API key may do: ``publish``, ``work``, ``read``, ``metrics`` and ``admin``, the first three perhaps in part.

    publish          publish anything               publish:order.*   events whose type the pattern matches
                                                    publish:#email    work with this tag
    work             take any work                  work:email        work with this tag
    read             look at everything             read:order.*      events whose type the pattern matches
                                                    read:#email       events with this tag
    metrics          numbers for Prometheus         admin             everything, keys included

A key may have several. One that is not narrowed outweighs narrowed ones of its kind.

What a narrowed ``publish`` does not name is refused: the type must match one of its patterns, and every tag must be
named, for tags decide who gets the work. That of work without a type is ``job``, which comes with any tag that is
named. A narrowed ``read`` shows an event that one of its scopes names, be it by type or by tag.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, Self

import msgspec

from eventhub.core.matching import Pattern, any_of, check_name
from eventhub.errors import InvalidEventError, InvalidKeyError

__all__ = ["ADMIN", "JOB", "METRICS", "PUBLISH", "READ", "WORK", "Scopes"]

PUBLISH: Final = "publish"
WORK: Final = "work"
READ: Final = "read"
METRICS: Final = "metrics"
ADMIN: Final = "admin"
JOB: Final = "job"
"""The type of work that was published without one."""
MOST: Final = 50
_KNOWN: Final = (PUBLISH, WORK, READ, METRICS, ADMIN)
_PATTERN: Final = re.compile(r"[A-Za-z0-9._:*-]+\Z")
_TAG: Final = "#"


class Scopes(msgspec.Struct, frozen=True):
    """The scopes of one key. What they are narrowed to is None where they are not narrowed."""

    texts: tuple[str, ...]
    kinds: frozenset[str]
    types: tuple[Pattern, ...] | None
    """That may be published."""
    publish_tags: frozenset[str] | None
    tags: frozenset[str] | None
    """Of work that may be taken."""
    read_types: tuple[Pattern, ...] | None
    read_tags: frozenset[str] | None

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """From ``["publish:order.*", "work:email", "read"]``; a scope that means nothing is an InvalidKeyError."""
        if isinstance(texts, str):
            raise InvalidKeyError(f"The scopes are a list such as ['publish', 'read'], not the text {_shown(texts)}.")
        distinct = tuple(dict.fromkeys(_checked(text) for text in texts))
        if not distinct:
            raise InvalidKeyError(f"The key has no scope; give at least one of {', '.join(_KNOWN)}.")
        if len(distinct) > MOST:
            raise InvalidKeyError(f"The key has {len(distinct)} scopes; at most {MOST} are allowed.")
        return cls(
            texts=distinct,
            kinds=frozenset(text.partition(":")[0] for text in distinct),
            types=_patterns(distinct, PUBLISH),
            publish_tags=_tags(distinct, PUBLISH),
            tags=None if WORK in distinct else frozenset(_narrowed(distinct, WORK)),
            read_types=_patterns(distinct, READ),
            read_tags=_tags(distinct, READ),
        )

    @classmethod
    def none(cls) -> Self:
        """Those of somebody who may do nothing."""
        nothing: frozenset[str] = frozenset()
        return cls((), nothing, (), nothing, nothing, (), nothing)

    def allows(self, scope: str) -> bool:
        """Whether the key has this scope at all, be it narrowed. Whoever may read everything may read the metrics."""
        return scope in self.kinds or ADMIN in self.kinds or (scope == METRICS and READ in self.texts)

    def allows_publish(self, event_type: str | None, tags: Collection[str] = ()) -> bool:
        """Whether it may publish an event of this type with these tags; None is a job without a type."""
        if ADMIN in self.kinds or self.types is None or self.publish_tags is None:
            return True
        wanted = JOB if event_type is None else event_type
        named = bool(tags) and wanted == JOB
        return self.publish_tags.issuperset(tags) and (named or any(p.matches(wanted) for p in self.types))

    def allows_work(self, tags: Collection[str]) -> bool:
        """Whether it may ask for work with any of these tags: every one must be its own; none at all means any work."""
        if ADMIN in self.kinds or self.tags is None:
            return True
        return bool(tags) and self.tags.issuperset(tags)

    def allows_job(self, tags: Collection[str]) -> bool:
        """Whether it may report on work that has these tags: it could have taken it by one of them."""
        return ADMIN in self.kinds or any_of(self.tags, tags)

    @property
    def reads_all(self) -> bool:
        """Whether it may look at everything."""
        return ADMIN in self.kinds or READ in self.texts

    def allows_read(self, event_type: str, tags: Collection[str]) -> bool:
        """Whether it may look at an event of this type with these tags."""
        if self.reads_all:
            return True
        by_tag = not (self.read_tags or frozenset()).isdisjoint(tags)
        return by_tag or any(pattern.matches(event_type) for pattern in self.read_types or ())


def _checked(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidKeyError(f"The scope {_shown(text)} is not a text; give one of {', '.join(_KNOWN)}.")
    kind, colon, part = text.partition(":")
    if kind not in _KNOWN:
        raise InvalidKeyError(
            f"There is no scope {_shown(text)}; give {', '.join(_KNOWN)}, publish:<pattern>, publish:#<tag>, "
            "work:<tag>, read:<pattern> or read:#<tag>."
        )
    if not colon:
        return text
    if kind not in (PUBLISH, WORK, READ):
        raise InvalidKeyError(f"The scope {_shown(text)} cannot be narrowed; give {kind} alone.")
    try:
        if kind == WORK or part.startswith(_TAG):
            check_name("the tag", part if kind == WORK else part.removeprefix(_TAG))
        elif not _PATTERN.match(Pattern(part).text):
            raise InvalidKeyError(
                f"The scope {_shown(text)} matches no event: types have letters, digits, dots, colons, underscores and "
                "hyphens; * stands for one part between dots. Tags begin with #."
            )
    except InvalidEventError as error:
        raise InvalidKeyError(f"The scope {_shown(text)}: {error}") from None
    return text


def _narrowed(texts: Iterable[str], kind: str) -> list[str]:
    return [part for name, colon, part in (text.partition(":") for text in texts) if colon and name == kind]


def _patterns(texts: Collection[str], kind: str) -> tuple[Pattern, ...] | None:
    if kind in texts:
        return None
    return tuple(Pattern(part) for part in _narrowed(texts, kind) if not part.startswith(_TAG))


def _tags(texts: Collection[str], kind: str) -> frozenset[str] | None:
    if kind in texts:
        return None
    return frozenset(part.removeprefix(_TAG) for part in _narrowed(texts, kind) if part.startswith(_TAG))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 140 else f"{text[:40]}…"  # noqa: PLR2004
