"""`swell doctor`, `backup`, `restore`, `retry` and `continue` as their users have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.fake_control import FakeControl
from tests.cli.conftest import Run
from tests.store.contract import BATCHES

from swell.cli import main
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
    assert f"-> `swell doctor --salvage --state {down.path}`" in out
    assert main.run(["doctor", "--json"]) == 1
    assert '"level": "bad"' in capsys.readouterr().out
    assert main.run(["doctor", "--salvage"]) == 1
    assert "nothing can be read" in capsys.readouterr().err


def test_a_copy_is_made_and_put_back(
    down: StateFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy.db"
    assert main.run(["backup", str(copy)]) == 0
    assert "not in it: what is in" in capsys.readouterr().out
    down.journal.write_bytes(b"?" * 4096)
    assert main.run(["restore", str(copy)]) == 0
    assert "journal.db.before-restore-" in capsys.readouterr().out
    assert main.run(["doctor"]) == 0
    assert main.run(["backup", str(copy)]) == 1
    assert "is there already" in capsys.readouterr().err
    assert main.run(["restore", str(tmp_path / "none")]) == 1
    assert "there is no file" in capsys.readouterr().err


def test_an_ended_job_is_submitted_again(here: Run, control: FakeControl, script: Path) -> None:
    told = here("submit", "--script", script, "--global-batch", 64, "--steps", 9, "--name", "again").stdout
    old = told.split(":")[0]
    refused = here("retry", old)
    assert refused.returncode == 1 and f"swell cancel {old}" in refused.stderr
    here("cancel", old)
    new = here("retry", old).stdout.split(":")[0]
    assert new != old and control.specs[new] == control.specs[old]
    here("cancel", new)
    last = here("continue", new).stdout.split(":")[0]
    assert control.submission(last).origin.continues == new
