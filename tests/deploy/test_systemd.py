"""The units are ones that systemd understands, and leave the hub little to break."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from eventhub.config import Settings
from tests.cli.support import EVENTHUB
from tests.deploy.files import DEPLOY, INSTALLED, UNITS, unit

SERVICES = [path for path in UNITS if path.suffix == ".service"]
KNOWN = {
    "Unit": "Description Wants After Conflicts StartLimitIntervalSec StartLimitBurst",
    "Install": "WantedBy",
    "Timer": "OnCalendar RandomizedDelaySec Persistent",
    "Service": """
        Type ExecStart Restart RestartSec TimeoutStartSec TimeoutStopSec LimitNOFILE LoadCredential Environment Nice
        IOSchedulingClass DynamicUser User StateDirectory StateDirectoryMode WorkingDirectory UMask ProtectSystem
        ProtectHome PrivateTmp PrivateDevices ProtectProc ProtectClock ProtectHostname ProtectKernelLogs
        ProtectKernelModules ProtectKernelTunables ProtectControlGroups RestrictAddressFamilies RestrictNamespaces
        RestrictRealtime RestrictSUIDSGID RemoveIPC LockPersonality NoNewPrivileges CapabilityBoundingSet
        AmbientCapabilities SystemCallArchitectures SystemCallFilter SystemCallErrorNumber MemoryDenyWriteExecute
    """,
}
REPEATED = {"Environment", "SystemCallFilter"}
HARDENED = {
    "DynamicUser": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "RestrictNamespaces": "yes",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "SystemCallArchitectures": "native",
    "UMask": "0077",
}
EXPOSURE = re.compile(r"Overall exposure level for \S+: ([\d.]+)")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_has_known_directives_each_once(path: Path):
    found = [(section, name) for section, name, _ in unit(path)]
    for section, name in found:
        assert name in KNOWN[section].split(), f"{section} {name}"
        assert found.count((section, name)) == 1 or name in REPEATED, name


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_a_service_is_hardened_and_has_time_to_end(path: Path):
    values = {name: value for section, name, value in unit(path) if section == "Service"}
    assert HARDENED.items() <= values.items()
    if "serve" in values["ExecStart"]:
        assert float(values["TimeoutStopSec"]) > Settings().shutdown_seconds
        assert values["MemoryDenyWriteExecute"] == "yes"


def test_names_of_other_units_are_right():
    names = {path.name for path in UNITS}
    assert "eventhub-pipeline.service" in names, "the timer starts the service of its own name"
    for section, name, value in unit(DEPLOY / "systemd" / "eventhub.service"):
        if (section, name) == ("Unit", "Conflicts"):
            assert {re.sub(r"@\w+", "@", other) for other in value.split()} <= names


def test_the_operator_runs_as_the_services_do():
    text = (DEPLOY / "systemd" / "eventhub-operator").read_text()
    values = {name: value for _, name, value in unit(DEPLOY / "systemd" / "eventhub.service")}
    for name in ("DynamicUser", "User", "StateDirectory", "UMask", "ProtectSystem", "LoadCredential"):
        assert f"--property={name}={values[name]} " in text
    assert INSTALLED in text
    assert subprocess.run(["sh", "-n", DEPLOY / "systemd" / "eventhub-operator"], check=False).returncode == 0


def test_systemd_itself_has_no_objection(tmp_path: Path):
    """Where there is one; the tests above need none."""
    program = shutil.which("systemd-analyze")
    if program is None:
        return
    paths = [tmp_path / path.name for path in UNITS]
    for path, copy in zip(UNITS, paths, strict=True):
        copy.write_text(path.read_text().replace(INSTALLED, str(EVENTHUB)))
    done = subprocess.run([program, "verify", "--man=no", *paths], capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if "eventhub" in line]
    assert (done.returncode, ours) == (0, [])
    for path in paths:
        if path.suffix == ".service" and "@" not in path.name:
            rated = subprocess.run(
                [program, "security", "--offline=true", "--no-pager", path], capture_output=True, text=True, check=False
            )
            found = EXPOSURE.search(rated.stdout)
            assert found is not None, rated.stderr
            assert float(found[1]) < 2.0
