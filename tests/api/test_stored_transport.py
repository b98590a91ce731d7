"""After `swell down`: what the state folder tells of jobs, and that reading changes nothing in it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.api.stage import journal_bytes, on_stage
from tests.full_disk import mounted
from tests.live.test_platform import until
from tests.store.views import curve_report
from typer.testing import CliRunner

from swell.api.client import Client, NoPlatform, UnknownJob, connect
from swell.api.stored_transport import read_stored
from swell.cli.main import app
from swell.executors.local.logs.files import LEADERS, WORKER, log_path
from swell.model.event import Outcome
from swell.model.job import Phase
from swell.store.folder import StateFolder

READ = {
    ("jobs",): "open-",
    ("jobs", "--all"): "won",
    ("show", "won"): "100 of 100",
    ("explain", "won"): "succeeded",
    ("metrics", "won", "--csv"): ",loss,",
    ("logs", "won"): "a line of won",
}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[StateFolder, dict[str, object]]:
    """A state folder after `swell down`, and what its platform told last of a job that has ended."""
    root = tmp_path_factory.mktemp("left")
    script = root / "train.py"
    script.write_text("print('training')\n")
    with on_stage(root / "state") as stage:
        job_id = stage.run(script, workers=1, name="won", group="g")
        generation = stage.hands.gangs[job_id]
        stage.hands.deliver(curve_report(job_id, 1, [0.5, 0.25], generation=generation))
        until(lambda: bool(stage.client.metrics(job_id).series))
        stage.hands.deliver(stage.hands.ended(job_id, Outcome.SUCCEEDED))
        until(lambda: stage.client.job(job_id).phase.is_end)
        log = log_path(stage.folder.jobs / job_id, WORKER, 0)
        log.write_text("a line of won\n")
        (log.parent / LEADERS).write_text("0 0\n")
        told = {
            "job": stage.client.job(job_id),
            "stories": stage.client.stories(job_id),
            "metrics": stage.client.metrics(job_id),
            "logs": stage.client.logs(job_id),
            "counts": stage.client.count_jobs(),
        }
        stage.run(script, workers=1, name="open")
        return StateFolder(root / "state"), told


def stored(path: Path) -> Client:
    with pytest.raises(NoPlatform) as raised:
        connect(path)
    return read_stored(path, raised.value)


def test_jobs_that_have_ended_are_told_of_as_before(left: tuple[StateFolder, dict[str, object]]) -> None:
    folder, told = left
    before = journal_bytes(folder)
    with stored(folder.path) as client:
        job_id = client.candidates("won")[0].id
        assert client.job(job_id) == told["job"]
        assert client.stories(job_id) == told["stories"]
        assert client.metrics(job_id) == told["metrics"]
        assert client.logs(job_id) == told["logs"]
        assert [view.name for view in client.jobs([Phase.SUCCEEDED])] == ["won"]
        assert client.jobs(limit=1)[0].name == "open"
        with pytest.raises(UnknownJob):
            client.job("none")
    assert journal_bytes(folder) == before


def test_an_open_job_is_told_of_as_it_was_left_and_what_needs_a_platform_is_refused(
    left: tuple[StateFolder, dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swell.api.client.RETRY_WITHIN_S", 0.0)
    with stored(left[0].path) as client:
        [view] = client.candidates("open")
        assert view.phase is Phase.QUEUED and view.estimated_finish_s is None
        assert client.count_jobs()[Phase.QUEUED] == 1
        for ask in (client.cancel, client.hold, client.retry, client.curve):
            with pytest.raises(NoPlatform, match="no platform is running"):
                ask(view.id)


@pytest.mark.parametrize("words", READ, ids=" ".join)
def test_commands_that_read_say_so_and_read(
    words: tuple[str, ...], left: tuple[StateFolder, dict[str, object]]
) -> None:
    done = CliRunner().invoke(app, [*words, "--state", str(left[0].path)])
    assert done.exit_code == 0
    assert "shown is what the state folder keeps" in done.stderr and READ[words] in done.stdout


def test_a_folder_on_a_read_only_disk_is_read(
    left: tuple[StateFolder, dict[str, object]], tmp_path: Path
) -> None:
    with mounted(tmp_path / "disk", 256 << 20) as disk:
        shutil.copytree(left[0].path, disk / "state", ignore=shutil.ignore_patterns("*.sock"))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for words, part in READ.items():
            done = CliRunner().invoke(app, [*words, "--state", str(disk / "state")])
            assert done.exit_code == 0 and part in done.stdout, done.stderr


def test_without_a_journal_there_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(NoPlatform):
        stored(tmp_path)
