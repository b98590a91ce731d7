"""The control API as a page, made from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from swell.api.openapi import document
from swell.web.templating import render

Schema = Mapping[str, Any]

#: Text, and the name of the schema that it leads to; empty: none.
TypePart = tuple[str, str]


@dataclass(frozen=True, slots=True)
class DescribedField:
    """A parameter of an operation, or a field of a schema."""

    name: str
    kind: tuple[TypePart, ...]
    place: str  #: `path`, `query`, `header`; empty of a field
    is_required: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class DescribedAnswer:
    """What a status means."""

    status: str
    meaning: str
    kind: tuple[TypePart, ...]


def docs_page(base: Mapping[str, Any]) -> str:
    """
    Args:
        base: what `base.html` needs.
    """
    whole = document()
    components = whole["components"]
    operations = [
        {
            "method": method.upper(),
            "path": path,
            "id": described["operationId"],
            "summary": described["summary"],
            "fields": [_parameter(one) for one in described.get("parameters", ())],
            "body": type_parts(_content(described["requestBody"])) if "requestBody" in described else (),
            "answers": [
                _answer(status, answer, components["responses"])
                for status, answer in described["responses"].items()
            ],
        }
        for path, methods in whole["paths"].items()
        for method, described in methods.items()
    ]
    schemas = [(name, list(_fields(schema))) for name, schema in components["schemas"].items()]
    values = {"info": whole["info"], "operations": operations, "schemas": schemas, **base}
    return render("docs.html", values)


def type_parts(schema: Schema) -> tuple[TypePart, ...]:
    """The type in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return ((name, name),)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _joined([type_parts(one) for one in schema[several]], " or ")
    if "enum" in schema:
        return ((" | ".join(map(str, schema["enum"])), ""),)
    kind = schema.get("type", "any")
    if kind == "array" and "prefixItems" in schema:
        return (("array of ", ""), *_joined([type_parts(one) for one in schema["prefixItems"]], ", "))
    if kind == "array" and isinstance(items := schema.get("items"), Mapping):
        return (("array of ", ""), *type_parts(items))
    if kind == "object" and isinstance(values := schema.get("additionalProperties"), Mapping):
        return (("object of ", ""), *type_parts(values))
    return ((str(kind), ""),)


def _joined(each: list[tuple[TypePart, ...]], between: str) -> tuple[TypePart, ...]:
    parts: list[TypePart] = []
    for number, one in enumerate(each):
        parts += [(between, "")] if number else []
        parts += one
    return tuple(parts)


def _parameter(described: Schema) -> DescribedField:
    return DescribedField(
        described["name"],
        type_parts(described["schema"]),
        described["in"],
        described["required"],
        described["description"],
    )


def _fields(schema: Schema) -> Iterator[DescribedField]:
    """Fields of an object schema; of any other schema one field without a name, which has its type."""
    if "properties" not in schema:
        yield DescribedField("", type_parts(schema), "", False, schema.get("description", ""))
    for name, of_field in schema.get("properties", {}).items():
        is_required = name in schema.get("required", ())
        yield DescribedField(name, type_parts(of_field), "", is_required, of_field.get("description", ""))


def _answer(status: str, described: Schema, shared: Schema) -> DescribedAnswer:
    if "$ref" in described:
        described = shared[described["$ref"].rpartition("/")[2]]
    kind = type_parts(_content(described)) if "content" in described else ()
    return DescribedAnswer(status, described["description"], kind)


def _content(described: Schema) -> Schema:
    """Schema of the only media type that a body can have."""
    (media,) = described["content"].values()
    schema: Schema = media["schema"]
    return schema
