"""Measures how soon the dashboard stands on a hub with many events: every page, in a browser that knows nothing yet."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser
from rich import print as say

from tests.cli.support import EVENTHUB
from tests.dashboard.browsing import Visit, chromium
from tests.http.api import Api
from tests.http.server import HubServer, environment
from tests.postgres_cluster import PostgresCluster

PAINTED = """() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return paint ? paint.startTime : null;
}"""
FILL_SECONDS = 3600.0
LONGEST_MS = 1000.0


def fill(db: str, events: int, directory: Path) -> float:
    begun = time.monotonic()
    for command in (["migrate"], ["pipeline", "synth", "--yes", "--events", str(events), "--days", "14"]):
        subprocess.run(
            [EVENTHUB, *command, "--db", db],
            cwd=directory, env=environment(), check=True, stdout=subprocess.DEVNULL, timeout=FILL_SECONDS,
        )  # fmt: skip
    return time.monotonic() - begun


def measure(browser: Browser, server: HubServer) -> dict[str, tuple[float, float]]:
    """Of each page: milliseconds until it is first painted, and until everything on it was read."""
    api = Api(server.port)
    event = api.get("/events", cursor="start", limit=1).json["events"][0]["id"]
    subscriber = api.get("/subscribers").json["subscribers"][0]["id"]
    places = ["/", "/events", "/events?status=FAILED", "/events?type=order.paid", "/events?tags=email"]
    places += [f"/events/{event}", "/subscribers", f"/subscribers/{subscriber}", "/dead", "/workers"]
    found = {}
    for place in places:
        visit = Visit(browser, server.url)
        begun = time.monotonic()
        visit.go(place)
        ready = (time.monotonic() - begun) * 1000
        found[place] = (float(visit.page.evaluate(PAINTED)), ready)
        visit.close()
    return found


def tell(engine: str, events: int, found: dict[str, tuple[float, float]]) -> bool:
    say(f"\n{engine}, {events:,} events: first paint / everything read, in milliseconds")
    for place, (painted, ready) in found.items():
        say(f"  {place:<28} {painted:7.0f} {ready:7.0f}")
    return all(painted < LONGEST_MS for painted, _ in found.values())


def main() -> None:
    events = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    good = True
    with tempfile.TemporaryDirectory() as directory, PostgresCluster() as cluster, chromium() as browser:
        databases = {
            "SQLite": str(Path(directory) / "hub.db"),
            "PostgreSQL": cluster.create_database("first_paint"),
        }
        for engine, db in databases.items():
            say(f"{engine}: filled in {fill(db, events, Path(directory)):.0f} s")
            with HubServer(db, Path(directory) / engine, "--roles", "api,fanout,janitor") as server:
                good &= tell(engine, events, measure(browser, server))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
