"""The page of the control API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from swell.api.openapi import document
from swell.api.page.docs_page import type_parts
from swell.api.verbs import VERBS
from swell.store.folder import StateFolder


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
    schemas = document(VERBS)["components"]["schemas"]
    assert anchors == {operation.name for operation in VERBS} | {f"schema-{name}" for name in schemas}
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
