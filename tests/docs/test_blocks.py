"""Every block of code in the README and the docs is run, or read as what it is, or says why not."""

import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from eventhub.config import Settings
from tests.client.support import free_port
from tests.docs.allowed import ALLOWED
from tests.docs.pages import BLOCKS, PAGES, ROOT, TUTORIAL, Block, Step, steps
from tests.docs.quick_command import QuickCommand
from tests.docs.stages import shop
from tests.docs.terminal import Terminal

POSTGRES = re.compile(r"postgresql://[^\"'\s]+")
RUN_ELSEWHERE = {
    "py": "tests/pipeline/test_docs.py runs those of the pipeline",
    "text": "drawings and signatures: nothing to run",
}
SHELL = [block for block in BLOCKS if block.language in ("console", "sh") and not block.reason]
TYPED = [
    block
    for block in SHELL
    if block.page not in TUTORIAL and not any("eventhub pipeline" in step.command for step in steps(block))
]
"""Those of the tutorial are typed by the walk, those of the pipeline by tests/pipeline/test_docs.py."""
EMPTY = ("docs/how-to/http.md", "docs/how-to/security.md")
"""Pages that begin with nothing; the others tell of a hub that is in use."""


def test_blocks_that_are_not_run_say_why_and_are_known():
    found = {(str(block.page.relative_to(ROOT)), block): block.reason for block in BLOCKS if block.reason}
    expected = {}
    for (page, start), reason in ALLOWED.items():
        (block,) = [block for (at, block) in found if at == page and block.text.startswith(start)]
        expected[page, block] = reason
    assert found == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_has_a_language_that_tests_know(page: Path):
    known = {"python", "console", "sh", "json", "toml", "yaml", "sql", *RUN_ELSEWHERE}
    assert {block.language for block in BLOCKS if block.page == page} <= known
    assert page.read_text().count("\n```") == 2 * sum(block.page == page for block in BLOCKS), "a fence is not closed"


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language in ("json", "toml", "yaml")], ids=lambda block: block.name
)
def test_data_is_what_it_says_it_is(block: Block):
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        assert list(yaml.safe_load_all(block.text))
    else:
        assert set(tomllib.loads(block.text)) <= set(Settings.__struct_fields__)


@pytest.fixture(scope="session")
def made_shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The hub of the guides, made once and copied for each block."""
    directory = tmp_path_factory.mktemp("shop")
    return directory, shop(directory / "eventhub.db")


@pytest.fixture(scope="session")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuickCommand]:
    command = QuickCommand(tmp_path_factory.mktemp("bin"))
    yield command
    command.stop()


@pytest.fixture
def terminal(tmp_path: Path, quick: QuickCommand) -> Iterator[Terminal]:
    """A terminal in a directory with a worker's program and a file of events, and a home of its own."""
    hub = str(free_port())
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EVENTHUB_")}
    here = {"EVENTHUB_PORT": hub, "EVENTHUB_URL": f"http://127.0.0.1:{hub}", "NO_COLOR": "1"}
    here["EVENTHUB_DB"] = "eventhub.db"  # with an address named, commands want the database to be named, too
    home, work = tmp_path / "home", tmp_path / "work"
    for directory in (".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"):
        (home / directory).mkdir(parents=True)
    work.mkdir()
    (work / "handler.sh").write_text("#!/bin/sh\ncat > /dev/null\n")
    (work / "handler.sh").chmod(0o755)
    (work / "orders.jsonl").write_text('{"event_type": "order.placed", "payload": {"id": 7}}\n')
    places = {"8080": hub, "9000": str(free_port())}
    with Terminal(work, {**kept, **here, "HOME": str(home)}, places, quick.directory) as opened:
        opened.run(Step('curl() { command curl --silent --show-error --fail-with-body "$@"; }'))
        yield opened


@pytest.mark.parametrize("block", TYPED, ids=lambda block: block.name)
def test_the_commands_of_a_guide_work(
    block: Block, terminal: Terminal, made_shop: tuple[Path, dict[str, str]], request: pytest.FixtureRequest
):
    if found := POSTGRES.search(block.text):
        terminal.places[found[0]] = request.getfixturevalue("bare_postgres_url")
    starts_with_nothing = str(block.page.relative_to(ROOT)) in EMPTY or "eventhub serve" in block.text
    if not starts_with_nothing:
        _furnish(terminal, *made_shop)
    if ("curl" in block.text or "eventhub publish" in block.text) and "eventhub serve" not in block.text:
        terminal.run(Step("eventhub serve"))
    for step in steps(block):
        terminal.run(step)


def _furnish(terminal: Terminal, directory: Path, ids: dict[str, str]) -> None:
    """The hub of the guides under the names by which they call it, with its secret."""
    for name in ("eventhub.db", "app.db", "backup.db", "copy.db"):
        (terminal.directory / name).write_bytes((directory / "eventhub.db").read_bytes())
    (terminal.directory / "eventhub.secret").write_bytes((directory / "eventhub.secret").read_bytes())
    (terminal.directory / "eventhub.secret").chmod(0o600)
    terminal.places.update(ids)


def test_the_blocks_were_found():
    assert len(TYPED) > 20
    assert len(BLOCKS) > 100
