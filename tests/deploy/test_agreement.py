"""Whatever deploy/ says about the hub is true of it: commands, flags, settings, routes and ports."""

import inspect
import re
import shlex

import pytest

from eventhub.cli import _common_last, build_app
from eventhub.cli.options import Common
from eventhub.config import FILE_VARIABLE, PREFIX, Settings, load
from eventhub.http.routes import OPERATIONS
from tests.deploy.files import DEPLOY, Line, command_lines, compose, documents, image_environment, named, pods

VARIABLE = re.compile(r"\bEVENTHUB_[A-Z_]+")
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSIDE = re.compile(
    r"^(?:eventhub|eventhub-operator|docker run .* eventhub|docker compose .* run .* hub|kubectl .* -- eventhub) (.+)$",
    re.MULTILINE,
)
"""What the hub itself gets of a line of a shell, whoever starts it."""
PATHS = {operation.path for operation in OPERATIONS}
TEXTS = [path for path in sorted(DEPLOY.rglob("*")) if path.is_file() and "secrets" not in path.parts]


def meant(line: Line) -> Settings:
    """The settings that the command would have, if it is one that the hub understands."""
    found = build_app().parse_args(_common_last(line.tokens), exit_on_error=False, print_error=False)
    bound = inspect.BoundArguments(found[1].signature, found[1].arguments)
    common = next((value for value in bound.arguments.values() if isinstance(value, Common)), Common())
    flags = {name: getattr(common, name, None) for name in Settings.__struct_fields__}
    environment = {name: value for name, value in line.environment.items() if name != FILE_VARIABLE}
    return load(flags, environment=environment).settings


@pytest.mark.parametrize("line", [pytest.param(line, id=line.place) for line in command_lines()])
def test_every_command_line_is_understood_and_its_settings_are_good(line: Line):
    settings = meant(line)
    assert settings.role_names
    assert settings.private_networks == ()


def test_all_roles_are_played():
    for kind in ("kubernetes", "eventhub@"):
        played = [meant(line).role_names for line in command_lines() if line.place.startswith(kind)]
        served = frozenset().union(*(roles for roles in played if len(roles) < 4))
        assert served == {"api", "fanout", "dispatcher", "janitor"}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_variable_is_a_setting(path):
    known = {PREFIX + name.upper() for name in Settings.__struct_fields__} | {FILE_VARIABLE}
    assert {name for name in VARIABLE.findall(path.read_text()) if name != "EVENTHUB_"} - known == set()


def test_the_settings_file_of_the_units_is_one(tmp_path):
    path = DEPLOY / "systemd" / "eventhub.toml"
    loaded = load(environment={FILE_VARIABLE: str(path)}, directory=tmp_path)
    assert loaded.settings.db.startswith("postgresql://")
    assert loaded.settings.host == "127.0.0.1"


def test_probes_ask_for_routes_at_the_port_that_the_hub_listens_on():
    port = int(named("ConfigMap")["eventhub"]["data"]["EVENTHUB_PORT"])
    asked = 0
    for name in named("Deployment"):
        (container,) = pods()[name]["spec"]["containers"]
        ports = {each["name"]: each["containerPort"] for each in container.get("ports", ())}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            found = container.get(probe, {}).get("httpGet")
            if found:
                assert found["path"] in PATHS
                assert ports[found["port"]] == port
                asked += 1
        assert {"readinessProbe", "livenessProbe"} <= container.keys(), name
    assert asked >= 6


def test_prometheus_scrapes_services_of_the_compose_file_where_they_tell_metrics():
    (found,) = documents(DEPLOY / "prometheus" / "prometheus.yml")
    hub, pipeline = found["scrape_configs"]
    services = compose()["services"]
    assert hub["metrics_path"] in PATHS
    assert hub["static_configs"] == [{"targets": [f"hub:{image_environment()['EVENTHUB_PORT']}"]}]
    assert hub["authorization"]["credentials_file"] == f"/run/secrets/{services['prometheus']['secrets'][0]}"
    (discovery,) = pipeline["dns_sd_configs"]
    assert discovery["names"] == ["pipeline"]
    assert f"--metrics-port={discovery['port']}" in services["pipeline"]["command"]
    assert all((DEPLOY / "prometheus" / name).is_file() for name in found["rule_files"])


def test_a_stop_waits_for_the_requests_under_way():
    default = Settings().shutdown_seconds
    for name in named("Deployment"):
        spec = pods()[name]["spec"]
        data = named("ConfigMap")["eventhub"]["data"]
        before = spec["containers"][0].get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["", "0"])
        needed = float(before[1]) + float(data["EVENTHUB_SHUTDOWN_SECONDS"])
        assert spec["terminationGracePeriodSeconds"] > needed, name
    assert int(compose()["services"]["hub"]["stop_grace_period"].removesuffix("s")) > default


def test_the_database_has_connections_for_all_pods():
    data = named("ConfigMap")["eventhub"]["data"]
    most = 100 - 3  # as PostgreSQL comes: those that it keeps for superusers are not ours
    count = sum(made["spec"]["replicas"] for made in named("Deployment").values()) + len(named("CronJob"))
    assert count * int(data["EVENTHUB_POOL_SIZE"]) <= most


def test_command_lines_of_the_guides_are_understood():
    checked = 0
    for path in sorted(DEPLOY.rglob("*.md")):
        for block in SHELL.findall(path.read_text()):
            for found in INSIDE.findall(block.replace("\\\n", " ")):
                tokens = shlex.split(found, comments=True)
                build_app().parse_args(_common_last(tokens), exit_on_error=False, print_error=False)
                checked += 1
    assert checked == 5
