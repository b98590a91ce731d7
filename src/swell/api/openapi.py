"""How the control API answers, and the OpenAPI document that tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from swell import __version__
from swell.api.submission import Submission, declared
from swell.api.verbs import HEADERS, MEANINGS, Verb
from swell.model.coding import encode

Schema = dict[str, Any]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was not done: what is wrong, the rule and the remedy."""

    error: str


#: What each status means. The first ones may come from any verb.
FAILURES = {
    400: "The request is not HTTP or not JSON.",
    401: "Wrong or missing token, or no session of the page.",
    403: "The `Host` is not a name of this machine's loopback, the request comes from another web page, or "
    "the user's role or tenant does not allow it.",
    413: "The body is larger than 8 MiB.",
    500: "The platform failed to answer; `daemon.log` says more.",
    404: "There is no such job, node or booking.",
    409: "The key was used for another request, or the phase of the job, or what runs on the node, does not "
    "allow it; or the tenant has as many open jobs as it may; or the devices cannot be booked then.",
    429: "The user has asked for, or sent, too much; `Retry-After` says after how many seconds to try again.",
    422: "A field or a parameter breaks a rule.",
    503: "The scheduler is busy, the journal cannot be written, or a file system does not answer; "
    "`Retry-After` says after how many seconds to try again.",
}
COMMON_FAILURES = (400, 401, 403, 413, 500)

#: Content of a body of bytes.
BINARY = {"application/msgpack": {"schema": {"type": "string", "format": "binary"}}}
#: How `swell.model.coding` writes a float.
NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]}


def document(verbs: Sequence[Verb]) -> dict[str, Any]:
    """OpenAPI 3.1."""
    bodies = [one.body for one in verbs if one.body not in (None, bytes)]
    answers, arguments = [one.answer for one in verbs], [one.arguments for one in verbs]
    kinds = [Failure, *bodies, *answers, *arguments]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    parameters = [components.pop(one.__name__) for one in arguments]
    for name in components.keys() - {body.__name__ for body in bodies}:
        components[name] = _with_numbers(components[name])
    for field in declared().values():
        components[Submission.__name__]["properties"][field.word] |= field.schema
    paths: dict[str, dict[str, Any]] = {}
    for one, answer, given in zip(verbs, schemas[1 + len(bodies) :], parameters, strict=False):
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, answer, given)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Swell",
            "version": __version__,
            "description": "The control API of one platform: on the Unix socket `api.sock` in its state "
            "folder, on a port of 127.0.0.1 if `swell up --port` asked for one, and over TLS if `swell up "
            "--serve` did. The token is in the state folder's file `token`.",
        },
        "servers": [{"url": "http://localhost"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components | {"Number": NUMBER},
            "responses": {
                f"Failure{status}": {"description": text, "content": _json(_reference(Failure))}
                for status, text in FAILURES.items()
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(verb: Verb, answer: Schema, arguments: Schema) -> Schema:
    described: Schema = {"operationId": verb.name, "summary": verb.summary, "x-least-role": verb.role.word}
    if verb.places:
        described["parameters"] = [
            _parameter(name, place, arguments["properties"][name]) for name, place in verb.places.items()
        ]
    if verb.body is not None:
        content = BINARY if verb.body is bytes else _json(_reference(verb.body))
        described["requestBody"] = {"required": verb.needs_body, "content": content}
    content = {verb.media_type.partition(";")[0]: {"schema": answer}}
    responses: Schema = {str(verb.status): {"description": "Done.", "content": content}}
    if verb.makes_job:
        repeated = "Repeated request; the answer is the same as before."
        responses["200"] = {"description": repeated, "content": content}
    for status in (*COMMON_FAILURES, *verb.failures):
        responses[str(status)] = {"$ref": f"#/components/responses/Failure{status}"}
    return {**described, "responses": responses}


def _parameter(name: str, place: str, schema: Schema) -> Schema:
    """A parameter that may be left out is never null."""
    schema = next(one for one in schema.get("anyOf", [schema]) if one != {"type": "null"})
    return {
        "name": HEADERS.get(name, name),
        "in": place,
        "required": place == "path",
        "description": MEANINGS[name],
        "schema": schema,
    }


def _json(schema: Schema) -> Schema:
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


# ---------------------------------------------------------------- answers
def answer(value: object, status: int = 200) -> Response:
    """The value as JSON."""
    return Response(encode(value), status, media_type="application/json")


def failure(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """`{"error": text}`."""
    failed = answer({"error": text}, status)
    failed.headers.update(headers or {})
    return failed
