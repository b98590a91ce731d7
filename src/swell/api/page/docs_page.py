"""The control API as a page, made from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swell.web.templating import render

Schema = Mapping[str, Any]

#: Text, and the name of the schema that it leads to; empty: none.
TypePart = tuple[str, str]


def docs_page(document: Schema, base: Mapping[str, Any]) -> str:
    """
    Args:
        base: what `base.html` needs.
    """
    return render("docs.html", {"document": document, "type_parts": type_parts, **base})


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
