"""Claims in portions, so that the payloads of one answer stay within a bound however many are asked for.

How large payloads are is not known before they are claimed, and a claim is never thrown away. So the first portion fits
even if every payload is as large as the largest of late, and what it brought tells how many more may follow:

   ask for a few ──▶ too few there were, the limit or the bound is reached ──▶ answer
        ▲ │
        └─┘ else

A portion is never larger than ``AT_ONCE``: sizes that change suddenly cost that many of the largest payloads, once. Who
knows no bound gets ``MANY_AT_ONCE``, which is as much as an engine puts together in one answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from eventhub.core.strict_json import MAX_BYTES
from eventhub.errors import StoreError
from eventhub.store.claims import Claim, Wanted

__all__ = ["Portions"]

AT_ONCE: Final = 100
MANY_AT_ONCE: Final = 1000


class Portions:
    """Remembers how large payloads are here."""

    def __init__(self) -> None:
        self._largest = MAX_BYTES

    async def claim(self, wanted: Wanted, ask: Callable[[Wanted], Awaitable[list[Claim]]]) -> list[Claim]:
        """As many as are wanted, or fewer when their payloads would be too much; at least one if there is one."""
        if wanted.most_bytes is None and wanted.limit <= MANY_AT_ONCE:
            return await ask(wanted)
        claims: list[Claim] = []
        left = wanted.most_bytes
        portion = max(1, self._portion(wanted.limit, left))
        while portion > 0:
            try:
                found = await ask(msgspec.structs.replace(wanted, limit=portion))
            except StoreError:
                if claims:  # what is claimed is claimed
                    break
                raise
            claims += found
            if len(found) < portion:
                break
            if left is not None:
                left -= sum(claim.size for claim in found)
                self._learn(found)
            portion = self._portion(wanted.limit - len(claims), left)
        return claims

    def _portion(self, limit: int, left: int | None) -> int:
        return min(limit, MANY_AT_ONCE) if left is None else min(limit, AT_ONCE, left // self._largest)

    def _learn(self, claims: list[Claim]) -> None:
        """One large payload is remembered for a while, so that the next is no surprise."""
        self._largest = max(1, self._largest // 2, *(claim.size for claim in claims))
