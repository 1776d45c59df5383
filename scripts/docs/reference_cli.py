"""The reference of the command, from the commands themselves."""

import re

from eventhub.cli import build_app

INTRODUCTION = """# Command line

`eventhub` with a group and a command. `eventhub GROUP --help` says the same at the terminal.

Options of every command, which may also stand before it (`eventhub --db app.db stats`):

{common}

[Conventions](cli-conventions.md) tells of exit codes, `--json`, completion and colour; [settings](settings.md) of where
else values may come from.
"""
COMMON = ("--db", "--json", "--debug", "--log-level", "--log-format", "--pool-size", "--synchronous")
OPTION = re.compile(r"^\* `(--[a-z-]+)", re.MULTILINE)


def page() -> str:
    text = build_app().generate_docs(output_format="markdown", heading_level=1)
    sections = re.split(r"^(?=#+ eventhub )", text, flags=re.MULTILINE)[1:]
    common: dict[str, str] = {}
    made = [_section(section, common) for section in sections]
    lines = "\n".join(common[name] for name in COMMON if name in common)
    return INTRODUCTION.format(common=lines) + "\n" + "\n".join(made)


def _section(section: str, common: dict[str, str]) -> str:
    """One command: without the options that all have, and without lists of what follows anyway."""
    title = section.splitlines()[0].lstrip("# ").strip()
    depth = "##" if title.count(" ") == 1 else "###"
    blocks = [block.strip() for block in section.split("\n\n")[1:]]
    kept: list[str] = [f"{depth} `{title}` {{#{title.replace(' ', '-')}}}"]
    skip_next = False
    for block in blocks:
        if skip_next or block.endswith("Table of Contents"):
            skip_next = block.endswith("Table of Contents")
        elif block.startswith("* `"):
            lines = [line for line in block.splitlines() if not _is_common(line, common)]
            if lines:
                kept.append("\n".join(lines))
            elif kept[-1].startswith("**"):
                kept.pop()
        elif block and not block.startswith(("* [`", "**Commands**")):
            kept.append(block.replace("```console", "```text"))
    return "\n\n".join(kept) + "\n"


def _is_common(line: str, common: dict[str, str]) -> bool:
    found = OPTION.match(line)
    if found is None or found[1] not in COMMON:
        return False
    common.setdefault(found[1], line)
    return True
