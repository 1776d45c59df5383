"""The documentation for people: one page of plain HTML, made from the OpenAPI document; no script, nothing fetched."""

from __future__ import annotations

import json
from html import escape
from typing import Any, Final

import msgspec

from eventhub.http.openapi import make_openapi
from eventhub.http.operations import Operation

__all__ = ["STYLE", "Documents", "make_documents"]

STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; }
summary { padding: .5rem .75rem; cursor: pointer; }
details > div { padding: 0 .75rem .75rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { background: var(--soft); padding: .75rem; overflow-x: auto; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .25rem .5rem; border-bottom: 1px solid var(--line); }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700; }
.path { font-weight: 600; }
"""


class Documents(msgspec.Struct, frozen=True):
    """What the server says about itself, ready to be sent."""

    openapi: bytes
    html: bytes
    style: bytes


def make_documents(operations: tuple[Operation, ...]) -> Documents:
    found = make_openapi(operations)
    return Documents(msgspec.json.encode(found), _page(found).encode(), STYLE.encode())


def _page(document: dict[str, Any]) -> str:
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(_operation(method.upper(), path, operation))
    schemas = "".join(_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items()))
    sections = "".join(f"<h2>{escape(name)}</h2>{''.join(parts)}" for name, parts in groups.items())
    info = document["info"]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])} {escape(info['version'])}</title>"
        '<link rel="stylesheet" href="/docs.css"></head><body>'
        f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1><p>{escape(info['description'])}</p>"
        '<p>For programs: <a href="/openapi.json">openapi.json</a>.</p>'
        f"<main>{sections}<h2>Bodies</h2>{schemas}</main></body></html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(parameter['name'])}</code></td><td>{escape(parameter['in'])}"
        f"{', required' if parameter['required'] else ''}</td>"
        f"<td>{_kind(parameter['schema'])} {escape(parameter.get('description', ''))}</td></tr>"
        for parameter in operation.get("parameters", [])
    )
    parts = [f"<p>{escape(operation['description'])}</p>"] if "description" in operation else []
    if rows:
        parts.append(f"<table><tr><th>parameter</th><th>in</th><th></th></tr>{rows}</table>")
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        parts.append(f"<p>Body: {_kind(body['schema'])}</p>")
        if "example" in body:
            parts.append(f"<pre>{escape(json.dumps(body['example'], indent=2))}</pre>")
    answers = "".join(
        f"<tr><td><code>{status}</code></td><td>{escape(answer['description'])}</td><td>{_content(answer)}</td></tr>"
        for status, answer in sorted(operation["responses"].items())
    )
    parts.append(f"<table><tr><th>answer</th><th></th><th></th></tr>{answers}</table>")
    return (
        f'<details id="{escape(operation["operationId"])}"><summary><span class="method">{method}</span> '
        f'<code class="path">{escape(path)}</code> – {escape(operation["summary"])}</summary>'
        f"<div>{''.join(parts)}</div></details>"
    )


def _content(answer: dict[str, Any]) -> str:
    return " ".join(f"{_kind(content['schema'])}" for content in answer.get("content", {}).values())


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_kind(kind) for kind in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return f"<code>{escape(str(schema.get('type', 'any')))}</code>"


def _schema(name: str, schema: dict[str, Any]) -> str:
    needed = schema.get("required", [])
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code></td><td>{_kind(described)}{', always' if field in needed else ''}</td>"
        f"<td>{escape(described.get('description', ''))}</td></tr>"
        for field, described in schema.get("properties", {}).items()
    )
    words = escape(schema.get("description", ""))
    table = f"<table>{rows}</table>" if rows else f"<p>{escape(', '.join(map(str, schema.get('enum', []))))}</p>"
    return (
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code> {words}</summary>'
        f"<div>{table}</div></details>"
    )
