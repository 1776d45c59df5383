"""`deploy/prepare` makes what the compose file needs, with the hub's own command behind a stand-in for compose."""

import base64
import os
import shutil
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.cli.support import EVENTHUB, Command
from tests.deploy.files import DEPLOY, compose

COMPOSE = """#!/bin/sh
# As compose would: `run … hub COMMAND` runs a command of the hub, `migrate` makes the tables, `build` builds.
while [ "$1" != run ] && [ "$1" != build ]; do shift; done
[ "$1" = build ] && exit 0
shift 3
service=$1
shift
[ "$service" = migrate ] && set -- migrate
cd "{place}" && exec "{eventhub}" "$@"
"""


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    made = tmp_path / "deploy"
    made.mkdir()
    shutil.copy(DEPLOY / "prepare", made)
    place = tmp_path / "volume"
    place.mkdir()
    stand_in = tmp_path / "compose"
    stand_in.write_text(COMPOSE.format(place=place, eventhub=EVENTHUB))
    stand_in.chmod(0o755)
    return made


def prepare(deploy: Path) -> str:
    environment = {**Command(deploy).environment, "COMPOSE": str(deploy.parent / "compose")}
    done = subprocess.run(
        [deploy / "prepare"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_makes_secrets_once_and_keys_that_the_hub_knows(deploy: Path):
    assert "Ready." in prepare(deploy)
    secrets = {path.name: path.read_text() for path in (deploy / "secrets").iterdir()}
    assert secrets.keys() == compose()["secrets"].keys() | {"owner.key"}
    assert stat.S_IMODE((deploy / "secrets").stat().st_mode) == 0o700
    assert stat.S_IMODE((deploy / "secrets" / "owner.key").stat().st_mode) == 0o600
    url = tomllib.loads(secrets["eventhub.toml"])["db"]
    assert url == f"postgresql://eventhub:{secrets['eventhub.password'].strip()}@postgres/eventhub"
    assert len(secrets["grafana.password"].strip()) == 32
    keys = Command(deploy.parent / "volume").json("keys", "list")["keys"]
    assert {(key["name"], *key["scopes"]) for key in keys} == {("owner", "admin"), ("prometheus", "metrics")}
    assert {f"eh_{key['id']}" for key in keys} == {
        secrets[name].rpartition("_")[0] for name in ("owner.key", "prometheus.key")
    }
    prepare(deploy)
    assert {path.name: path.read_text() for path in (deploy / "secrets").iterdir()} == secrets


def test_a_secret_that_a_pod_installs_is_taken(deploy: Path, tmp_path: Path):
    from tests.deploy.files import named, pods

    text = base64.b64encode(os.urandom(32)).decode()
    example = named("Secret")["eventhub"]["stringData"]["eventhub.secret"]
    mounted, copied = tmp_path / "mounted", tmp_path / "copied"
    mounted.write_text(f"{text}\n")
    mounted.chmod(0o440)
    command = pods()["eventhub-api"]["spec"]["initContainers"][0]["command"]
    subprocess.run([*command[:3], mounted, copied], check=True)
    eventhub = Command(tmp_path)
    refused = eventhub("keys", "create", "a", "--scopes", "read", "--secret-file", str(mounted))
    assert (refused.returncode, "chmod 600" in refused.stderr) == (2, True)
    assert eventhub.json("keys", "create", "a", "--scopes", "read", "--secret-file", str(copied))["key"]
    copied.write_text(example)
    refused = eventhub("keys", "create", "b", "--scopes", "read", "--db", "other.db", "--secret-file", str(copied))
    assert (refused.returncode, "an example that everybody knows" in refused.stderr) == (2, True)
