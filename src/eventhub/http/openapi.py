"""The OpenAPI 3.1 document, made from the same declarations and types that route and check the requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from eventhub._version import __version__
from eventhub.http.bodies.problems import ProblemBody
from eventhub.http.operations import Operation

__all__ = ["make_openapi"]

REFERENCE: Final = "#/components/schemas/{name}"
_REFERENCE: Final = re.compile(r'"#/components/schemas/(\w+)"')
PROBLEM: Final = "application/problem+json"
_ID_LINKS: Final = ("show_event", "complete", "fail", "start", "heartbeat", "release", "reset", "replay")
_LINKS: Final = (
    ("publish", _ID_LINKS, "/id"),
    (
        "create_subscriber",
        (
            "show_subscriber",
            "change_subscriber",
            "pause_subscriber",
            "resume_subscriber",
            "disable_subscriber",
            "enable_subscriber",
            "rotate_secret",
            "test_subscriber",
            "stats_of_subscriber",
            "keys_of_subscriber",
            "skip_key_of_subscriber",
            "remove_subscriber",
        ),
        "/id",
    ),
    ("list_messages", ("show_message", "retry_message", "bury_message", "cancel_message"), "/messages/0/id"),
    ("list_dead", ("show_dead", "retry_dead"), "/dead_letters/0/id"),
)
"""Operation, what may follow it, and where in its answer the id for that is."""
_CLAIM_LINKS: Final = ("complete", "fail", "start", "heartbeat", "release")
_TAKEN_BY: Final = {"subscribe": "$request.query.worker_id", "subscribe_by_body": "$request.body#/worker_id"}


def make_openapi(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole document."""
    types = [wanted for operation in operations for wanted in _types(operation)]
    schemas, components = msgspec.json.schema_components([*types, ProblemBody], ref_template=REFERENCE)
    described = iter(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        found = [next(described) for _ in _types(operation)]
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, found)
    in_bodies = _referenced({**components, "": paths}, "")  # what is only in queries stands there as parameters
    components = {name: _without_defaults(schema) for name, schema in components.items() if name in in_bodies}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Event Hub",
            "version": __version__,
            "description": "Durable events over HTTP: publish, take work by tags, report, and never lose one. "
            "Every error is a problem document (RFC 9457).",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key: eh_<id>_<secret>."}
            },
        },
    }


def _referenced(schemas: dict[str, Any], name: str) -> set[str]:
    """The names of the schemas that one needs, and those that these need."""
    found: set[str] = set()
    left = [name]
    while left:
        text = msgspec.json.encode(schemas[left.pop()]).decode()
        new = set(_REFERENCE.findall(text)) - found
        found |= new
        left += new
    return found


def _types(operation: Operation) -> list[Any]:
    """The types of an operation, in the order in which ``_operation`` uses their schemas."""
    asked = [wanted for wanted in (operation.query, operation.described or operation.body) if wanted is not None]
    answered = [answer for answer in operation.answers.values() if _is_json(operation, answer)]
    return asked + [kind for answer in answered for kind in (answer if isinstance(answer, tuple) else (answer,))]


def _is_json(operation: Operation, answer: Any) -> bool:
    return answer is not None and operation.gives == "application/json" and answer is not dict


def _operation(operation: Operation, schemas: list[Any]) -> dict[str, Any]:
    left = iter(schemas)
    made: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.group],
        "parameters": _in_path(operation),
        "responses": {},
    }
    if operation.description:
        made["description"] = operation.description
    if operation.scope is None:
        made["security"] = []
    if operation.query is not None:
        next(left)
        made["parameters"] += _in_query(operation)
    made["parameters"] += [
        {"name": name, "in": "header", "required": False, "description": words, "schema": {"type": "string"}}
        for name, words in operation.headers
    ]
    if operation.body is not None:
        made["requestBody"] = _body(operation, next(left))
    for status, answer in operation.answers.items():
        made["responses"][str(status)] = _answer(operation, status, answer, left)
    for status in _problems(operation):
        made["responses"].setdefault(str(status), _problem(status))
    if not made["parameters"]:
        del made["parameters"]
    return made


def _in_path(operation: Operation) -> list[dict[str, Any]]:
    schema = {
        "id": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1},
        "key_id": {"type": "string"},
        "key": {"type": "string", "maxLength": 255},
    }
    return [
        {"name": name, "in": "path", "required": True, "schema": schema[name]}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]


