"""The OpenAPI document as generators of clients need it; that the hub keeps it is shown by schemathesis."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from eventhub.http.openapi import make_openapi
from eventhub.http.routes import OPERATIONS

DOCUMENT: dict[str, Any] = json.loads(json.dumps(make_openapi(OPERATIONS)))
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS_OF_DOCUMENT = [operation for methods in DOCUMENT["paths"].values() for operation in methods.values()]


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(item)


def is_valid(value: Any, schema: Any) -> bool:
    return bool(jsonschema_rs.is_valid({**schema, "components": DOCUMENT["components"]}, value))


def test_every_example_has_the_type_of_its_parameter_or_body():
    seen = 0
    for operation in OPERATIONS_OF_DOCUMENT:
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        shown = [
            *operation.get("parameters", []),
            *(kind for body in bodies for kind in body.get("content", {}).values()),
        ]
        for one in shown:
            if "example" in one:
                seen += 1
                assert is_valid(one["example"], one["schema"]), (operation["operationId"], one["example"])
    assert seen > 15


def test_no_member_of_a_body_has_a_default_for_generators_demand_it_then():
    told = [
        name
        for name, schema in SCHEMAS.items()
        for member in schema.get("properties", {}).values()
        if "default" in member
    ]
    assert told == []
    assert "Default: 10.0." in SCHEMAS["NewSubscriberBody"]["properties"]["timeout_seconds"]["description"]


def test_times_are_told_as_times():
    for name, schema in SCHEMAS.items():
        for member, described in schema.get("properties", {}).items():
            text = json.dumps(described)
            if member.endswith(("_at", "_seen")) and '"integer"' not in text:
                assert '"date-time"' in text, f"{name}.{member}"


def test_a_body_of_json_is_an_object():
    for operation in OPERATIONS_OF_DOCUMENT:
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if body is not None:
            name = body["schema"]["$ref"].rpartition("/")[2]
            assert SCHEMAS[name]["type"] == "object", operation["operationId"]
        kinds = operation.get("requestBody", {}).get("content", {}).values()
        assert "array" not in [kind["schema"].get("type") for kind in kinds], operation["operationId"]


def test_only_json_is_an_object():
    seen = 0
    for operation in OPERATIONS_OF_DOCUMENT:
        for answer in operation["responses"].values():
            for kind, described in answer.get("content", {}).items():
                if not kind.endswith("json"):
                    seen += 1
                    stream = kind == "text/event-stream"
                    assert described["schema"] == ({} if stream else {"type": "string"}), operation["operationId"]
    assert seen > 3


def test_every_reference_leads_somewhere_and_every_schema_is_used():
    used = {node["$ref"].rpartition("/")[2] for node in nodes(DOCUMENT) if isinstance(node.get("$ref"), str)}
    assert used == set(SCHEMAS)


@pytest.mark.parametrize(
    "body", [{"tags": "a"}, {"event_type": "a.b", "payload": None}, {"tags": ["a"], "payload": [1]}]
)
def test_what_the_hub_takes_fits_the_schema(body: dict[str, Any]):
    assert is_valid(body, SCHEMAS["NewEventBody"])
