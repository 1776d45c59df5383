"""What errors have in common: their text without numbers, ids and whatever stands in quotes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["fingerprint"]

LONGEST: Final = 500
"""Characters of an error that are looked at: what differs behind them is detail."""
DETAILS: Final = (
    "(?<=^Abandoned: ).*(?= did not report)"  # the name of the worker
    "|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    "|0x[0-9a-fA-F]+|\\b[0-9a-fA-F]{12,}\\b"
    "|'[^']*'|\"[^\"]*\""
    "|[0-9]+"
)


def fingerprint(error: str) -> Column:
    """Sixteen digits that are the same for errors that differ only in details; NULL where there is no error."""
    return F.substring(F.md5(F.regexp_replace(F.substring(error, 1, LONGEST), DETAILS, "#")), 1, 16)
