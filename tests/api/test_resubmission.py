"""Requests that are made twice, and ended jobs that are submitted again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
from tests.api.stage import Stage, on_stage
from tests.live.test_platform import until

from swell.api import client as client_module
from swell.api.client import ApiError, Client, InvalidJob, NoPlatform
from swell.api.transport import Headers, HttpAnswer, Transport
from swell.model.event import Outcome
from swell.model.job import Phase


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with on_stage(tmp_path_factory.mktemp("site") / "state") as found:
        yield found


def url_of(stage: Stage) -> str:
    url = stage.client.endpoint.url
    assert url is not None
    return url


@pytest.fixture
def http(stage: Stage) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url_of(stage), trust_env=False) as client:
        client.headers["Authorization"] = f"Bearer {stage.folder.read_token()}"
        yield client


def body(script: Path, **changes: object) -> dict[str, object]:
    given = {"script": str(script), "workdir": str(script.parent), "global_batch": 8, "steps": 100}
    return given | {"workers": 2, "deadline": "now+1h", "class": "soft"} | changes


def test_a_key_answers_the_same_request_with_the_same_job(
    stage: Stage, http: httpx.Client, script: Path
) -> None:
    """A relative deadline is another moment the second time, and the same request all the same."""
    answers = [
        http.post("/v1/jobs", json=body(script), headers={"Idempotency-Key": "first"}) for _ in range(3)
    ]
    assert [answer.status_code for answer in answers] == [201, 200, 200]
    (job_id,) = {answer.json()["id"] for answer in answers}
    other = http.post("/v1/jobs", json=body(script, steps=7), headers={"Idempotency-Key": "first"})
    assert other.status_code == 409
    assert f"was used before, for job '{job_id}', with another request" in other.json()["error"]
    assert http.post("/v1/jobs", json=body(script)).status_code == 201
    for key in ("", "x" * 201, "a b"):
        bad = http.post("/v1/jobs", json=body(script), headers={"Idempotency-Key": key})
        assert bad.status_code == 422 and "1 to 200 printable" in bad.json()["error"]
    assert http.post(f"/v1/jobs/{job_id}/cancel").status_code == 202
    until(lambda: stage.client.job(job_id).phase.is_end)
    kinds = [http.post(f"/v1/jobs/{job_id}/retry", headers={"Idempotency-Key": "again"}) for _ in range(2)]
    assert [answer.status_code for answer in kinds] == [201, 200]


def _breaking(stage: Stage, times: int, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Of a line that breaks after the request has arrived, so many times."""
    line = Transport(stage.folder, stage.client.endpoint)
    whole, breaks = line._request, iter(range(times))

    def request(
        method: str, target: str, headers: Headers, content: bytes | None, within_s: float
    ) -> HttpAnswer:
        answer = whole(method, target, headers, content, within_s)
        if next(breaks, None) is not None:
            raise ConnectionError("the line broke")
        return answer

    monkeypatch.setattr(line, "_request", request)
    return Client(line)


def test_a_client_whose_line_breaks_asks_again_and_has_one_job(
    stage: Stage, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(stage.client.jobs())
    with _breaking(stage, 1, monkeypatch) as client:
        job_id = client.submit(script=script, global_batch=8, steps=100, workers=2)
    assert [job.id for job in stage.client.jobs()[before:]] == [job_id]


def test_a_client_that_hears_nothing_says_how_to_ask_again(
    stage: Stage, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "RETRY_WITHIN_S", 0.0)
    with (
        _breaking(stage, 1, monkeypatch) as client,
        pytest.raises(
            NoPlatform,
            match=r"unknown whether the job was submitted: submit it again with the key mine \(--key\)",
        ),
    ):
        client.submit(script=script, global_batch=8, steps=100, workers=2, key="mine")
    before = stage.client.jobs()
    assert (
        stage.client.submit(script=script, global_batch=8, steps=100, workers=2, key="mine") == before[-1].id
    )
    assert len(stage.client.jobs()) == len(before)


# ------------------------------------------------------------ retry and continue
def end(stage: Stage, script: Path, outcome: Outcome = Outcome.FAILED, **fields: object) -> str:
    """A job of two workers that has ended."""
    job_id = stage.run(script, workers=1, **fields)
    stage.hands.deliver(stage.hands.ended(job_id, outcome))
    until(lambda: stage.client.job(job_id).phase.is_end)
    return job_id


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Stage]:
    with on_stage(tmp_path / "state") as found:
        yield found


