"""What-if on the page, asked of a head that decides; and jobs that are submitted from it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tests.api.fake_control import FakeControl
from tests.api.stage import Stage, on_stage
from tests.api.test_what_if import ONE
from tests.live.test_platform import until
from tests.page.opened_page import OpenedPage, opened_page
from tests.store.views import job_view

from swell.api.access import Access
from swell.api.caller import Role
from swell.api.page.apart import answer
from swell.api.page.forecast_rows import forecast_of, forecast_rows, forecast_totals, notes
from swell.api.page.question import Answer, HandedQuestion, Question
from swell.api.page.questions import QuestionRefused, Questions
from swell.api.page.what_if_page import MOST_CHOICES, command_line
from swell.settings import Settings
from swell.store.folder import StateFolder

#: Waits until its input ends, which it does not, and then for ever.
SLOW = (sys.executable, "-c", "import sys, time; sys.stdin.read(); time.sleep(600)")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("work") / "train.py"
    path.write_text("print('one step')\n")
    return path


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, script: Path) -> Iterator[Stage]:
    with on_stage(tmp_path_factory.mktemp("platform") / "state") as stage:
        for _ in range(2):
            stage.run(script, steps=1_000_000, **ONE)
        yield stage


@pytest.fixture(scope="module")
def page(stage: Stage) -> Iterator[OpenedPage]:
    with opened_page(stage.platform, stage.folder.path) as page:
        yield page


@pytest.fixture
def client(page: OpenedPage) -> Iterator[httpx.Client]:
    with page.browser() as client:
        yield client


def job_text(script: Path, **fields: object) -> str:
    known = {"script": script.name, "global_batch": 8, "steps": 100} | fields
    return "".join(f"{name}: {value}\n" for name, value in known.items())


def asked(client: httpx.Client, **question: Any) -> tuple[int, str]:
    """Status, and the answer or what was wrong."""
    answer = client.post("/page/what-if", json=question)
    told = answer.json()
    return answer.status_code, told.get("html") or told["error"]


@pytest.mark.slow
def test_both_futures_stand_beside_each_other_and_nothing_is_changed(
    client: httpx.Client, stage: Stage, script: Path
) -> None:
    state, written = stage.client.head_state(), stage.written()
    text = job_text(script, name="bold", deadline="now+2s")
    status, html = asked(
        client, policy="srtf", add_nodes=1, text=text, folder=str(script.parent), file_name="nightly run.yaml"
    )
    assert status == 200
    assert html.count("<tr class=") >= 4 and "bold <small>new</small>" in html
    assert '<th scope="row">Devices</th><td>2' in html and '<td class="then">4' in html
    assert "--policy srtf --add-nodes 1 --submit &#39;nightly run.yaml&#39; --state" in html
    assert (stage.client.head_state(), stage.written()) == (state, written)


def test_a_node_is_taken_away_and_another_deadline_asked_for(stage: Stage) -> None:
    first, second = (job.id for job in stage.client.jobs())
    question = Question(drain=("node0",), deadlines=((first, "now+1s"),))
    told = forecast_of(answer(HandedQuestion(state=str(stage.folder.path), question=question)))
    rows = forecast_rows(told)
    assert [row.id for row in rows] == [first, second]
    assert [row.then.text for row in rows] == ["never ends", "never ends"]
    (note,) = notes(told)
    assert note.job_id == first and note.text.startswith("its other deadline is refused: ")
    totals = {row.name: (row.now, row.then, row.trend) for row in forecast_totals(told)}
    assert totals["Devices"] == (2, 0, "other") and totals["Policy"][2] == "same"


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ({"policy": "best"}, "there is no policy 'best'; choose one of"),
        ({"add_nodes": -1}, "nodes to add: -1 is not between 0 and 1,000,000"),
        ({"add_nodes": 999_999}, "can be simulated"),
        ({"drain": ["moon"]}, "there is no node 'moon'; choose from node0"),
        ({"deadlines": [["gone", "now+1m"]]}, "no job has the id or name 'gone'"),
        ({"text": "script: [", "file_name": "/etc/a.yaml"}, "/a.yaml, line 1: malformed YAML"),
        ({"text": "steps: 5", "folder": "home"}, "folder 'home' is not absolute"),
        ({"text": "name: x\nglobal_batch: 8\nsteps: 5\n", "folder": "/a"}, "/a/job.yaml, line 1"),
        ({"text": "env: {HOME: }\nglobal_batch: 8\n"}, "line 1: env: 'HOME' has no value"),
        ({"text": "[]"}, "holds no job"),
    ],
)
def test_what_cannot_be_is_named_with_the_remedy(stage: Stage, question: dict[str, Any], told: str) -> None:
    """In this process: another one for each would take seconds."""
    task = HandedQuestion(state=str(stage.folder.path), question=msgspec.convert(question, Question))
    assert told in answer(task).error


def test_a_fault_comes_with_a_status(client: httpx.Client) -> None:
    told = "nodes to add: -1 is not between 0 and 1,000,000; choose another"
    assert asked(client, add_nodes=-1) == (422, told)
    for question, told in (({}, "nothing would be different"), ({"nodes": 3}, "the form cannot be read")):
        status, error = asked(client, **question)
        assert status == 422 and told in error


def test_names_are_text_on_the_form_and_in_the_answer(tmp_path: Path) -> None:
    control = FakeControl(tmp_path)
    control.put(job_view(id="<i>-1", name="<i>"))
    with opened_page(control, tmp_path) as page, page.browser() as client:
        assert "<i>" not in client.get("/what-if").text
        assert '<option value="&lt;i&gt;-1">&lt;i&gt;</option>' in client.get("/what-if").text


def test_a_job_that_is_not_offered_can_be_named(tmp_path: Path) -> None:
    control = FakeControl(tmp_path)
    for number in range(MOST_CHOICES + 1):
        control.put(job_view(id=f"job-{number:03}", submitted_s=1_800_000_000.0 + number))
    with opened_page(control, tmp_path) as page, page.browser() as client:
        text = client.get("/what-if").text
    assert '<input id="deadline-job" list="open-jobs"' in text
    offered = text.partition('<datalist id="open-jobs">')[2].partition("</datalist>")[0]
    assert offered.count("<option") == MOST_CHOICES and "job-000" not in offered
    assert f"any open job; the newest {MOST_CHOICES} are offered" in text


def test_a_question_that_takes_too_long_is_ended_and_a_second_one_waits(tmp_path: Path) -> None:
    questions = Questions(limit_s=2.0, command=SLOW)
    task = HandedQuestion(state=str(tmp_path), question=Question(policy="fifo"))
    found: list[str] = []
    asking = threading.Thread(target=lambda: found.append(questions.ask("one", task).error))
    asking.start()
    until(lambda: questions.is_asking("one"))
    with pytest.raises(QuestionRefused, match="the last question of this page is still being answered"):
        questions.ask("one", task)
    asking.join()
    assert found[0].startswith("the forecast took longer than 2 s and was stopped; ask on the command line")
    assert not questions.is_asking("one"), "the next question is answered again"


def test_a_process_that_fails_is_said_to_have_failed(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "raise SystemExit('no room')")
    told = Questions(command=command).ask("one", HandedQuestion(state=str(tmp_path), question=Question()))
    assert "failed (no room)" in told.error


def test_a_job_file_is_read_by_the_code_of_submit_and_submitted_by_its_intake(
    client: httpx.Client, stage: Stage, script: Path
) -> None:
    known = f"script: {script.name}, global_batch: 8, steps: 5"
    text = f"- {{{known}, name: one}}\n- {{{known}, name: two, class: soft, deadline: now+1h}}\n"
    told = client.post("/page/job-file", json={"text": text, "folder": str(script.parent)})
    assert told.status_code == 200
    jobs = told.json()["jobs"]
    assert [job["name"] for job in jobs] == ["one", "two"] and jobs[1]["class"] == "soft"
    for _ in range(2):  # asked again after a lost answer
        answers = [
            client.post("/v1/jobs", json=job, headers={"Idempotency-Key": f"k/{n}"})
            for n, job in enumerate(jobs)
        ]
    assert [answer.status_code for answer in answers] == [200, 200]
    ids = [answer.json()["id"] for answer in answers]
    assert [stage.client.job(job_id).name for job_id in ids] == ["one", "two"]
    assert stage.client.job(ids[0]).entry == str(script)
    for job_id in ids:
        stage.client.cancel(job_id)


@pytest.mark.parametrize(("zone", "hour"), [("America/New_York", 17), ("Asia/Tokyo", 3), ("no/zone", 12)])
def test_times_are_of_the_zone_of_who_asks(script: Path, zone: str, hour: int) -> None:
    """Whatever the platform's own: here UTC."""
    text = job_text(script, deadline="2080-01-31T12:00:00")
    question = Question(text=text, folder=str(script.parent), zone=zone)
    done = subprocess.run(
        [sys.executable, "-m", "swell.api.page.apart", "30"],
        input=msgspec.json.encode(HandedQuestion(state="", question=question)),
        capture_output=True,
        env={**os.environ, "TZ": "UTC"},
        check=True,
    )
    (job,) = msgspec.json.decode(done.stdout, type=Answer).jobs
    at = datetime.fromisoformat(str(job.deadline)).astimezone(UTC)
    assert (at.hour, at.minute) == (hour, 0)


