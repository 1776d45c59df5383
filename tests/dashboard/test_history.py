"""The page of history: the marts of the lake, whoever made them, and hostile names in them as text."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import expect

from eventhub.lake.figures import COUNTS
from eventhub.lake.files import write_day_files
from eventhub.lake.marts import MARTS
from eventhub.lake.place import Lake
from eventhub.store import open_store
from tests.dashboard.browsing import Visit, findings
from tests.http.server import HubServer

expect.set_options(timeout=30_000)

DAYS = 3
HOSTILE = "<img src=x onerror=window.__xss=1>"
NUMBERS = {"published": 100, "attempts": 20, "succeeded": 15, "failed": 4, "abandoned": 1, "dead": 2}
SHAPES = {f"{shape}_{share}": 25 for shape in ("wait", "duration", "latency") for share in ("p50", "p90", "p99")}


def put(lake: Lake, path: str, rows: list[dict[str, Any]]) -> None:
    table = lake.derived(path, MARTS[path])
    filled = [dict.fromkeys(MARTS[path].names) | row for row in rows]
    batch = pa.RecordBatch.from_pylist(filled, schema=MARTS[path])
    table.commit(list(write_day_files([batch], *table.filesystem(), name="t")), source="t", number=1)


def hub_of(db: str) -> str:
    async def read() -> str:
        async with open_store(db) as store:
            return await store.hub_id()

    with ThreadPoolExecutor(1) as aside:  # the browser's event loop runs in this thread
        return aside.submit(asyncio.run, read()).result()


@pytest.fixture(scope="module")
def lake(server: HubServer) -> Lake:
    """Marts of three days, as the pipeline would leave them where the hub looks for them."""
    made = Lake(str(server.directory / "lake"))
    made.dataset("events").commit([], source=f"{hub_of(server.db)}/events", number=1)
    today = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    days = [today - timedelta(days=back) for back in range(DAYS)]
    named = [
        ("all", ""),
        ("type", HOSTILE),
        ("queue", "mail"),
        ("tag", "email"),
        ("subscriber", "7"),
        ("worker", HOSTILE),
    ]
    counted = dict.fromkeys(COUNTS, 0) | NUMBERS | SHAPES
    daily = [
        counted | {"dimension": dimension, "name": name, "day": day.date(), "last_seen": day}
        for day in days
        for dimension, name in named
    ]
    put(made, "marts/daily", daily)
    hours = [today - timedelta(hours=back) for back in range(30)]
    put(
        made,
        "marts/hourly",
        [counted | {"dimension": "all", "name": "", "hour": hour, "day": hour.date()} for hour in hours],
    )
    depth = {"queue": HOSTILE, "entered": 1, "left": 0, "depth": 4}
    put(made, "marts/queue_depth", [depth | {"hour": hour, "day": hour.date()} for hour in hours])
    dead = {"error_fingerprint": "f", "reason": "rejected", "dead": 3, "first_at": today, "last_at": today}
    put(made, "marts/dead_triage", [dead | {"example_error": HOSTILE, "types": [HOSTILE], "day": today.date()}])
    key = {"queue": "mail", "ordering_key": HOSTILE, "deliveries": 8, "failures": 2, "dead": 1}
    put(made, "marts/hot_keys", [key | {"longest_wait_ms": 1500, "day": today.date()}])
    return made


def test_history_shows_what_the_marts_say(lake: Lake, visit: Visit):
    page = visit.go("/history")
    expect(page.locator(".tile").filter(has_text="Published").locator(".tile-value")).to_have_text("300")
    expect(page.locator(".tile").filter(has_text="Failure rate").locator(".tile-value")).to_have_text("25.0 %")
    expect(page.locator("figure")).to_have_count(4)
    expect(page.locator(".chart-title").first).to_contain_text("events published, deliveries completed and dead")
    keys = page.locator(".panel").filter(has=page.get_by_role("heading", name="Busiest ordering keys"))
    expect(keys.get_by_role("row").nth(1)).to_contain_text(f"{HOSTILE}821.5 s")
    latency = page.locator("figure").filter(has_text="logarithmic")
    expect(latency.locator(".scale")).to_have_text(["100 ms", "10 ms"])
    plot = page.locator(".plot").first
    plot.hover()
    expect(page.locator(".readout").first).to_contain_text("published 100, completed 0, dead 2")

    page.get_by_role("link", name="1 day", exact=True).click()
    expect(page.locator(".tile").filter(has_text="Published").locator(".tile-value")).to_have_text("100")
    expect(page.get_by_role("link", name="1 day", exact=True)).to_have_attribute("aria-current", "true")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_history(scheme: str, lake: Lake, visiting):
    visit = visiting(color_scheme=scheme, bypass_csp=True)
    visit.go("/history")
    expect(visit.page.locator("figure")).to_have_count(4)
    assert findings(visit) == []


def test_history_fits_a_phone(lake: Lake, visiting):
    page = visiting(viewport={"width": 360, "height": 740}).go("/history")
    expect(page.locator("figure")).to_have_count(4)
    assert page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
