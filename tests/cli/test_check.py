"""`swell check`, and what other commands say of findings."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import msgspec
import pytest
from tests.api.fake_control import FakeControl
from tests.cli.conftest import Run, run_swell
from tests.executors.forked_zygotes import fork_zygotes
from tests.store.views import job_view

from swell.cli import main
from swell.model.job import Phase
from swell.model.view import JobView
from swell.script_facts import ScriptFinding

pytest.importorskip("torch")

IDIOMS = Path(__file__).parents[1] / "train" / "scripts" / "idioms.py"
REFUSED = Path(__file__).parents[1] / "scripts" / "refused"
TOKENS = ScriptFinding(name="weighted-mean", text="the loss is a mean over tokens", place="/train.py:7")
DROPOUT = ScriptFinding(name="random-draws", text="dropout is drawn by worker", holds=False)
UNTRIED = ScriptFinding(name="not-resumed", text="going on was not tried", holds=False)


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`swell check` in this process. Its zygote is forked: an import of torch takes seconds."""
    fork_zygotes(monkeypatch)

    def run(*words: object) -> CompletedProcess[str]:
        status = main.run(["check", "--devices", "cpu", *map(str, words)])
        return CompletedProcess([str(word) for word in words], status, *capsys.readouterr())

    return run


@pytest.mark.slow
def test_a_script_that_is_right_passes_in_processes_of_their_own() -> None:
    done = run_swell("check", "--devices", "cpu", IDIOMS, "--", "plain")
    assert (done.returncode, done.stdout) == (
        0,
        "OK: same result on 1 and 2 workers\n",
    )


@pytest.mark.slow
def test_a_script_that_differs_is_told_where_and_what_to_change(check: Run) -> None:
    done = check(IDIOMS, "--", "class_weights_with_norm")
    assert done.returncode == 1
    assert "differs  weighted-mean" in done.stdout and "known    batch-statistics" in done.stdout
    assert "idioms.py:" in done.stdout and "weight=N" in done.stdout
    assert done.stdout.endswith("submitted with --accept-differences weighted-mean\n")


@pytest.mark.slow
def test_known_differences_alone_hold_nothing(check: Run) -> None:
    done = check(IDIOMS, "--json", "--", "dropout")
    assert done.returncode == 0
    [found] = json.loads(done.stdout)["findings"]
    assert (found["name"], found["holds"]) == ("random-draws", False)


@pytest.mark.slow
def test_a_check_leaves_the_folder_as_it_is_and_copies_no_large_file(
    check: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with Path("data.bin").open("wb") as data:
        data.truncate(2**40)  # no disk has room for copies of it
    lines = [
        "import runpy, sys",
        "open('log.txt', 'w').write('a line')",
        f"sys.path[0], sys.argv[1:] = {str(IDIOMS.parent)!r}, ['plain']",
        f"runpy.run_path({str(IDIOMS)!r}, run_name='__main__')",
    ]
    Path("train.py").write_text("\n".join(lines))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("api.sock")
        done = check("train.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(os.listdir()) == ["api.sock", "data.bin", "train.py"]
    assert os.listdir(tmp_path) == ["work"]


def test_a_script_that_never_calls_swell_is_told_at_once(check: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(600)\n")
    done = check(tmp_path / "train.py")
    assert (done.returncode, "never calls swell.train.elastic" in done.stderr) == (2, True), done


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loss_not_reduced", "two_steps_a_batch"])
def test_what_breaks_the_rules_of_the_loop_is_told_first(check: Run, name: str) -> None:
    done = check(REFUSED / f"{name}.py")
    assert done.returncode == 1
    assert f"{name}.py is to be changed: run.backward(" in done.stderr and "not checked" not in done.stderr
    assert re.search(rf"\({name}\.py:\d+\)\n$", done.stderr), done.stderr


@pytest.mark.slow
def test_what_a_trial_run_refuses_after_an_epoch_is_refused() -> None:
    done = run_swell("check", "--devices", "cpu", REFUSED / "growing_dataset.py")
    assert (done.returncode, done.stdout) == (1, "")
    assert "growing_dataset.py is to be changed: the loader's dataset has 36 samples now" in done.stderr


def test_a_loop_that_accumulates_batches_is_told_of_passes(check: Run) -> None:
    done = check(IDIOMS, "--", "accumulates")
    assert "max_local_batch=batch_size" in done.stderr


@pytest.fixture
def held(control: FakeControl) -> Iterator[JobView]:
    view = job_view(
        id="lm-1",
        name="lm",
        phase=Phase.RUNNING,
        finished_s=None,
        findings=(TOKENS, DROPOUT, UNTRIED),
        held_by=("weighted-mean",),
    )
    control.put(view)
    yield view


def test_show_keeps_what_the_trial_run_found(held: JobView, here: Run) -> None:
    shown = here("show", held.id).stdout
    assert "limited to 1 worker, weighted-mean at /train.py:7: the loss is a mean over tokens" in shown
    assert "known difference, random-draws: dropout is drawn by worker" in shown
    assert "not checked, not-resumed: going on was not tried" in shown


def test_the_owner_accepts_what_holds_a_job(held: JobView, here: Run) -> None:
    done = here("accept-differences", held.id, "weighted-mean")
    assert (done.returncode, done.stdout) == (0, "lm-1: may have more workers, as its policy decides\n")
    assert "accepted, weighted-mean at /train.py:7" in here("show", held.id).stdout


def test_submit_hands_on_what_is_accepted(control: FakeControl, here: Run, script: Path) -> None:
    options = ("--script", script, "--global-batch", 8, "--steps", 5, "--no-wait")
    names = ("--accept-differences", "sum-loss", "--accept-differences", "clip-in-loop")
    job_id = here("submit", *options, *names).stdout.partition(":")[0]
    assert control.specs[job_id].accept_differences == ("sum-loss", "clip-in-loop")


def test_a_job_that_is_submitted_again_keeps_what_its_owner_has_accepted(
    control: FakeControl, here: Run, script: Path
) -> None:
    options = ("--script", script, "--global-batch", 8, "--steps", 5, "--no-wait")
    job_id = here("submit", *options).stdout.partition(":")[0]
    ended = msgspec.structs.replace(control.job(job_id), phase=Phase.CANCELLED, findings=(TOKENS, DROPOUT))
    control.put(ended)
    again = here("retry", job_id, "--no-wait").stdout.partition(":")[0]
    assert control.specs[again].accept_differences == ("weighted-mean",)
