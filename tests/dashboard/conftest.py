"""A browser and hubs for the tests of a module.

The browser's blocking interface runs an event loop in this thread, which tests of asyncio cannot have beside
theirs: it ends with the module, before any other test begins.
"""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.dashboard.browsing import Visit, chromium
from tests.dashboard.story import Story, tell
from tests.http.api import Api
from tests.http.receiver import Receiver
from tests.http.server import HubServer

Visiting = Callable[..., Visit]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubServer]:
    """A hub on an SQLite file; webhooks may go to this machine."""
    directory = tmp_path_factory.mktemp("hub")
    with HubServer(str(directory / "hub.db"), directory, "--allow-private", "127.0.0.0/8") as running:
        yield running


@pytest.fixture(scope="module")
def api(server: HubServer) -> Api:
    return Api(server.port)


@pytest.fixture(scope="module")
def story(api: Api, receiver: Receiver) -> Story:
    """The hub has a past."""
    return tell(api, receiver)


@pytest.fixture
def visiting(browser: Browser, server: HubServer) -> Iterator[Visiting]:
    """Pages of a test's own; errors on the console, of scripts and of the Content Security Policy fail it."""
    made: list[Visit] = []

    def visit(url: str = server.url, **options: object) -> Visit:
        made.append(Visit(browser, url, **options))
        return made[-1]

    yield visit
    for one in made:
        one.close()


@pytest.fixture
def visit(visiting: Visiting) -> Visit:
    return visiting()


@pytest.fixture
def page(visit: Visit) -> Page:
    return visit.page
