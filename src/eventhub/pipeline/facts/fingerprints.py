"""What errors have in common, as ``eventhub.core.fingerprints`` says it, in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from eventhub.core.fingerprints import DETAILS, LONGEST

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["fingerprint"]


def fingerprint(error: str) -> Column:
    """Sixteen digits that are the same for errors that differ only in details; NULL where there is no error."""
    return F.substring(F.md5(F.regexp_replace(F.substring(error, 1, LONGEST), DETAILS, "#")), 1, 16)
