"""Makes a page of the site of the OpenAPI document, without a script, and offers the document itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from infra.docs.reference.marks import escaped, prose, table
from ptkstore.api.reference import openapi

PAGE, DOCUMENT = "reference/openapi.md", "reference/openapi.json"
INTRODUCTION = """\
# OpenAPI

[Download openapi.json](openapi.json): the OpenAPI {version} document of all {n} requests, for clients and generators.
A server has its own at `GET /openapi.json`.
This page shows the same document. [HTTP](http.md) says how requests, refusals, pages and rates work.
"""


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the page and the document."""
    document = openapi()
    files.append(File.generated(config, PAGE, content=page_of(document)))
    files.append(File.generated(config, DOCUMENT, content=json.dumps(document, indent=1) + "\n"))
    return files


def page_of(document: Mapping[str, Any]) -> str:
    """Return the document as Markdown: requests by tag, then the schemas of their bodies."""
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append(_operation(method.upper(), path, operation))
    n = sum(map(len, by_tag.values()))
    parts = [INTRODUCTION.format(version=document["openapi"], n=n)]
    for tag, operations in by_tag.items():
        parts += [f"## {tag.capitalize()}\n", *operations]
    parts.append("## Schemas\n")
    parts += [_schema(name, schema) for name, schema in document["components"]["schemas"].items()]
    return "\n".join(parts)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [f"### {method} {escaped(path)} {{ #{operation['operationId']} }}\n"]
    parts.append(prose(operation.get("description") or operation["summary"]) + "\n")
    given = [
        [f"`{one['name']}`", one["in"], _kind(one["schema"]), _needed(one["required"]), _meaning(one)]
        for one in operation.get("parameters", ())
    ]
    if given:
        parts.append(table(["parameter", "in", "type", "needed", "meaning"], given) + "\n")
    bodies = [*_bodies(operation.get("requestBody", {}))]
    if bodies:
        parts.append(f"Body: {'; '.join(bodies)}.\n")
    answers = [
        [status, escaped(answer["description"]), "; ".join(_bodies(answer))]
        for status, answer in operation["responses"].items()
    ]
    parts.append(table(["answer", "when", "body"], answers) + "\n")
    return "\n".join(parts)


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    parts = [f"### {name} {{ #schema-{name.lower()} }}\n"]
    if "description" in schema:
        parts.append(prose(schema["description"]) + "\n")
    fields = [
        [f"`{field}`", _kind(one), _needed(field in schema.get("required", ())), _meaning(one)]
        for field, one in schema.get("properties", {}).items()
    ]
    parts.append(
        table(["field", "type", "needed", "meaning"], fields) + "\n" if fields else f"{_kind(schema)}\n"
    )
    return "\n".join(parts)


def _bodies(holder: Mapping[str, Any]) -> Iterator[str]:
    for media, one in holder.get("content", {}).items():
        schema = one.get("schema", {})
        yield f"`{media}`" + (f" {_kind(schema)}" if schema else "")


def _kind(schema: Mapping[str, Any]) -> str:
    """Return the type that a schema allows, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#schema-{name.lower()})"
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(dict.fromkeys(map(_kind, schema[choice])))
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{json.dumps(one)}`" for one in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}" if schema.get("items") else "list"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties'])}"
    return str(schema.get("type", "anything"))


def _needed(required: bool) -> str:
    return "yes" if required else ""


def _meaning(schema: Mapping[str, Any]) -> str:
    told = escaped(" ".join(schema.get("description", "").split()))
    within = schema.get("schema", schema)
    if within.get("default") is not None:
        told = f"{told}; " * bool(told) + f"default `{json.dumps(within['default'])}`"
    return told
