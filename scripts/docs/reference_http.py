"""The HTTP reference, from the same declarations that route and check the requests."""

import json
from collections.abc import Iterator
from typing import Any

from eventhub.http.openapi import make_openapi
from eventhub.http.operations import Operation
from eventhub.http.routes import OPERATIONS

INTRODUCTION = """# HTTP

Every route, made from the declarations that check the requests. A running server shows the same at `GET /docs`, and as
OpenAPI 3.1 at `GET /openapi.json`. How to use them: [the hub over HTTP](../how-to/http.md).

Every error is a problem document (RFC 9457) with `type`, `title`, `status`, `detail` and sometimes `pointer`. Any route
may answer 400, 406, 408, 414, 421 and 431; one that needs a key also 401, 403, 429 and 503; one with a body also 413,
415 and 422. Only what comes on top of these is listed below.
"""
COMMON = {400, 401, 403, 406, 408, 413, 414, 415, 421, 422, 429, 431, 503}


def page() -> str:
    document = make_openapi(OPERATIONS)
    parts = [INTRODUCTION]
    for group in dict.fromkeys(operation.group for operation in OPERATIONS):
        parts.append(f"## {group}\n")
        parts += [
            "\n".join(_operation(operation, document["paths"][operation.path][operation.method.lower()]))
            for operation in OPERATIONS
            if operation.group == group
        ]
    parts.append("## Bodies and answers\n")
    for name, schema in sorted(document["components"]["schemas"].items()):
        if not name.endswith("Query"):  # those are the parameters, which stand with their routes
            parts.append("\n".join(_component(name, schema)))
    return "\n".join(parts)


def _operation(operation: Operation, described: dict[str, Any]) -> Iterator[str]:
    yield f"### `{operation.method} {operation.path}` {{#{operation.name}}}\n"
    scope = "No key is needed." if operation.scope is None else f"Scope: `{operation.scope}`."
    yield f"{operation.summary.rstrip('.')}. {scope}\n"
    if operation.description:
        yield f"{operation.description}\n"
    if parameters := described.get("parameters"):
        yield "| parameter | in | type | meaning |\n|---|---|---|---|"
        for parameter in parameters:
            needed = "" if not parameter["required"] or parameter["in"] == "path" else " (needed)"
            kind, words = _type(parameter["schema"]), _meaning({**parameter["schema"], **parameter})
            yield f"| `{parameter['name']}`{needed} | {parameter['in']} | {kind} | {words} |"
        yield ""
    if body := described.get("requestBody"):
        content = body["content"]["application/json"]
        optional = "" if body["required"] else ", which may be left out"
        others = [f"`{kind}`" for kind in body["content"] if kind != "application/json"]
        also = f"; also {', '.join(others)}" if others else ""
        yield f"Body{optional}: {_type(content['schema'])}{also}\n"
        if "example" in content:
            yield _json(content["example"])
    yield from _answers(operation, described["responses"])


def _answers(operation: Operation, responses: dict[str, Any]) -> Iterator[str]:
    lines = []
    for status, answer in responses.items():
        if int(status) in COMMON and int(status) not in operation.answers and int(status) not in operation.problems:
            continue
        kinds = [
            "a problem" if kind.startswith("application/problem") else f"{_type(content['schema'])} (`{kind}`)"
            for kind, content in answer.get("content", {}).items()
        ]
        lines.append(f"- **{status}** {answer['description']}" + (f": {', '.join(kinds)}" if kinds else ""))
    yield "\n".join(["Answers:\n", *lines, ""])
    if operation.example.answer is not None:
        yield _json(operation.example.answer)


def _json(value: Any) -> str:
    return f"```json\n{json.dumps(value, indent=2, ensure_ascii=False)}\n```\n"


def _component(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {name} {{#{name.lower()}}}\n"
    if words := schema.get("description"):
        yield f"{_line(words)}\n"
    if "enum" in schema:
        yield "One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + ".\n"
    fields = schema.get("properties", {})
    if fields:
        yield "| field | type | meaning |\n|---|---|---|"
        needed = schema.get("required", [])
        for field, described in fields.items():
            yield f"| `{field}`{' (needed)' if field in needed else ''} | {_type(described)} | {_meaning(described)} |"
        yield ""


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(kind) for kind in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return _plain_type(schema)


def _plain_type(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_type(schema.get('items') or {})}"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"object of {_type(values)}" if isinstance(values, dict) and values else "object"
    if kind == "string" and schema.get("format") == "date-time":
        return "time"
    if isinstance(kind, list):
        return " or ".join(kind)
    return str(kind or "any JSON")


def _meaning(schema: dict[str, Any]) -> str:
    words = [_line(schema.get("description", ""))]
    bounds = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most", "maxLength": "at most"}
    for name, text in bounds.items():
        if isinstance(schema.get(name), int | float):
            words.append(f"{text} {schema[name]:,}" + (" characters" if name == "maxLength" else ""))
    if schema.get("default") not in (None, "", [], {}):
        words.append(f"default `{json.dumps(schema['default'], ensure_ascii=False)}`")
    return "; ".join(word.rstrip(".") for word in words if word)


def _line(text: str) -> str:
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")
