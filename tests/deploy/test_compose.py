"""The compose file is one, and its services fit together; so do Grafana's and Prometheus's own files."""

import json
from typing import Any

import jsonschema_rs
import pytest

from tests.deploy.files import DEPLOY, compose, documents, instructions, schema

SERVICES: dict[str, Any] = compose()["services"]


def problems(found: Any) -> list[str]:
    validator = jsonschema_rs.validator_for(schema("compose.json"))
    return [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(found)]


def test_it_is_valid():
    assert problems(compose()) == []


def test_the_schema_finds_mistakes():
    found = compose()
    found["services"]["hub"]["port"] = ["8080"]
    found["services"]["postgres"]["healthcheck"]["interval"] = ["5s"]
    assert len(problems(found)) == 2


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_refers_to_is_there(name: str):
    found, service = compose(), SERVICES[name]
    assert set(service.get("networks", ())) <= found["networks"].keys()
    assert set(service.get("secrets", ())) <= found["secrets"].keys()
    assert set(service.get("depends_on", ())) <= SERVICES.keys()
    for volume in service.get("volumes", ()):
        source, _, _ = volume.partition(":")
        assert (DEPLOY / source).exists() if source.startswith("./") else source in found["volumes"], volume
    for port in service.get("ports", ()):
        assert port.startswith("127.0.0.1:"), "only this machine"
    assert ":" in service["image"] or "build" in service, "the version is said"


def test_images_are_targets_of_the_containerfile():
    targets = {rest.rpartition(" AS ")[2] for first, rest in instructions() if first == "FROM"}
    for service in SERVICES.values():
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
            assert service["build"]["target"] in targets


def test_secrets_are_files_that_nobody_commits():
    for name, secret in compose()["secrets"].items():
        assert secret == {"file": f"./secrets/{name}"}
        assert f"keep {name}" in (DEPLOY / "prepare").read_text()
    assert "secrets/" in (DEPLOY / ".gitignore").read_text().splitlines()


def test_grafana_finds_prometheus_and_the_dashboard():
    (sources,) = documents(DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yaml")
    (source,) = sources["datasources"]
    assert source["type"] == "prometheus"
    assert source["url"] == "http://prometheus:9090"
    (providers,) = documents(DEPLOY / "grafana" / "provisioning" / "dashboards" / "eventhub.yaml")
    (provider,) = providers["providers"]
    place = f"{provider['options']['path']}/eventhub.json"
    assert f"./grafana/eventhub.json:{place}:ro" in SERVICES["grafana"]["volumes"]
    assert SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == place
    dashboard = json.loads((DEPLOY / "grafana" / "eventhub.json").read_text())
    variables = {each["name"]: each for each in dashboard["templating"]["list"]}
    assert variables["datasource"]["query"] == source["type"]
