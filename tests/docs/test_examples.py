"""Every example in Python runs and prints what it says it prints; links of the README lead somewhere."""

import re
import subprocess
import sys

import pytest

from eventhub import errors
from tests.cli.support import Command
from tests.docs.pages import BLOCKS, ROOT, Block

POSTGRES = re.compile(r"postgresql://[^\"'\s]+@[^\"'\s]+")
HUB = "http://127.0.0.1:8080"
PROMISED = re.compile(r"# → (.*)$", re.MULTILINE)
LINK = re.compile(r"(?:\]\(|src=\"|srcset=\")(?!https?://|#)([^)#\"]+)")
EXAMPLES = [block for block in BLOCKS if block.language == "python" and not block.title]
"""Those with a title are files of the tutorial, which the walk runs."""


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


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.name)
def test_an_example_runs_and_prints_what_it_promises(block: Block, eventhub: Command, request: pytest.FixtureRequest):
    text = block.text
    if POSTGRES.search(text):
        url = request.getfixturevalue("bare_postgres_url")
        text = POSTGRES.sub(lambda _: url, text)
    if HUB in text:
        text = text.replace(HUB, request.getfixturevalue("hub").url)
    printed = iter(run_python(text, eventhub))
    for promised in PROMISED.findall(text):
        assert promised in printed, f"{promised!r} was not printed, or not in its place"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "deploy/README.md"])
def test_links_of_pages_outside_the_site_lead_somewhere(name: str):
    page = ROOT / name
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_page_of_errors_names_every_error():
    text = (ROOT / "docs" / "reference" / "errors.md").read_text()
    missing = [
        name for name in errors.__all__ if f"`{name}`" not in text and name not in ("EventHubError", "StoreError")
    ]
    assert missing == []
