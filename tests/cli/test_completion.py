"""`eventhub completion`: the shell that is there completes what the command has."""

import subprocess
from pathlib import Path

import pytest

from eventhub.cli import GROUPS
from tests.cli.support import Command
from tests.cli.walking import commands

COMPLETE = """
source ./eventhub.bash
complete -p eventhub >/dev/null || exit 3
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_LINE="$*"
COMP_POINT=${#COMP_LINE}
_eventhub
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("shell")
    done = Command(directory)("completion", "bash")
    assert (done.returncode, done.stderr) == (0, "")
    (directory / "eventhub.bash").write_text(done.stdout)
    return directory


def completed(script: Path, *words: str) -> set[str]:
    done = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE, "bash", "eventhub", *words],
        cwd=script,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return {word.strip() for word in done.stdout.splitlines() if word.strip()}


def test_bash_completes_groups(script: Path):
    assert completed(script, "") >= GROUPS.keys()
    assert completed(script, "s") == {name for name in GROUPS if name.startswith("s")}


@pytest.mark.parametrize("group", ["dlq", "subscribers", "pipeline", "keys"])
def test_bash_completes_commands(script: Path, group: str):
    expected = {name.split()[1] for name in commands() if name.startswith(f"{group} ")}
    assert completed(script, group, "") == expected


def test_bash_completes_options_and_their_values(script: Path):
    assert completed(script, "dlq", "purge", "--older") == {"--older-than-days"}
    assert completed(script, "subscribers", "list", "--status", "") == {"active", "paused", "disabled"}
    assert completed(script, "completion", "") == {"bash", "zsh", "fish"}
    assert completed(script, "--db", "app.db", "events", "") == {"list", "show"}


@pytest.mark.parametrize(
    ("shell", "begins"), [("zsh", "#compdef eventhub"), ("fish", "# Fish completion for eventhub")]
)
def test_other_shells_have_a_script_with_every_command(tmp_path: Path, shell: str, begins: str):
    done = Command(tmp_path)("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(begins)
    for name in commands():
        assert name.split()[-1] in done.stdout


def test_another_shell_is_a_usage_error(tmp_path: Path):
    assert Command(tmp_path)("completion", "tcsh").returncode == 2
