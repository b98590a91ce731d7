"""`swell doctor`, `backup`, `restore`, `retry` and `continue` as their users have them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.store.views import BATCHES, job_view

from swell.cli import main
from swell.executors.node.state import HOST_FILE
from swell.model.job import Phase
from swell.scheduler import new_core
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal


@pytest.fixture
def down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    """The state folder of a platform that is down."""
    folder = StateFolder(tmp_path / "state")
    folder.create()
    folder.ensure_token()
    journal = SqlJournal(folder.journal)
    journal.append(BATCHES[0])
    journal.close()
    monkeypatch.setenv("SWELL_STATE", str(folder.path))
    return folder


def test_doctor_says_what_is_bad_and_ends_with_1(
    down: StateFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["doctor"]) == 0
    assert "BAD" not in capsys.readouterr().out
    down.journal.write_bytes(b"?" * 4096)
    assert main.run(["doctor"]) == 1
    out = capsys.readouterr().out
    assert f"BAD   journal: {down.journal} is damaged (file is not a database)\n" in out
    assert f"-> `swell restore COPY --state {down.path}` goes back to a copy" in out
    assert main.run(["doctor", "--json"]) == 1
    assert '"level": "bad"' in capsys.readouterr().out


def test_doctor_says_that_no_host_runs_where_one_has_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder of a host is found beside that of the platform, which is not there."""
    monkeypatch.setenv("SWELL_STATE", str(tmp_path / "none"))
    folder = tmp_path / "none-node"
    folder.mkdir(mode=0o700)
    (folder / HOST_FILE).write_text('{"machine":"abc"}')
    assert main.run(["doctor"]) == 0
    out = capsys.readouterr().out
    assert f"OK    folder: only you can read {folder}\n" in out and "OK    disk: " in out
    assert "WARN  host: none runs with this folder: this machine works for no platform\n" in out


def test_doctor_looks_at_the_machine_though_there_is_no_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWELL_STATE", str(tmp_path / "none"))
    assert main.run(["doctor", "--json"]) == 1
    about = [finding["about"] for finding in msgspec.json.decode(capsys.readouterr().out)]
    assert about[0] == "folder"
    assert {"devices", "torch", "trial runs", "disk", "shared memory"} <= set(about)
    assert not (tmp_path / "none").exists()


def test_a_copy_is_made_and_put_back(
    down: StateFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, secret = tmp_path / "copy.db", down.ensure_webhook_secret()
    assert main.run(["admin", "backup", str(copy)]) == 0
    out = capsys.readouterr().out
    assert f"copied the journal and webhook-secret of {down.path}" in out
    assert f"{copy} holds secrets " in out and "not included: " in out
    down.webhook_secret.write_text("another")
    down.journal.write_bytes(b"?" * 4096)
    assert main.run(["restore", str(copy)]) == 0
    out = capsys.readouterr().out
    assert "journal.db.before-restore-" in out and "webhook-secret.before-restore-" in out
    assert "receivers need to know it" in out and down.ensure_webhook_secret() == secret
    assert main.run(["doctor"]) == 0
    assert main.run(["admin", "backup", str(copy)]) == 1
    assert "is there already" in capsys.readouterr().err
    assert main.run(["restore", str(tmp_path / "none")]) == 1
    assert "there is no file" in capsys.readouterr().err


def test_a_mistyped_file_leaves_nothing_behind(
    down: StateFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main.run(["admin", "backup", str(tmp_path / "none" / "copy.db")]) == 1
    assert f"there is no folder {tmp_path / 'none'}; make it" in capsys.readouterr().err
    monkeypatch.setenv("SWELL_STATE", str(tmp_path / "other"))
    assert main.run(["restore", str(tmp_path)]) == 1
    assert (
        f"{tmp_path} has no sound copy (no file there is called swell-*.db); give a folder of"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "other").exists()


def test_an_ended_job_without_a_folder_is_told_and_taken_off_the_list(
    down: StateFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = SqlJournal(down.journal)
    journal.fold(new_core().save())
    journal.keep([job_view(id="gone-1", name="gone", phase=Phase.FAILED, finished_s=1e9)])
    journal.close()
    assert main.run(["doctor"]) == 0
    assert (
        "1 ended jobs no longer have a folder: gone-1; `swell admin prune gone-1`" in capsys.readouterr().out
    )
    assert main.run(["admin", "prune", "lost"]) == 2
    assert "'lost'; no platform is up, and the job has not ended" in capsys.readouterr().err
    assert main.run(["admin", "prune", "gone"]) == 0
    assert "gone-1" in capsys.readouterr().out
    assert main.run(["doctor"]) == 0
    assert "gone-1" not in capsys.readouterr().out
