"""The OpenAPI document of the control API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from swell import __version__
from swell.api.operations import COMMON_FAILURES, FAILURES, OPERATIONS, Failure, Operation, Parameter

Schema = dict[str, Any]

#: How `swell.model.coding` writes a float.
NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]}


def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    bodies = [operation.body for operation in OPERATIONS if operation.body is not None]
    schemas, components = _schemas([Failure, *bodies, *(operation.answer for operation in OPERATIONS)])
    for name in components.keys() - {body.__name__ for body in bodies}:
        components[name] = _with_numbers(components[name])
    paths: dict[str, dict[str, Any]] = {}
    answers = schemas[1 + len(bodies) :]
    for operation, schema in zip(OPERATIONS, answers, strict=True):
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schema)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Swell",
            "version": __version__,
            "description": "The control API of one platform: on the Unix socket `api.sock` in its state "
            "folder, and on a port of 127.0.0.1 if `swell up --port` asked for one. The token is in the "
            "state folder's file `token`.",
        },
        "servers": [{"url": "http://localhost"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components | {"Number": NUMBER},
            "responses": {f"Failure{status}": _failure(text) for status, text in FAILURES.items()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas(types: Iterable[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    return list(schemas), dict(components)


def _operation(operation: Operation, answer: Schema) -> dict[str, Any]:
    described: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    described["x-least-role"] = operation.role.word
    if operation.parameters:
        described["parameters"] = [_parameter(parameter) for parameter in operation.parameters]
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": _json(_reference(operation.body))}
    described["responses"] = {
        str(operation.status): {
            "description": "Done.",
            "content": {operation.media_type.partition(";")[0]: {"schema": answer}},
        },
        **(
            {
                "200": {
                    "description": "Repeated request; the answer is the same as before.",
                    "content": _json(answer),
                }
            }
            if operation.repeated
            else {}
        ),
        **{
            str(status): {"$ref": f"#/components/responses/Failure{status}"}
            for status in (*COMMON_FAILURES, *operation.failures)
        },
    }
    return described


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.place == "path",
        "description": parameter.description,
        "schema": dict(parameter.schema),
    }


def _failure(text: str) -> dict[str, Any]:
    return {"description": text, "content": _json(_reference(Failure))}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _reference(kind: type) -> Schema:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _with_numbers(schema: Any) -> Any:
    """A schema in which every float may also be one that JSON has no word for."""
    if isinstance(schema, list):
        return [_with_numbers(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "number":
        rest = {key: value for key, value in schema.items() if key != "type"}
        return {"$ref": "#/components/schemas/Number", **rest}
    return {key: _with_numbers(value) for key, value in schema.items()}
