"""The page of the control API, and where the types of the Python client come from."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import httpx
import pytest

from swell.api.client import Client
from swell.api.openapi import document
from swell.api.operations import OPERATIONS
from swell.api.page.docs_page import type_parts
from swell.store.folder import StateFolder

#: Operations that the client wraps: each method of a name of its own, or of the operation's.
WRAPPED = {
    "jobs": "jobs",
    "counts": "count_jobs",
    "job": "job",
    "promise": "promise",
    "stories": "stories",
    "metrics": "metrics",
    "cluster": "cluster",
    "drain_node": "drain_node",
    "undrain_node": "undrain_node",
    "remove_node": "remove_node",
    "prune": "prune",
}


@pytest.fixture
def http(folder: StateFolder) -> Iterator[httpx.Client]:
    endpoint = folder.read_endpoint()
    assert endpoint is not None and endpoint.url is not None
    headers = {"Authorization": f"Bearer {folder.read_token()}"}
    with httpx.Client(base_url=endpoint.url, headers=headers, trust_env=False) as http:
        yield http


def test_the_page_has_every_operation_and_type_and_needs_no_other_site(http: httpx.Client) -> None:
    answer = http.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    anchors = set(re.findall(r'<section id="([^"]+)"', answer.text))
    schemas = document(OPERATIONS)["components"]["schemas"]
    assert anchors == {operation.name for operation in OPERATIONS} | {f"schema-{name}" for name in schemas}
    assert set(re.findall(r'href="#([^"]+)"', answer.text)) - {"content"} <= anchors
    assert all(link[0] in "/#" for link in re.findall(r'(?:href|src)="([^"]*)"', answer.text))
    assert http.get("/docs", headers={"Authorization": ""}).status_code == 401


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string"}, "string"),
        ({"anyOf": [{"$ref": "#/components/schemas/Job"}, {"type": "null"}]}, "Job or null"),
        (
            {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            "array of array of integer",
        ),
        (
            {"type": "array", "prefixItems": [{"type": "number"}, {"type": "integer"}]},
            "array of number, integer",
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "object of string"),
        ({"enum": ["a", "b"]}, "a | b"),
        ({}, "any"),
    ],
)
def test_types_in_words(schema: dict[str, Any], text: str) -> None:
    assert "".join(part for part, _ in type_parts(schema)) == text


@pytest.mark.parametrize("name", WRAPPED)
def test_the_client_returns_the_types_that_the_document_is_made_of(name: str) -> None:
    """So they need not be generated from it: they are the same classes."""
    (operation,) = (one for one in OPERATIONS if one.name == name)
    returned = get_type_hints(getattr(Client, WRAPPED[name]))["return"]
    assert named(returned) == named(operation.answer)


def named(kind: Any) -> set[type]:
    """The classes within a type."""
    if get_origin(kind) is None:
        return {kind} if inspect.isclass(kind) else set()
    return {found for part in get_args(kind) for found in named(part)}
