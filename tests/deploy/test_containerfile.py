"""The image is built from what is there, pinned, for a user who is nobody; and it knows whether it is well."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.client.support import Hub
from tests.deploy.files import DEPLOY, ROOT, image_environment, instructions

KNOWN = {"FROM", "ENV", "RUN", "WORKDIR", "COPY", "VOLUME", "USER", "ENTRYPOINT", "CMD", "EXPOSE", "HEALTHCHECK"}


def test_it_has_known_instructions_and_stages_that_exist():
    stages: set[str] = set()
    for first, rest in instructions():
        assert first in KNOWN
        if first == "FROM":
            base, _, name = rest.partition(" AS ")
            assert base in stages or base == "python:3.11-slim", "short names, without a registry"
            assert name not in stages
            stages.add(name)
        source = re.match(r"--from=(\S+)", rest)
        if first == "COPY" and source:
            assert source[1] in stages


def test_what_is_copied_is_there_and_let_in():
    let_in = {line.removeprefix("!") for line in (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()}
    for first, rest in instructions():
        if first == "COPY" and not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists()
                assert source in let_in


def test_the_python_is_the_one_of_the_lock_and_every_package_is_checked():
    head = (ROOT / "requirements" / "run.txt").read_text()[:500]
    locked = re.search(r"pip-compile with Python (\S+)", head)
    assert locked is not None
    bases = {rest.split()[0] for first, rest in instructions() if first == "FROM" and rest.startswith("python:")}
    assert bases == {f"python:{locked[1]}-slim"}
    installs = [rest for first, rest in instructions() if first == "RUN" and " install -" in rest and "pip " in rest]
    assert len(installs) == 2
    for command in installs:
        assert "--require-hashes -r requirements/run.txt" in command or "--no-deps --no-build-isolation ." in command


def test_what_the_hub_goes_without_is_what_the_lock_has():
    (removed,) = (rest for first, rest in instructions() if first == "RUN" and "uninstall" in rest)
    lock = (ROOT / "requirements" / "run.txt").read_text()
    names = removed.partition("--yes ")[2].split()
    assert all(f"\n{name}==" in lock for name in names)
    script = f"""
import sys
for name in {names!r}:
    sys.modules[name] = None
from eventhub.cli import main
from eventhub.http import server
import eventhub.hub.serving, eventhub.store.postgres, eventhub.lake.history
sys.exit(main(["completion", "bash"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_runs_as_nobody_in_a_directory_of_its_own():
    users = [rest for first, rest in instructions() if first == "USER"]
    assert users == ["10001:10001"]
    (place,) = [rest for first, rest in instructions() if first == "WORKDIR" and rest != "/build"]
    assert [json.loads(rest) for first, rest in instructions() if first == "VOLUME"] == [[place]]
    for name in ("DB", "SECRET_FILE", "LAKE"):
        assert image_environment()[f"EVENTHUB_{name}"].startswith(f"{place}/")


def test_the_health_check_knows_a_hub_that_serves_from_one_that_does_not(tmp_path: Path):
    (check,) = (rest for first, rest in instructions() if first == "HEALTHCHECK")
    command = json.loads(check.partition("CMD ")[2])
    assert command[0] == "python"

    def healthy(port: str) -> bool:
        environment = {**os.environ, "EVENTHUB_PORT": port}
        done = subprocess.run(
            [sys.executable, *command[1:]], env=environment, capture_output=True, timeout=30, check=False
        )
        return done.returncode == 0

    with Hub(tmp_path, "hub.db") as hub:
        port = hub.url.rpartition(":")[2]
        assert healthy(port)
    assert not healthy(port)
