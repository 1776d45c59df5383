"""What errors have in common: their text without numbers, ids and whatever stands in quotes.

The pipeline does the same in Spark, with the same pattern: it says only what Java and Python understand alike.
"""

from __future__ import annotations

import re
from hashlib import md5
from typing import Final

__all__ = ["DETAILS", "LONGEST", "fingerprint"]

LONGEST: Final = 500
"""Characters of an error that are looked at: what differs behind them is detail."""
DETAILS: Final = (
    r"(?<=^Abandoned: )[^\n\r\u0085\u2028\u2029]*(?= did not report)"  # the name of the worker
    r"|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|0x[0-9a-fA-F]+|(?<![A-Za-z0-9_])[0-9a-fA-F]{12,}(?![A-Za-z0-9_])"  # versions of Java differ about \b
    r"|'[^']*'|\"[^\"]*\""
    r"|[0-9]+"
)
_DETAILS: Final = re.compile(DETAILS)
_DIGITS: Final = 16


def fingerprint(error: str) -> str:
    """Sixteen digits that are the same for errors that differ only in details."""
    return md5(_DETAILS.sub("#", error[:LONGEST]).encode(), usedforsecurity=False).hexdigest()[:_DIGITS]