def _in_query(operation: Operation) -> list[dict[str, Any]]:
    (schema,), components = msgspec.json.schema_components([operation.query], ref_template=REFERENCE)
    name = schema["$ref"].rpartition("/")[2]
    fields, needed = components[name]["properties"], components[name].get("required", [])
    examples = dict(pair.split("=", 1) for pair in operation.example.query.split("&") if pair)
    made = []
    for field, described in fields.items():
        plain = _without_null(described)
        parameter = {"name": field, "in": "query", "required": field in needed, "schema": plain}
        if "description" in plain:
            parameter["description"] = plain.pop("description")
        if field in examples:
            parameter["example"] = _typed(examples[field], plain)
        if "anyOf" in plain and field == "tags":  # a query has no arrays of ours: tags are text with commas
            parameter["schema"] = {"type": "string"}
        made.append(parameter)
    return made


def _typed(text: str, schema: dict[str, Any]) -> Any:
    """An example as its parameter's type has it."""
    if schema.get("type") in ("integer", "number", "boolean"):
        return msgspec.json.decode(text)
    return text


def _without_defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object whose defaults are told in words: generators take a member with one for always there."""
    for member in schema.get("properties", {}).values():
        default = member.pop("default", None)
        if default is not None and default != []:
            told = f"Default: {msgspec.json.encode(default).decode()}."
            member["description"] = f"{member['description']} {told}" if "description" in member else told
    return schema


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is not given is left out, never null."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    if rest.get("default", 0) is None:
        del rest["default"]
    if len(kinds) == 1:
        return {**kinds[0], **rest}
    return {"anyOf": kinds, **rest} if kinds else rest


def _body(operation: Operation, schema: Any) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    if operation.example.body is not None:
        content["application/json"]["example"] = operation.example.body
    for kind in operation.accepts[1:]:
        if "batch" not in kind:  # an array, which breaks generated clients; the description tells of it
            content[kind] = {"schema": _CLOUD_EVENT}
    return {"required": not operation.body_optional, "content": content}


_CLOUD_EVENT: Final = {
    "type": "object",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "minLength": 1},
        "source": {"type": "string", "minLength": 1},
        "type": {"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"},
    },
}


def _answer(operation: Operation, status: int, answer: Any, left: Iterator[Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if answer is not None:
        schema: dict[str, Any]
        if isinstance(answer, tuple):
            schema = {"anyOf": [next(left) for _ in answer]}
        else:
            schema = next(left) if _is_json(operation, answer) else {"type": _plain(answer)}
        # Events of a stream are no document: generators take it for text, and checkers for one object an event.
        made["content"] = {operation.gives: {"schema": {} if operation.streams else schema}}
        if operation.example.answer is not None:
            made["content"][operation.gives]["example"] = operation.example.answer
    if status < HTTPStatus.MULTIPLE_CHOICES and answer is not None:
        links = _links(operation)
        if links:
            made["links"] = links
    return made


def _links(operation: Operation) -> dict[str, Any]:
    """What can be done next with what was made or listed, or with an event that a worker has taken."""
    for of, names, place in _LINKS:
        if operation.name == of:
            return {f"to_{name}": _link(name, place) for name in names}
    if operation.name in _TAKEN_BY:
        worker = {"requestBody": {"worker_id": _TAKEN_BY[operation.name]}}
        return {f"to_{name}": {**_link(name), **worker} for name in _CLAIM_LINKS}
    return {}


def _link(name: str, place: str = "/id") -> dict[str, Any]:
    return {"operationId": name, "parameters": {"id": f"$response.body#{place}"}}


def _plain(answer: Any) -> str:
    return "object" if answer is dict else "string"


def _problems(operation: Operation) -> list[int]:
    """Every problem that the operation may answer with."""
    found = {400, 406, 408, 414, 421, 431, *operation.problems}
    if operation.scope is not None:
        found |= {401, 403, 429, 503}
    if operation.body is not None:
        found |= {413, 415, 422}
    if operation.method != "GET":
        found |= {403}
    return sorted(found)


def _problem(status: int) -> dict[str, Any]:
    return {
        "description": HTTPStatus(status).phrase,
        "content": {PROBLEM: {"schema": {"$ref": REFERENCE.format(name=ProblemBody.__name__)}}},
    }
