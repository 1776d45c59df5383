"""Every command line in the README and the docs is one that the command understands, also where none is run."""

import re
import shlex
from pathlib import Path

import pytest
from cyclopts import App, MissingArgumentError

from eventhub.cli import _common_last, build_app
from tests.docs.pages import BLOCKS, PAGES, ROOT, steps

REDIRECTION = re.compile(r" > [~\w./-]+(?:\s+#.*)?$")
INLINE = re.compile(r"`(eventhub [a-z-]+(?: [^`]*)?)`")
PLACEHOLDERS = {"ID": "1", "NAME": "x", "GROUP": "", "…": "x"}
COMMANDS = [
    pytest.param(step.command, id=f"{block.name}: {step.command}")
    for block in BLOCKS
    if block.language in ("console", "sh")
    for step in steps(block)
    if step.command.startswith("eventhub ")
]


@pytest.fixture(scope="module")
def app() -> App:
    return build_app()


def understand(app: App, line: str) -> None:
    app.parse_args(_common_last(shlex.split(line, comments=True)[1:]), exit_on_error=False, print_error=False)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_docs_is_understood(line: str, app: App):
    understand(app, REDIRECTION.sub("", line))


def test_commands_were_found():
    assert len(COMMANDS) > 100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_the_text_exist(page: Path, app: App):
    """Those may leave out what must be given, as in a sentence about `eventhub keys create`."""
    for line in INLINE.findall(re.sub(r"\s*\n\s*", " ", page.read_text())):
        whole = line
        for name, value in PLACEHOLDERS.items():
            whole = whole.replace(name, value)
        try:
            understand(app, whole)
        except MissingArgumentError:
            continue


def test_guides_name_every_alarming_metric():
    text = "".join((ROOT / "docs" / "how-to" / f"{guide}.md").read_text() for guide in ("webhooks", "monitoring"))
    rules = (ROOT / "deploy" / "prometheus" / "eventhub.rules.yml").read_text()
    named = {name.removesuffix("_bucket") for name in re.findall(r"eventhub_[a-z_]+", rules)}
    assert {name for name in named if f"`{name}`" not in text} == set()
