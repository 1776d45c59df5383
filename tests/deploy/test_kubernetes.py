"""The Kubernetes manifests are what an API server would accept, and as hardened as they say."""

from typing import Any

import jsonschema_rs
import pytest

from tests.deploy.files import DEPLOY, KUBERNETES, documents, named, objects, pods, schema

DEFINITIONS = schema("kubernetes.json")


def problems(found: dict[str, Any]) -> list[str]:
    kind = DEFINITIONS["kinds"].get(f"{found['apiVersion']}/{found['kind']}")
    assert kind, f"{found['apiVersion']} {found['kind']} is no kind that the tests know"
    validator = jsonschema_rs.validator_for({"$ref": f"#/$defs/{kind}", "$defs": DEFINITIONS["$defs"]})
    return [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(found)]


def nothing_is_null(value: Any) -> bool:
    if isinstance(value, dict):
        return all(nothing_is_null(each) for each in value.values())
    return all(nothing_is_null(each) for each in value) if isinstance(value, list) else value is not None


@pytest.mark.parametrize("found", [pytest.param(o, id=f"{o['kind']} {o['metadata']['name']}") for o in objects()])
def test_an_object_is_valid(found: dict[str, Any]):
    assert problems(found) == []
    assert nothing_is_null(found)
    if found["kind"] != "Namespace":
        assert found["metadata"]["namespace"] == "eventhub"


def test_the_schema_finds_mistakes():
    (deployment,) = (found for found in objects() if found["metadata"]["name"] == "eventhub-janitor")
    deployment["spec"]["replica"] = 2
    deployment["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": "http"}]
    assert len(problems(deployment)) == 2


def test_kustomization_names_every_file_but_the_example():
    (found,) = documents(DEPLOY / "kubernetes" / "kustomization.yaml")
    files = {path.name for path in KUBERNETES} - {"kustomization.yaml", "secret.example.yaml"}
    assert set(found["resources"]) == files
    assert len(found["resources"]) == len(files)
    images = {c["image"] for pod in pods().values() for c in pod["spec"]["containers"]}
    assert {image["name"] for image in found["images"]} == images


@pytest.mark.parametrize("name", pods())
def test_a_pod_is_restricted_and_limited(name: str):
    spec = pods()[name]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*spec["initContainers"], *spec["containers"]):
        rights = container["securityContext"]
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert {"requests", "limits"} <= container["resources"].keys()
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted <= {volume["name"] for volume in spec["volumes"]}


def test_selectors_find_the_pods_that_are_meant():
    labels = {name: pod["metadata"]["labels"] for name, pod in pods().items()}
    for name, made in named("Deployment").items():
        chosen = made["spec"]["selector"]["matchLabels"].items()
        assert [found for found, has in labels.items() if chosen <= has.items()] == [name]
    for name, made in named("PodDisruptionBudget").items():
        chosen = made["spec"]["selector"]["matchLabels"].items()
        assert [found for found, has in labels.items() if chosen <= has.items()] == [name]
        assert named("Deployment")[name]["spec"]["replicas"] > 1
    (service,) = named("Service").values()
    chosen = service["spec"]["selector"].items()
    assert [found for found, has in labels.items() if chosen <= has.items()] == ["eventhub-api"]


def test_what_a_pod_refers_to_is_there():
    for pod in pods().values():
        (container,) = pod["spec"]["containers"]
        for each in container["env"]:
            wanted = each["valueFrom"]["secretKeyRef"]
            assert wanted["key"] in named("Secret")[wanted["name"]]["stringData"]
        assert container["envFrom"][0]["configMapRef"]["name"] in named("ConfigMap")
        for volume in pod["spec"]["volumes"]:
            for item in volume.get("secret", {}).get("items", ()):
                assert item["key"] in named("Secret")[volume["secret"]["secretName"]]["stringData"]
