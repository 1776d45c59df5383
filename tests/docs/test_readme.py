"""Every example in the README and the docs runs, and prints what it says it prints."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from eventhub import errors
from eventhub.config import Settings
from tests.cli.support import EVENTHUB, Command

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
POSTGRES = re.compile(r"postgresql://[^\"'\s]+")
HUB = "http://127.0.0.1:8080"
PROMISED = re.compile(r"# → (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]


EXAMPLES = [
    pytest.param(text, id=f"{page.stem}-{place}")
    for page in PAGES
    for place, text in enumerate(blocks(page, "python"), 1)
]


def run_python(text: str, command: Command) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        cwd=command.directory,
        env=command.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_runs_and_prints_what_it_promises(text: str, eventhub: Command, request: pytest.FixtureRequest):
    if POSTGRES.search(text):
        url = request.getfixturevalue("bare_postgres_url")
        text = POSTGRES.sub(lambda _: url, text)
    if HUB in text:
        text = text.replace(HUB, request.getfixturevalue("hub").url)
    printed = iter(run_python(text, eventhub))
    for promised in PROMISED.findall(text):
        assert promised in printed, f"{promised!r} was not printed, or not in its place"


def test_the_commands_of_the_readme_work_on_what_its_examples_made(eventhub: Command):
    readme = ROOT / "README.md"
    for text in blocks(readme, "python"):
        if not POSTGRES.search(text) and HUB not in text:
            run_python(text, eventhub)
    lines = [line for text in blocks(readme, "console") for line in text.splitlines()]
    commands = [line.removeprefix("$ eventhub ") for line in lines if line.startswith("$ eventhub ")]
    assert len(commands) > 5
    for command in commands:
        done = eventhub(*shlex.split(command))
        assert done.returncode == 0, f"{command}: {done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_readme_names_every_setting():
    text = (ROOT / "README.md").read_text()
    assert all(f"`{name}`" in text for name in Settings.__struct_fields__)
    assert EVENTHUB.exists()


def test_the_page_of_errors_names_every_error():
    text = (ROOT / "docs" / "reference" / "errors.md").read_text()
    missing = [
        name for name in errors.__all__ if f"`{name}`" not in text and name not in ("EventHubError", "StoreError")
    ]
    assert missing == []
