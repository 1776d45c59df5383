"""The pages of the documentation as tests see them: their blocks of code, and what is said about each."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "deploy" / "README.md", *sorted(DOCS.rglob("*.md"))]
TUTORIAL = [DOCS / "tutorial" / f"{name}.md" for name in ("index", "bus", "http", "webhooks", "postgresql", "spark")]
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]*?) -->\n)?"
    r"^```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    title: str = ""
    reason: str = ""
    """Why it cannot be run, if it says so."""

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            page,
            text.count("\n", 0, found.start("language")) + 1,
            found["language"],
            found["text"],
            found["title"] or "",
            found["reason"] or "",
        )
        for found in FENCE.finditer(text)
    ]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


@dataclass(frozen=True)
class Step:
    """A command as somebody types it, and the lines that it is said to print."""

    command: str
    promised: tuple[str, ...] = ()


def steps(block: Block) -> list[Step]:
    """The commands of a block: lines after ``$`` with their output in `console`, all lines in `sh`."""
    lines = re.sub(r"\\\n\s*", "", block.text).splitlines()
    if block.language == "sh":
        return [Step(line) for line in lines if line.strip() and not line.startswith("#")]
    found: list[Step] = []
    for line in lines:
        if line.startswith("$ "):
            found.append(Step(line.removeprefix("$ ")))
        elif line.strip():
            found[-1] = Step(found[-1].command, (*found[-1].promised, line))
    return found
