"""The API under requests made from its own document, and under bytes that are nearly requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import CheckFunction
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from starlette.applications import Starlette
from starlette.routing import Route
from tests.api.fake_control import FakeControl
from tests.store.views import job_view

from swell.api import connections as serving
from swell.api.connections import ApiServer
from swell.api.openapi import document
from swell.api.page.page import Page
from swell.api.server import create_app
from swell.api.unix_socket import listen
from swell.api.user_list import UserList
from swell.api.verbs import VERBS

#: What the document has of each is known at run time only.
Operation = APIOperation[Any, Any, Any, Any]
AnyCase = Case[Operation]

TOKEN = "t" * 40
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Host": "localhost"}
PATIENCE_S = 20.0
KNOWN = "known"

#: What fits the schema may be refused: a job has rules that no schema can tell, as of two fields together.
#: What does not fit may be accepted: the token is added to each request, an unknown parameter is ignored.
EXCLUDED: list[CheckFunction] = [positive_data_acceptance, negative_data_rejection]


#: Bodies of this kind are drawn as any bytes.
schemathesis.serializer.alias("application/msgpack", "application/octet-stream")


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> FakeControl:
    control = FakeControl(tmp_path_factory.mktemp("logs"))
    control.put(job_view(id=KNOWN, loss=float("nan"), metrics={"loss": float("inf"), "accuracy": 0.5}))
    control.log_dir(KNOWN).mkdir()
    (control.log_dir(KNOWN) / "worker-0.log").write_bytes(b"text \xff" * 20_000)
    return control


@pytest.fixture(scope="module")
def app(control: FakeControl) -> Starlette:
    return create_app(control, TOKEN, UserList(control.folder), page=Page(control, port=lambda: 7070))


@pytest.fixture(scope="module")
def described(app: Starlette) -> dict[str, Operation]:
    """Operations of the document by name, called without a socket."""
    schema = schemathesis.openapi.from_dict(document(VERBS))
    schema.app = app
    operations: dict[str, Operation] = {}
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operations[found.ok().definition.raw["operationId"]] = found.ok()
    return operations


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("work") / "train.py"
    path.write_text("print('training')\n")
    return path


def drawn(data: st.DataObject, operation: Operation, script: Path) -> AnyCase:
    """A request by the document, or against it; sometimes about a job or a script that there is."""
    mode = data.draw(st.sampled_from(GenerationMode))
    case: AnyCase = data.draw(operation.as_strategy(generation_mode=mode))
    if "job_id" in (case.path_parameters or {}) and data.draw(st.booleans()):
        case.path_parameters["job_id"] = KNOWN
    if isinstance(case.body, dict) and data.draw(st.booleans()):
        real = {"script": str(script), "workdir": str(script.parent), "global_batch": 64}
        case.body = case.body | data.draw(st.sampled_from([real, real | {"steps": 8, "entry": None}]))
    return case


def check_operation(operation: Operation, script: Path, num_examples: int) -> None:
    @settings(
        max_examples=num_examples, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        case = drawn(data, operation, script)
        answer = case.call(headers=HEADERS, timeout=PATIENCE_S)
        case.validate_response(answer, excluded_checks=EXCLUDED)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", [operation.name for operation in VERBS])
def test_every_answer_is_as_the_document_says(
    described: dict[str, Operation], script: Path, name: str
) -> None:
    check_operation(described[name], script, 30)


def test_the_document_is_given_to_who_has_the_token(app: Starlette, server: Path) -> None:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(server)), base_url="http://localhost") as http:
        assert http.get("/v1/openapi.json").status_code == 401
        assert http.get("/v1/openapi.json", headers=HEADERS).json() == json.loads(json.dumps(document(VERBS)))


# ---------------------------------------------------------------- bytes
@pytest.fixture(scope="module")
def server(app: Starlette, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a server with little patience."""
    path = tmp_path_factory.mktemp("server") / "api.sock"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "REQUEST_S", 0.2)
        api = ApiServer(app, listen(path))
        api.start()
        yield path
        api.stop()


def test_every_route_is_described(app: Starlette) -> None:
    paths = [route.path for route in app.routes if isinstance(route, Route)]
    assert {path for path in paths if path.startswith("/v1/")} | {"/metrics"} == set(document(VERBS)["paths"])
