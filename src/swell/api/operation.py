"""How an operation of the control API is declared: at the method that answers it.

Routes, access rules, the OpenAPI document and its page are made of these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, get_origin, get_type_hints

import msgspec
from starlette.requests import Request

from swell.api.caller import Role
from swell.api.fields import wrong_type
from swell.model.view import SubmitResult

#: Parameters of a method which are headers.
HEADERS = {"key": "Idempotency-Key"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method of a path, made by `operation`."""

    method: str
    path: str
    role: Role  #: the least that may; of role SUBMIT those of the job's tenant, see `access`
    status: int
    failures: tuple[int, ...]  #: statuses, besides those of every operation
    media_type: str  #: of the answer
    call: Callable[..., Any]
    answer: Any  #: type of what `call` returns
    body: Any  #: type of the argument `body`; None: there is none
    takes_scope: bool  #: whether `call` has the argument `scope`, that of ASGI
    arguments: type[msgspec.Struct]  #: all others, by the names that they have in requests
    places: Mapping[str, str]  #: where each of these stands: `path`, `query` or `header`
    lists: frozenset[str]  #: those that a query may have several times
    defaults: frozenset[str]  #: parameters of `call` that may be left out

    @property
    def name(self) -> str:
        return self.call.__name__

    @property
    def summary(self) -> str:
        return " ".join((self.call.__doc__ or "").split())

    @property
    def makes_job(self) -> bool:
        """Whether it submits a job, or finds that the same request has done so before."""
        return self.answer is SubmitResult

    def given(self, request: Request) -> dict[str, Any]:
        """The arguments that a request has in its path, query and headers. Raises InvalidField."""
        query = request.query_params
        sources = {"path": request.path_params, "query": query, "header": request.headers}
        given = {
            name: query.getlist(name) if name in self.lists else sources[place][name]
            for name, place in self.places.items()
            if name in sources[place]
        }
        try:
            return msgspec.structs.asdict(msgspec.convert(given, self.arguments, strict=False))
        except msgspec.ValidationError as error:
            raise wrong_type(error, given) from error


def operation(
    method: str,
    path: str,
    role: Role,
    *,
    status: int = 200,
    failures: tuple[int, ...] = (),
    media_type: str = "application/json",
    answer: Any = None,
) -> Callable[[Callable[..., Any]], Operation]:
    """Declare which requests a method answers. Its docstring is the summary of the operation.

    Its parameters are those of the path and of the query, and the headers of `HEADERS`, with their types and
    meanings. Two others are given to a method that has them: `body`, decoded to its type (a default is for a
    request without a body), and `scope`.

    Args:
        answer: type of the answer, of a method that returns it in bytes; None: as the method is annotated.
    """

    def declared(call: Callable[..., Any]) -> Operation:
        kinds, parameters = get_type_hints(call, include_extras=True), signature(call).parameters
        defaults = {
            name: one.default for name, one in parameters.items() if one.default is not Parameter.empty
        }
        returned, body, scope = (kinds.pop(name, None) for name in ("return", "body", "scope"))
        fields = [(name, kind, defaults.get(name, msgspec.NODEFAULT)) for name, kind in kinds.items()]
        return Operation(
            method=method,
            path=path,
            role=role,
            status=status,
            failures=failures,
            media_type=media_type,
            call=call,
            answer=returned if answer is None else answer,
            body=body,
            takes_scope=scope is not None,
            arguments=msgspec.defstruct(f"{call.__name__}_arguments", fields, kw_only=True, rename=HEADERS),
            places={HEADERS.get(name, name): _place(name, path) for name in kinds},
            lists=frozenset(
                name for name, kind in get_type_hints(call).items() if get_origin(kind) is Sequence
            ),
            defaults=frozenset(defaults),
        )

    return declared


def _place(name: str, path: str) -> str:
    if name in HEADERS:
        return "header"
    return "path" if f"{{{name}}}" in path else "query"
