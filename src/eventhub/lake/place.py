"""A lake as a whole: where its tables lie, below one path or URL.

    <lake>/events, <lake>/event_log     what was copied from the hub
    <lake>/facts/…, <lake>/marts/…      what was derived from that

Object stores take their credentials from the environment (``AWS_…`` and the like).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventhub.lake.datasets import schema_of
from eventhub.lake.tables import LakeTable

if TYPE_CHECKING:
    import pyarrow as pa

    from eventhub.store.ledger import Dataset

__all__ = ["Lake"]


class Lake:
    """Tables by their names. Nothing is opened or made before a table is used."""

    def __init__(self, url: str, options: dict[str, str] | None = None) -> None:
        self.url = url.rstrip("/") or url
        self._options = options

    def dataset(self, name: Dataset) -> LakeTable:
        """The copy of a dataset of the hub."""
        return LakeTable(f"{self.url}/{name}", schema_of(name), options=self._options)

    def derived(self, path: str, schema: pa.Schema) -> LakeTable:
        """A table made from others, such as ``facts/deliveries``; its schema has a ``day``."""
        return LakeTable(f"{self.url}/{path}", schema, options=self._options)
