"""A lake as a whole: where its tables lie, below one path or URL.

    <lake>/events, <lake>/event_log     what was copied from the hub
    <lake>/facts/…, <lake>/marts/…      what was derived from that

Object stores (``s3://bucket/lake``) are reached as the environment says (``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID``
and the like), which tasks elsewhere get with their work; where it says nothing, each machine uses what it was given.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eventhub.errors import SettingsError
from eventhub.lake.datasets import schema_of
from eventhub.lake.tables import LakeTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

    from eventhub.store.ledger import Dataset

__all__ = ["Lake"]

STORE_VARIABLES: Final = "AWS_"
UNFIT: Final = re.compile(r"[?#]|%[0-9a-fA-F]{2}")
"""What the library of the tables takes for something else in a path."""
FOLDERS: Final = ("", "facts", "marts")


class Lake:
    """Tables by their names. Nothing is opened or made before a table is used."""

    def __init__(self, url: str, options: dict[str, str] | None = None) -> None:
        # Tasks elsewhere have other working directories.
        self.url = url.rstrip("/") if "://" in url else os.path.abspath(url)  # noqa: PTH100 - which need not be there
        if "://" not in url and (found := UNFIT.search(self.url)):
            raise SettingsError(f"The lake {self.url} has {found[0]} in its path, which no table can have. Rename it.")
        self._options = _from_environment() if options is None and "://" in url else options

    def prepare(self) -> None:
        """Make its directory, for its owner alone; one that is there keeps the mode it has."""
        if "://" in self.url:
            return
        place = Path(self.url)
        for missing in reversed([each for each in (place, *place.parents) if not each.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)

    def dataset(self, name: Dataset) -> LakeTable:
        """The copy of a dataset of the hub."""
        return LakeTable(f"{self.url}/{name}", schema_of(name), options=self._options)

    def derived(self, path: str, schema: pa.Schema) -> LakeTable:
        """A table made from others, such as ``facts/deliveries``; its schema has a ``day``."""
        return LakeTable(f"{self.url}/{path}", schema, options=self._options)

    def table(self, path: str) -> LakeTable:
        """A table that is only looked at and tidied up, whatever its columns are."""
        import pyarrow as pa

        return self.derived(path, pa.schema([]))

    def tables(self) -> list[str]:
        """The paths of all tables that there are."""
        found = []
        for folder in FOLDERS:
            filesystem, root = self.table(folder).filesystem()
            found += [f"{folder}/{name}".lstrip("/") for name in _folders(filesystem, root)]
        return sorted(path for path in found if path not in FOLDERS and self.table(path).exists)


def _folders(filesystem: fs.FileSystem, root: str) -> list[str]:
    from pyarrow import fs

    selector = fs.FileSelector(root.rstrip("/"), allow_not_found=True)
    return [info.base_name for info in filesystem.get_file_info(selector) if info.type == fs.FileType.Directory]


def _from_environment() -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if name.startswith(STORE_VARIABLES)}
    if any(value.startswith("http://") for value in found.values()):
        found.setdefault("AWS_ALLOW_HTTP", "true")  # who names such an address wants it
    return found
