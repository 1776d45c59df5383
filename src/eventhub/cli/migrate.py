"""``eventhub migrate``: the tables as this version wants them."""

from __future__ import annotations

import asyncio
from typing import Any

from cyclopts import App

from eventhub.cli.options import Common, open_named
from eventhub.cli.output import console, document, plain
from eventhub.cli.progress import waiting

__all__ = ["app"]

app = App(name="migrate")


@app.default
def migrate(*, common: Common | None = None) -> None:
    """Create the tables, or bring them up to date.

    Every command and every application does this by itself; do it by hand when only you may change tables.
    """
    common = common or Common()
    with waiting("Bringing the tables up to date", quiet=common.json):
        facts = asyncio.run(_migrate(common))
    if common.json:
        document({name: facts[name] for name in ("engine", "version", "location", "schema")})
        return
    where = f"{facts['engine']} {facts['version']} at {facts['location']}"
    console().print(plain(f"The tables are of version {facts['schema']}: {where}."))


async def _migrate(common: Common) -> dict[str, Any]:
    async with open_named(common.load_for_database().settings) as store:
        return await store.describe()
