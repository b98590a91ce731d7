"""A command as a job of one size: what is submitted, and what is refused before it waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.live.parts import Hands, spec
from tests.live.test_platform import running, until
from tests.store.views import job_view

from swell.api import words
from swell.api.fields import InvalidField
from swell.api.intake import SubmissionCheck
from swell.api.job_file import load
from swell.api.submission import parse
from swell.cli.jobs import facts_in_order, row
from swell.cli.output import Times
from swell.live.job_checks import check_fixed, check_session
from swell.model.code import CodeLimits
from swell.model.errors import InvalidJob
from swell.model.event import Outcome
from swell.model.job import (
    FIXED_ENTRY,
    SESSION_ENTRY,
    AfterRefusal,
    Elasticity,
    FixedTerms,
    JobClass,
    JobSpec,
    Origin,
    Phase,
)
from swell.model.view import JobView
from swell.store.folder import StateFolder

NOW_S = 1_900_000_000.0
TORCHRUN = ("torchrun", "--nproc-per-node", "4", "train.py")


def fixed(folder: Path, **said: Any) -> JobSpec:
    given = {"command": list(TORCHRUN), "devices": 4, "time": "6h"} | said
    return parse({name: value for name, value in given.items() if value is not ...}).to_spec(NOW_S, folder)


def test_a_command_is_a_fixed_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/env/bin:/bin")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/cuda/lib64")
    made = fixed(tmp_path, env={"OMP_NUM_THREADS": 8})
    assert made == JobSpec(
        name="train",
        entry=FIXED_ENTRY,
        args=TORCHRUN,
        workdir=str(tmp_path),
        global_batch=1,
        min_workers=1,
        max_workers=1,
        devices_per_worker=4,
        elasticity=Elasticity.FIXED,
        fixed=FixedTerms(time_s=6 * 3600.0, retries=3),
        env=(("LD_LIBRARY_PATH", "/cuda/lib64"), ("OMP_NUM_THREADS", "8"), ("PATH", "/env/bin:/bin")),
    )
    whole = fixed(tmp_path, nodes=2, devices=6, grace="2m", may_suspend=True, name="b", env={"PATH": "/x"})
    assert (whole.min_workers, whole.max_workers, whole.devices_per_worker, whole.name) == (2, 2, 3, "b")
    assert whole.fixed == FixedTerms(time_s=21600.0, grace_s=120.0, may_suspend=True, retries=100)
    assert dict(whole.env)["PATH"] == "/x"
    assert fixed(tmp_path, devices=..., nodes=3, retries=2).devices_per_worker == 1
    assert fixed(tmp_path, retries=0).fixed == FixedTerms(time_s=21600.0)
    assert fixed(tmp_path, command="bash -c 'make all'").args == ("bash", "-c", "make all")
    commands = ("bash -c 'make all'", "sh eval.sh 1", "/opt/bin/tool.x", "python -m a.b")
    assert [fixed(tmp_path, command=one).name for one in commands] == ["bash", "eval", "tool", "python"]
    assert "PATH" not in dict(fixed(tmp_path, image="pytorch:2").env)


def test_a_session_has_a_terminal(tmp_path: Path) -> None:
    made = fixed(tmp_path, session=True, idle="30m", port=8888, command="jupyter lab")
    assert made.fixed == FixedTerms(time_s=21600.0, is_session=True, idle_s=1800.0, port=8888)
    assert (made.entry, made.name) == (SESSION_ENTRY, "jupyter")
    usual = fixed(tmp_path, session=True).fixed
    assert usual is not None and usual.idle_s == 3600.0


def test_the_open_sessions_of_a_user_have_room_and_names_of_their_own(tmp_path: Path) -> None:
    terms = FixedTerms(time_s=60.0, is_session=True)
    asked = spec(name="dev", devices_per_worker=2, fixed=terms)
    own = {"web-1": job_view(id="web-1", name="web", devices_per_worker=2, min_workers=1, fixed=terms)}
    check_session(asked, own, 4)
    with pytest.raises(InvalidJob, match="may have 3 devices together, and yours have 2 already"):
        check_session(asked, own, 3)
    with pytest.raises(InvalidJob, match=r"session 'web' is open .*`swell attach web-1`"):
        check_session(msgspec.structs.replace(asked, name="web"), own, 4)


def test_a_promise_is_asked_for_as_for_any_job(tmp_path: Path) -> None:
    strict = fixed(tmp_path, deadline="now+7h", or_nothing=True)
    assert (strict.job_class, strict.after_refusal) == (JobClass.STRICT, AfterRefusal.END)
    assert strict.deadline_s == pytest.approx(NOW_S + 7 * 3600)
    assert fixed(tmp_path, deadline="now+5h", **{"class": "soft"}).job_class is JobClass.SOFT
    nearer = fixed(tmp_path, deadline="now+22s", accept_until="now+9h")
    assert nearer.accept_until_s == pytest.approx(NOW_S + 9 * 3600)


def test_a_file_has_it_too(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "command: deepspeed {config}.py\ndevices: 2\ntime: 1h\nsweep:\n  config: [a, b]\n"
    )
    jobs = [job.to_spec(NOW_S) for job in load(tmp_path / "job.yaml")]
    assert [job.args for job in jobs] == [("deepspeed", "a.py"), ("deepspeed", "b.py")]
    assert {job.workdir for job in jobs} == {str(tmp_path)}
    longer = load(tmp_path / "job.yaml")[0].overridden({"time": "2h"}, tmp_path).to_spec(NOW_S)
    assert longer.fixed == FixedTerms(time_s=7200.0, retries=3)


@pytest.mark.parametrize(
    ("said", "field", "text"),
    [
        ({"time": ...}, "time", "missing; give the longest that the command may run"),
        ({"time": "6 hours"}, "time", "is not a duration"),
        ({"time": 0}, "time", "not more than 0"),
        ({"command": []}, "command", "missing; give a program"),
        ({"command": "bash -c 'make"}, "command", "no closing quotation; close it"),
        ({"command": ..., "elasticity": "fixed"}, "command", "missing; give a program"),
        ({"devices": 6, "nodes": 4}, "nodes", "6 devices cannot be divided equally among 4 nodes"),
        ({"devices": 0}, "devices", "0 is not between 1 and"),
        ({"grace": "2h"}, "grace", "'2h' is not between 0s and 1h"),
        ({"retries": -1}, "retries", "-1 is not between 0 and 10,000"),
        ({"workers": "1:4"}, "workers", "give devices and nodes instead"),
        ({"steps": 100}, "steps", "a fixed job runs its command as it is, at one size; remove it"),
        ({"code": "live"}, "code", "a fixed job runs its command as it is"),
        ({"hold_after_trial": True}, "hold_after_trial", "a fixed job runs its command as it is"),
        ({"script": "train.py"}, "script", "a fixed job has a command; put it there"),
        ({"python": "/bin/sh"}, "python", "the command names its own interpreter"),
        ({"env": {"CUDA_VISIBLE_DEVICES": 0}}, "env", "is set by Swell"),
        ({"command": ..., "script": __file__, "time": ...}, "devices", "only a fixed job has it"),
        ({"command": ..., "script": __file__, "devices": ...}, "time", "only a fixed job has it"),
        ({"idle": "5m"}, "idle", "only a session has it"),
        ({"port": 8888}, "port", "only a session has it"),
        ({"session": True, "nodes": 2}, "nodes", "a session has one part"),
        ({"session": True, "retries": 1}, "retries", "a session has one part"),
        ({"session": True, "may_suspend": True}, "may_suspend", "a session has one part"),
        ({"session": True, "idle": "0s"}, "idle", "'0s' is not between 1s and"),
        ({"session": True, "port": 70_000}, "port", "70000 is not between 1 and 65,535"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_means_nothing_is_refused(tmp_path: Path, said: dict[str, Any], field: str, text: str) -> None:
    with pytest.raises(InvalidField) as caught:
        fixed(tmp_path, **said)
    assert caught.value.field == field
    assert text in str(caught.value)


# ---------------------------------------------------------------- on this machine
@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "bin").mkdir(parents=True)
    for name, mode in (("bin/tool", 0o755), ("train.sh", 0o644)):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(mode)
    return folder


@pytest.mark.parametrize(
    ("command", "path", "text"),
    [
        ("bin/tool --fast", "/bin", ""),
        ("tool --fast", "bin:/bin", ""),
        ("{project}/bin/tool", "/bin", ""),
        ("tool", "/bin", "'tool' is no program on the PATH"),
        ("./bin/toool", "/bin", "'./bin/toool' is no program in the workdir"),
        ("./train.sh", "/bin", "'./train.sh' is a file that cannot be executed"),
        ("train.sh", "/bin", "'train.sh' is a file that cannot be executed"),
    ],
)
def test_a_command_that_is_not_there_is_told(
    tmp_path: Path, project: Path, command: str, path: str, text: str
) -> None:
    path = path.replace("bin:", f"{project}/bin:")
    asked = parse({"command": command.format(project=project), "time": "1h", "env": {"PATH": path}})
    submission = asked.anchored(project)
    made = submission.to_spec(NOW_S)
    intake = SubmissionCheck(StateFolder(tmp_path / "state"), CodeLimits())
    if text:
        with pytest.raises(InvalidField, match=f"command: {text}"):
            intake.prepare(submission, made, user="")
    else:
        prepared, kept = intake.prepare(submission, made, user="")
        assert (prepared, kept) == (made, None), "no copy of its files is made"


def test_a_host_that_joins_may_have_a_program_that_this_machine_lacks(tmp_path: Path, project: Path) -> None:
    intake = SubmissionCheck(StateFolder(tmp_path / "state"), CodeLimits(), hosts_may_join=True)
    for command, is_refused in (("no-such-tool", False), ("./no-such-tool", True)):
        submission = parse({"command": command, "time": "1h"}).anchored(project)
        if is_refused:
            with pytest.raises(InvalidField, match="no program in the workdir"):
                intake.prepare(submission, submission.to_spec(NOW_S), user="")
        else:
            intake.prepare(submission, submission.to_spec(NOW_S), user="")


# ---------------------------------------------------------------- on this platform
@pytest.mark.parametrize(
    ("devices", "parts", "nodes", "text"),
    [
        (4, 1, [4], ""),
        (2, 2, [4], ""),  # both parts on one node
        (4, 1, None, ""),  # others may come
        (8, 1, [4, 4], "8 devices, and the platform has 8, 4 on its largest node; .* with --nodes"),
        (3, 2, [4, 2], "3 devices on each of 2 nodes, and the platform has 6"),
        (1, 1, [], "the platform has 0"),
    ],
)
def test_more_devices_than_there_are(devices: int, parts: int, nodes: list[int] | None, text: str) -> None:
    asked = spec(min_workers=parts, devices_per_worker=devices, fixed=FixedTerms(time_s=60.0))
    if text:
        with pytest.raises(InvalidJob, match=text):
            check_fixed(asked, nodes, 0.0)
    else:
        check_fixed(asked, nodes, 0.0)


def test_a_longer_time_than_the_platform_lets_jobs_have(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidJob, match=r"asks for 6 h, and no job .* more than 5 h \(--set longest_time_s\)"
    ):
        check_fixed(fixed(tmp_path), [8], 5 * 3600.0)
    check_fixed(fixed(tmp_path), [8], 6 * 3600.0)


def test_a_platform_asks_its_nodes(tmp_path: Path) -> None:
    with (
        running(tmp_path, Hands()) as platform,
        pytest.raises(InvalidJob, match="4 devices, and the platform has 2"),
    ):
        platform.submit(fixed(tmp_path))


# ---------------------------------------------------------------- in words
def test_what_is_said_of_it() -> None:
    view = job_view(
        id="train-1",
        args=TORCHRUN,
        global_batch=1,
        phase=Phase.RUNNING,
        elasticity=Elasticity.FIXED,
        fixed=FixedTerms(time_s=21600.0, may_suspend=True, retries=3),
        min_workers=2,
        max_workers=2,
        devices_per_worker=2,
        workers=2,
        devices=("a/0", "a/1", "b/0", "b/1"),
        estimate_s=3 * 3600.0,
    )
    facts = dict(words.facts(view))
    assert facts["size"] == (
        "4 devices of 2 nodes for 6 h at most, may be suspended, starts again up to 3 times"
    )
    assert facts["estimate"] == "3 h, as its owner's earlier jobs of this name took"
    assert facts.keys().isdisjoint({"workers", "batch"})
    shown = dict(facts_in_order(view, Times(0.0)))
    assert shown["command"] == "torchrun --nproc-per-node 4 train.py"
    assert shown.keys().isdisjoint({"script", "steps", "resizes"})
    assert row(view, 0.0)["SIZE"] == "4 devices"
    ended = msgspec.structs.replace(view, phase=Phase.TIMED_OUT, deadline_s=50.0, finished_s=40.0, kept=False)
    assert words.ended_words(ended) == ["The promise was not kept: it timed out 10 s before the deadline."]


def test_how_long_it_took_is_expected_of_the_next_job_of_its_name_and_user(tmp_path: Path) -> None:
    hands, ann = Hands(), Origin(user="ann")
    with running(tmp_path, hands) as platform:

        def run(origin: Origin, name: str = "b") -> JobView:
            job_id = platform.submit(fixed(tmp_path, devices=1, name=name), origin).id
            until(lambda: platform.job(job_id).phase is Phase.RUNNING)
            view = platform.job(job_id)
            hands.deliver(msgspec.structs.replace(hands.ended(job_id, Outcome.SUCCEEDED), at_s=5.0))
            until(lambda: platform.job(job_id).phase is Phase.SUCCEEDED)
            return view

        first = run(ann)
        assert first.started_s
        assert first.estimate_s is None and first.estimated_finish_s == pytest.approx(
            first.started_s + 21600, abs=0.1
        )
        assert [run(Origin()).estimate_s, run(ann, "b2").estimate_s] == [None, None]
        second = run(ann)
        assert second.started_s and second.estimate_s == pytest.approx(5.0)
        assert second.estimated_finish_s == pytest.approx(second.started_s + 5.0, abs=0.1)
