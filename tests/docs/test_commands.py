"""Every command line in the README and the docs is one that the command understands."""

import re
import shlex
from pathlib import Path

import pytest

from eventhub.cli import _common_last, build_app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "deploy" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(?:console|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REDIRECTION = re.compile(r" > [~\w./-]+(?:\s+#.*)?$")
INLINE = re.compile(r"`(eventhub [a-z-]+(?: [^`]*)?)`")


def commands(page: Path) -> list[str]:
    text = page.read_text()
    in_blocks = [line.removeprefix("$ ") for block in BLOCK.findall(text) for line in block.splitlines()]
    return [line for line in in_blocks if line.startswith("eventhub ")]


COMMANDS = [pytest.param(line, id=f"{page.stem}: {line}") for page in PAGES for line in commands(page)]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_docs_is_understood(line: str):
    tokens = shlex.split(REDIRECTION.sub("", line), comments=True)[1:]
    build_app().parse_args(_common_last(tokens), exit_on_error=False, print_error=False)


def test_commands_were_found():
    assert len(COMMANDS) > 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_text_exist(page: Path):
    app = build_app()
    for words in (line.split() for line in INLINE.findall(page.read_text())):
        names = [word for word in words[1:3] if re.fullmatch(r"[a-z][a-z-]*", word)]
        found = app
        for name in names:
            if name not in found:
                break
            found = found[name]
        assert found is not app, " ".join(words)


def test_the_page_of_webhooks_names_every_alarming_metric():
    text = (ROOT / "docs" / "how-to" / "webhooks.md").read_text()
    rules = (ROOT / "deploy" / "prometheus" / "eventhub.rules.yml").read_text()
    named = {name.removesuffix("_bucket") for name in re.findall(r"eventhub_[a-z_]+", rules)}
    assert {name for name in named if f"`{name}`" not in text} == set()
