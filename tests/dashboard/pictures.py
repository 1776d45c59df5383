"""Takes the pictures of docs/images: every page of a hub with a past, light and dark, and two on a phone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
from playwright.sync_api import Browser
from rich import print as say

from tests.cli.support import EVENTHUB
from tests.dashboard.browsing import Visit, chromium
from tests.dashboard.small_png import shrink
from tests.dashboard.story import Story, tell
from tests.http.api import Api
from tests.http.receiver import Receiver
from tests.http.server import HubServer, environment

PLACE = Path(__file__).parents[2] / "docs" / "images"
LARGEST = 150_000
PAST = ["pipeline", "synth", "--yes", "--seed", "6"]
FILL_SECONDS = 600.0
TODAY_MICROSECONDS = 2 * 3600 * 1_000_000
SILENCE_SECONDS = 31.0
"""After so long a claim of which nothing is heard is told on the page of workers."""


def pages(story: Story, letter: int) -> dict[str, str]:
    return {
        "overview": "/",
        "events": "/events?tags=email,sms",
        "event": f"/events/{story.delivered}",
        "subscribers": "/subscribers",
        "subscriber": f"/subscribers/{story.parked}",
        "new-subscriber": "/subscribers/new",
        "dead-letters": "/dead",
        "dead-letter": f"/dead/{letter}",
        "workers": "/workers",
        "history": "/history",
    }


def fill(server: HubServer) -> None:
    """A week that was calm, three hours that are not, and what the pipeline makes of them."""
    week = [*PAST, "--events", "60000", "--days", "7", "--until", "3h"]
    today = [*PAST, "--events", "2000", "--days", "0.12", "--until", "1m", "--subscribers", "2"]
    for command in (week, today, ["pipeline", "run"]):
        say("eventhub", *command)
        subprocess.run(
            [EVENTHUB, *command, "--db", server.db],
            cwd=server.directory, env=environment(), check=True, stdout=subprocess.DEVNULL, timeout=FILL_SECONDS,
        )  # fmt: skip


def bring_forward(db: str) -> None:
    """Made-up histories end an hour ago, so that all of it is settled: what the log tells of today is moved to now."""
    connection = apsw.Connection(db)
    ((newest,),) = connection.execute("SELECT max(created_at) FROM eventhub_event_log")
    shift = int(time.time() * 1_000_000) - newest
    connection.execute(
        "UPDATE eventhub_event_log SET created_at = created_at + ? WHERE created_at > ?",
        (shift, newest - TODAY_MICROSECONDS),
    )
    connection.close()


@contextmanager
def traffic(api: Api) -> Iterator[None]:
    """A worker that makes thumbnails, one every two seconds, so that something happens while pictures are taken."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(2.0):
            api.publish(title="Make a thumbnail", tags="thumbnail", payload={"image": 42})
            api.complete(api.taken("thumbnail", "media-01:88")["id"], "media-01:88", execution_time_ms=180)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        over.set()
        worker.join()


def take(browser: Browser, server: HubServer, story: Story, place: Path) -> None:
    api = Api(server.port)
    api.until("/overview", lambda found: None not in found["chart"]["received"][:-3], seconds=FILL_SECONDS)
    letter = api.get("/dlq").json["dead_letters"][0]["id"]
    for scheme in ("light", "dark"):
        for name, route in pages(story, letter).items():
            _picture(browser, server, route, place / f"{name}-{scheme}.png", color_scheme=scheme)
    phone = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
    for name, route in {"overview": "/", "dead-letters": "/dead"}.items():
        _picture(browser, server, route, place / f"{name}-phone.png", color_scheme="light", **phone)


def _picture(browser: Browser, server: HubServer, route: str, file: Path, **options: object) -> None:
    visit = Visit(browser, server.url, **options)
    visit.go(route)
    visit.page.wait_for_timeout(1500)  # the stream's first news, so that the picture has some
    visit.page.screenshot(path=file)
    visit.close()
    shrink(browser, file)
    size = file.stat().st_size
    say(f"{file.name}: {size:,} bytes")
    assert size <= LARGEST, f"{file} has {size:,} bytes; at most {LARGEST:,} are wanted."


def main() -> None:
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PLACE
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, Receiver() as receiver:
        server = HubServer(str(Path(directory) / "hub.db"), Path(directory), "--allow-private", "127.0.0.0/8")
        fill(server)
        bring_forward(server.db)
        with server, chromium() as browser:
            api = Api(server.port)
            story = tell(api, receiver, orders=12)
            with traffic(api):
                threading.Event().wait(SILENCE_SECONDS)
                take(browser, server, story, place)


if __name__ == "__main__":
    main()