def test_one_wrong_job_of_a_file_and_none_is_submitted(script: Path) -> None:
    text = f"- {{script: {script}, global_batch: 8, steps: 5}}\n- {{script: {script}, global_batch: 8}}\n"
    told = answer(HandedQuestion(state="", question=Question(text=text)))
    assert "line 2: steps: no end condition given" in told.error and not told.jobs


def test_who_may_view_asks_and_does_not_submit(stage: Stage, tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "users")
    folder.create()
    access = Access.of(folder, Settings())
    viewer = access.users.find(access.users.add("vera", Role.VIEW))
    assert viewer is not None
    with opened_page(stage.platform, stage.folder.path, access) as page, page.browser(viewer) as client:
        assert "Submit this job" not in client.get("/what-if").text
        assert asked(client) == (
            422,
            "nothing would be different: choose a policy, nodes, a deadline or a job",
        )
        for path in ("/page/job-file", "/page/what-if"):
            refused = client.post(path, json={"text": "steps: 5"})
            assert refused.status_code == 403 and "your role is to view" in refused.json()["error"]


def test_without_the_token_of_the_page_nothing_is_asked(client: httpx.Client) -> None:
    for path in ("/page/what-if", "/page/job-file"):
        assert client.post(path, json={}, headers={"X-Swell-CSRF": "wrong"}).status_code == 403


def test_submit_leads_to_the_form(client: httpx.Client) -> None:
    answer = client.get("/submit")
    assert (answer.status_code, answer.headers["location"]) == (303, "/what-if#job")


def test_the_command_asks_the_same() -> None:
    question = Question(
        policy="fifo", add_nodes=2, kind="a b", drain=("n 1",), deadlines=(("j", "now+1m"),), text="x"
    )
    words = shlex.split(command_line(question, StateFolder(None).path))
    assert words[:4] == ["swell", "what-if", "--policy", "fifo"]
    assert words[4:8] == ["--add-nodes", "2", "--kind", "a b"]
    assert words[8:] == ["--drain", "n 1", "--deadline", "j=now+1m", "--submit", "job.yaml"]
