"""``eventhub completion``: the script by which a shell completes commands and options."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import App, Parameter

__all__ = ["app"]

app = App(
    name="completion",
    help_epilogue="bash: eventhub completion bash > ~/.local/share/bash-completion/completions/eventhub; "
    "zsh: into a file _eventhub in a directory of $fpath; fish: eventhub completion fish > "
    "~/.config/fish/completions/eventhub.fish. Make it again after an upgrade.",
)


@app.default
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(name="SHELL", help="The shell that it is for.")], /
) -> None:
    """Print the script by which a shell completes commands and options."""
    from eventhub.cli import build_app

    sys.stdout.write(build_app().generate_completion(shell=shell))
    sys.stdout.flush()
