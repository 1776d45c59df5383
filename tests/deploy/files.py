"""What deploy/ holds, read for the tests: documents, command lines and the environments that they run in."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SCHEMAS = Path(__file__).parent / "schemas"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((*(DEPLOY / "systemd").glob("*.service"), *(DEPLOY / "systemd").glob("*.timer")))
INSTALLED = "/opt/eventhub/bin/eventhub"
_APART = re.compile(r"^---$", re.MULTILINE)


class Line(NamedTuple):
    """A command line of the hub, and the variables that it would find."""

    place: str
    tokens: list[str]
    environment: dict[str, str]


def documents(path: Path) -> list[Any]:
    return [msgspec.yaml.decode(text) for text in _APART.split(path.read_text()) if text.strip()]


def objects() -> list[Any]:
    """Every Kubernetes object, with the name of its file."""
    return [found for path in KUBERNETES if path.name != "kustomization.yaml" for found in documents(path)]


def named(kind: str) -> dict[str, Any]:
    return {found["metadata"]["name"]: found for found in objects() if found["kind"] == kind}


def pods() -> dict[str, Any]:
    """The pod of each workload, by the workload's name."""
    found = {}
    for kind in ("Deployment", "Job", "CronJob"):
        for name, made in named(kind).items():
            holder = made["spec"]["jobTemplate"] if kind == "CronJob" else made
            found[name] = holder["spec"]["template"]
    return found


def compose() -> Any:
    (found,) = documents(DEPLOY / "compose.yaml")
    return found


def schema(name: str) -> Any:
    return json.loads((SCHEMAS / name).read_text())


def instructions() -> list[tuple[str, str]]:
    """The Containerfile as instruction and rest, lines that go on joined."""
    lines = [line for line in (DEPLOY / "Containerfile").read_text().splitlines() if not line.startswith("#")]
    whole = "\n".join(lines).replace("\\\n", " ")
    return [(first, rest.strip()) for first, _, rest in (line.partition(" ") for line in whole.splitlines() if line)]


def image_environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for first, rest in instructions() if first == "ENV" for pair in shlex.split(rest))


def unit(path: Path) -> list[tuple[str, str, str]]:
    """Section, name and value of each line of a unit, in order."""
    found, section = [], ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            assert equals, f"{path.name}: {line}"
            found.append((section, name, value))
    return found


def command_lines() -> list[Line]:
    return [*_of_image(), *_of_compose(), *_of_kubernetes(), *_of_units()]


def _of_image() -> Iterator[Line]:
    for first, rest in instructions():
        if first == "CMD":
            yield Line("Containerfile", json.loads(rest), image_environment())


def _of_compose() -> Iterator[Line]:
    for name, service in compose()["services"].items():
        if service["image"].startswith("eventhub"):
            yield Line(f"compose {name}", service["command"], {**image_environment(), **service["environment"]})


def _of_kubernetes() -> Iterator[Line]:
    data = named("ConfigMap")["eventhub"]["data"] | named("Secret")["eventhub"]["stringData"]
    environment = image_environment() | {name: value for name, value in data.items() if name.startswith("EVENTHUB_")}
    for name, pod in pods().items():
        (container,) = pod["spec"]["containers"]
        yield Line(f"kubernetes {name}", container["args"], environment)


def _of_units() -> Iterator[Line]:
    for path in UNITS:
        lines = unit(path)
        environment = dict(value.split("=", 1) for _, name, value in lines if name == "Environment")
        environment.pop("EVENTHUB_CONFIG", None)  # a file of the service's own, which another test reads
        for _, name, value in lines:
            if name == "ExecStart":
                assert value.startswith(f"{INSTALLED} ")
                roles = ("api", "fanout", "dispatcher", "janitor") if "%i" in value else ("",)
                for role in roles:
                    tokens = shlex.split(value.replace("%i", role))[1:]
                    yield Line(f"{path.name} {role}".strip(), tokens, environment)
