"""Waiting for jobs, the last lines of a log, phases as people type them, and what a shell proposes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.api.fake_control import FakeControl
from tests.cli.conftest import LIMIT_S, Run, plain_environ
from tests.eventually import eventually
from tests.store.views import job_view

from swell.model.job import Phase
from swell.model.view import JobView
from swell.store.folder import StateFolder

ENDS = {
    "good": Phase.SUCCEEDED,
    "bad": Phase.FAILED,
    "off": Phase.CANCELLED,
    "no": Phase.REJECTED,
}


@pytest.fixture
def ended(control: FakeControl) -> None:
    now_s = time.time()
    for name, phase in ENDS.items():
        control.put(
            job_view(
                id=f"{name}-1", name=name, phase=phase, finished_s=now_s, message="KeyError: 1", workers=0
            )
        )
    control.put(job_view(id="runs-1", name="runs", phase=Phase.RUNNING))
    control.put(job_view(id="held-1", name="held", phase=Phase.QUEUED, is_held=True, workers=0))
    control.put(job_view(id="new-1", name="new", phase=Phase.QUEUED, workers=0))


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize(
    ("names", "status"),
    [
        (("good",), 0),
        (("bad",), 1),
        (("no",), 3),
        (("off",), 4),
        (("good", "off", "no"), 3),
        (("no", "off", "bad", "good"), 1),
    ],
)
def test_the_exit_status_of_wait_tells_the_gravest_outcome(
    here: Run, names: tuple[str, ...], status: int
) -> None:
    done = here("wait", *names)
    assert done.returncode == status
    assert [line.split(":")[0] for line in done.stdout.splitlines() if not line.startswith(" ")] == [
        f"{name}-1" for name in names
    ]
    assert [view["id"] for view in json.loads(here("wait", *names, "--json").stdout)] == [
        f"{name}-1" for name in names
    ]


@pytest.mark.usefixtures("ended")
def test_wait_returns_when_the_job_ends_or_the_time_is_over(here: Run, control: FakeControl) -> None:
    late = here("wait", "runs", "good", "--timeout", "1s")
    assert late.returncode == 124 and "good-1: succeeded" in late.stdout
    assert here("wait", "runs", "--timeout", "soon").returncode == 2
    assert here("wait", "nobody").returncode == 2

    def end() -> None:
        control.put(replace(control.job("runs-1"), phase=Phase.SUCCEEDED, finished_s=time.time()))

    timer = threading.Timer(0.3, end)
    timer.start()
    done = here("wait", "runs")
    timer.join()
    assert (done.returncode, done.stdout.startswith("runs-1: succeeded")) == (0, True)


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (("--phase", "Running"), {"runs-1"}),
        (("--phase", "RUNNING"), {"runs-1"}),
        (("--phase", "pending"), {"new-1", "held-1"}),
        (("--phase", "held"), {"held-1"}),
        (("--phase", "held,running"), {"held-1", "runs-1"}),
        (("--phase", "Done,failed"), {"good-1", "bad-1"}),
        (("--phase", "canceled, refused"), {"off-1", "no-1"}),
        (("--phase", "finished"), {"good-1", "bad-1", "off-1", "no-1"}),
        (("--phase", "active"), {"runs-1"}),
    ],
)
def test_phases_are_understood_as_people_type_them(here: Run, words: tuple[str, ...], ids: set[str]) -> None:
    assert {view["id"] for view in json.loads(here("jobs", *words, "--json").stdout)} == ids


# ---------------------------------------------------------------- logs
def test_the_last_lines_of_a_log(here: Run, control: FakeControl) -> None:
    control.put(job_view(id="logged", name="logged", phase=Phase.RUNNING))
    path = control.log_dir("logged")
    path.mkdir(parents=True, exist_ok=True)
    log = path / "worker-0.log"
    log.write_text("".join(f"line {number}\n" for number in range(1000)))
    assert here("logs", "logged", "-n", 2).stdout == "line 998\nline 999\n"
    assert here("logs", "logged", "-n", 0).stdout == ""
    assert here("logs", "logged", "--lines", 5000).stdout.count("\n") == 1000
    assert here("logs", "logged").stderr == ""
    begin = log.stat().st_size
    (path / f"worker-0.log.{begin + 5000}").write_text("line 1000\n" * 200)
    shown = here("logs", "logged")
    assert shown.stdout.startswith("line 201\n") and shown.stdout.count("\n") == 1000
    assert "last 1,000 of 1,201 lines; `swell logs logged -n all` prints all" in shown.stderr
    shown = here("logs", "logged", "-n", "all")
    assert "line 999\n[swell: 5,000 bytes are left out here: see --log-limit]\nline 1000\n" in shown.stdout
    assert shown.stdout.startswith("line 0\n") and shown.stderr == ""
    (path / f"worker-0.log.{begin + 5000}").unlink()
    assert here("logs", "logged", "-n", "some").returncode == 2
    assert here("logs", "logged", "-n", 1, "--json").returncode == 2

    def go_on() -> None:
        with log.open("a") as file:
            file.write("line 1000\n")
        control.put(replace(control.job("logged"), phase=Phase.SUCCEEDED))

    timer = threading.Timer(0.5, go_on)
    timer.start()
    assert here("logs", "logged", "-n", 1, "--follow").stdout == "line 999\nline 1000\n"
    timer.join()


# ---------------------------------------------------------------- completion
@pytest.mark.usefixtures("ended")
def test_a_shell_proposes_commands_options_and_jobs(swell: Run) -> None:
    def proposed(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        return swell(_SWELL_COMPLETE="complete_bash", **words).stdout.split()

    assert proposed("swell re") == ["resume", "retry", "restore", "repro"]
    assert proposed("swell nodes d") == ["drain"]
    assert "--timeout" in proposed("swell wait --ti")
    assert set(proposed("swell show ne")) == {"new-1"}


def test_an_interrupt_of_a_submission_that_waits_tells_that_the_job_goes_on(
    folder: StateFolder, control: FakeControl, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undecided = job_view(phase=Phase.QUEUED, workers=0, is_promised=False, reason_code="profiling")
    monkeypatch.setattr(control, "_judged", lambda job_id, spec: replace(undecided, id=job_id))
    reads, read = list[str](), control.job

    def noted(job_id: str) -> JobView:
        reads.append(job_id)
        return read(job_id)

    monkeypatch.setattr(control, "job", noted)
    words = ["submit", str(script), "--global-batch", "8", "--steps", "9"]
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "swell.cli.main", *words],
        env=plain_environ() | {"SWELL_STATE": str(folder.path)},
        stderr=subprocess.PIPE,
        text=True,
    ) as waiting:
        eventually(lambda: len(reads) > 3)  # it asks again and again
        waiting.send_signal(signal.SIGINT)
        _, complaint = waiting.communicate(timeout=LIMIT_S)
    told = f"{reads[-1]} is submitted and goes on without this command; to cancel: swell cancel {reads[-1]}"
    assert (waiting.returncode, told in complaint.splitlines()) == (130, True)
    assert read(reads[-1]).phase is Phase.QUEUED
