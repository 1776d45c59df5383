"""What an API key may do: ``publish``, ``work``, ``read`` and ``admin``, the first two perhaps only in part.

    publish          publish anything               publish:order.*   events whose type the pattern matches
    work             take any work                  work:email        work with this tag
    read             look at everything             admin             everything, keys included

A key may have several. One that is not narrowed outweighs narrowed ones of its kind. For publishing the type alone
counts (that of a job without one is ``job``), and tags are free: who may take work is said by the scopes of workers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, Self

import msgspec

from eventhub.core.matching import Pattern, any_of, check_name
from eventhub.errors import InvalidEventError, InvalidKeyError

__all__ = ["ADMIN", "JOB", "PUBLISH", "READ", "WORK", "Scopes"]

PUBLISH: Final = "publish"
WORK: Final = "work"
READ: Final = "read"
ADMIN: Final = "admin"
JOB: Final = "job"
"""The type of work that was published without one."""
MOST: Final = 50
_KNOWN: Final = (PUBLISH, WORK, READ, ADMIN)
_PATTERN: Final = re.compile(r"[A-Za-z0-9._:*-]+\Z")


class Scopes(msgspec.Struct, frozen=True):
    """The scopes of one key. ``types`` and ``tags`` are what they are narrowed to, None when they are not."""

    texts: tuple[str, ...]
    kinds: frozenset[str]
    types: tuple[Pattern, ...] | None
    tags: frozenset[str] | None

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
            types=None if PUBLISH in distinct else tuple(Pattern(part) for part in _narrowed(distinct, PUBLISH)),
            tags=None if WORK in distinct else frozenset(_narrowed(distinct, WORK)),
        )

    @classmethod
    def none(cls) -> Self:
        """Those of somebody who may do nothing."""
        return cls(texts=(), kinds=frozenset(), types=(), tags=frozenset())

    def allows(self, scope: str) -> bool:
        """Whether the key has this scope at all, be it narrowed."""
        return scope in self.kinds or ADMIN in self.kinds

    def allows_publish(self, event_type: str | None) -> bool:
        """Whether it may publish an event of this type; None is a job without one."""
        if ADMIN in self.kinds or self.types is None:
            return True
        wanted = JOB if event_type is None else event_type
        return any(pattern.matches(wanted) for pattern in self.types)

    def allows_work(self, tags: Collection[str]) -> bool:
        """Whether it may ask for work with any of these tags: every one must be its own; none at all means any work."""
        if ADMIN in self.kinds or self.tags is None:
            return True
        return bool(tags) and self.tags.issuperset(tags)

    def allows_job(self, tags: Collection[str]) -> bool:
        """Whether it may report on work that has these tags: it could have taken it by one of them."""
        return ADMIN in self.kinds or any_of(self.tags, tags)


def _checked(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidKeyError(f"The scope {_shown(text)} is not a text; give one of {', '.join(_KNOWN)}.")
    kind, colon, part = text.partition(":")
    if kind not in _KNOWN:
        raise InvalidKeyError(
            f"There is no scope {_shown(text)}; give {', '.join(_KNOWN)}, publish:<pattern> or work:<tag>."
        )
    if not colon:
        return text
    if kind not in (PUBLISH, WORK):
        raise InvalidKeyError(f"The scope {_shown(text)} cannot be narrowed; give {kind} alone.")
    try:
        if kind == WORK:
            check_name("the tag", part)
        elif not _PATTERN.match(Pattern(part).text):
            raise InvalidKeyError(
                f"The scope {_shown(text)} matches no event: types have letters, digits, dots, colons, underscores and "
                "hyphens; * stands for one part between dots."
            )
    except InvalidEventError as error:
        raise InvalidKeyError(f"The scope {_shown(text)}: {error}") from None
    return text


def _narrowed(texts: Iterable[str], kind: str) -> list[str]:
    return [part for name, colon, part in (text.partition(":") for text in texts) if colon and name == kind]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 140 else f"{text[:40]}…"  # noqa: PLR2004