def test_a_retry_is_the_same_job_again(alone: Stage, script: Path) -> None:
    old = end(alone, script, name="a", seed=7, args=["--lr", "0.1"], tenant="vision")
    new = alone.client.retry(old)
    before, after = alone.platform.submission(old), alone.platform.submission(new)
    assert new != old and after.spec == msgspec.structs.replace(before.spec, run_id=old)
    assert (after.origin.continues, after.origin.retries) == ("", old)


def test_a_retry_may_be_on_another_kind_that_the_platform_has(alone: Stage, script: Path) -> None:
    old = end(alone, script)
    kind = alone.platform.cluster().nodes[0].kind
    assert alone.platform.submission(alone.client.retry(old, kind=kind)).spec.kind == kind
    with pytest.raises(InvalidJob, match="asks for devices of kind 'a100'; the platform has cpu"):
        alone.client.retry(old, kind="a100")
    with pytest.raises(InvalidJob, match="cannot be a kind of device"):
        alone.client.retry(old, kind="")


def test_a_job_goes_on_from_its_last_sound_checkpoint(alone: Stage, script: Path) -> None:
    old = end(alone, script)
    with pytest.raises(ApiError, match=rf"no sound checkpoint .*swell retry {old}"):
        alone.client.continue_job(old)
    folder = alone.folder.jobs / old / "checkpoints"
    folder.mkdir()
    (folder / f"step-{60:012d}.{hashlib.sha256(b'state').hexdigest()}.pt").write_bytes(b"state")
    new = alone.client.continue_job(old)
    assert alone.client.job(new).continues == old
    assert [file.read_bytes() for file in (alone.folder.jobs / new / "checkpoints").iterdir()] == [b"state"]
    assert alone.platform.submission(new).origin.steps == 60
    alone.client.cancel(new)
    until(lambda: alone.client.job(new).phase.is_end)
    assert alone.platform.submission(alone.client.retry(new)).spec.run_id == old


def test_a_deadline_that_has_passed_must_be_given_again(
    alone: Stage, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = alone.platform.now_s()
    absolute = end(alone, script, deadline=now_s + 600, job_class="soft")
    relative = end(alone, script, deadline="now+10m", job_class="soft")
    monkeypatch.setattr(alone.platform, "now_s", lambda: now_s + 3600)
    with pytest.raises(
        InvalidJob, match=rf"deadline: the deadline of job '{absolute}' has passed.*--deadline now\+10m"
    ):
        alone.client.retry(absolute)
    with pytest.raises(InvalidJob, match=r"is .* in the past"):
        alone.client.retry(absolute, deadline=now_s + 700)
    new = alone.client.retry(absolute, deadline="now+1h")
    assert alone.client.job(new).deadline_s == pytest.approx(now_s + 7200)
    again = alone.client.retry(relative)
    assert alone.client.job(again).deadline_s == pytest.approx(now_s + 4200, abs=5)


def test_what_is_not_over_or_has_succeeded_is_left_alone(alone: Stage, script: Path) -> None:
    won = end(alone, script, Outcome.SUCCEEDED)
    running = alone.run(script, workers=1)
    for ask in (alone.client.retry, alone.client.continue_job):
        with pytest.raises(
            ApiError, match=rf"'{won}' has succeeded: (retry|continue) is for jobs that failed"
        ):
            ask(won)
        with pytest.raises(ApiError, match=rf"'{running}' is running: .*swell cancel {running}"):
            ask(running)
    assert alone.client.job(running).phase is Phase.RUNNING


def test_a_restart_job_goes_on_by_itself(alone: Stage, script: Path) -> None:
    job_id = alone.client.submit(script=script, elasticity="restart", workers=1)
    until(lambda: alone.client.job(job_id).phase is Phase.RUNNING)
    alone.client.cancel(job_id)
    until(lambda: alone.client.job(job_id).phase.is_end)
    assert alone.client.job(alone.client.continue_job(job_id)).continues == job_id
