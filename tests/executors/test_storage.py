"""The folder that all machines of a platform have in common, on a file server that may be away."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from swell.executors import storage as storage_module
from swell.executors.local.agent.run_logs import RunLogs
from swell.executors.local.logs.files import TRIAL
from swell.executors.storage import MARK_FILE, why_not_shared, write_mark


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(storage_module, "ANSWER_S", 0.1)
    (tmp_path / "jobs").mkdir()
    return tmp_path


def test_a_storage_that_does_not_answer_keeps_no_host_waiting(storage: Path) -> None:
    os.mkfifo(storage / MARK_FILE)  # nobody writes there: to read it waits
    why = why_not_shared(storage, "mark")
    (storage / MARK_FILE).write_text("mark")
    assert why == f"the storage {storage} cannot be used on this machine (it does not answer within 0.1 s)"


def test_a_storage_that_cannot_be_written_is_refused(storage: Path) -> None:
    mark = write_mark(storage)
    assert why_not_shared(storage, mark) == ""
    (storage / "jobs").rmdir()
    assert "no such folder" in why_not_shared(storage, mark)
    assert "another folder" in why_not_shared(storage, "mark")


@pytest.mark.parametrize("is_tail_wanted", [True, False])
def test_a_worker_has_ended_though_the_storage_does_not_show_its_log(
    storage: Path, monkeypatch: pytest.MonkeyPatch, is_tail_wanted: bool
) -> None:
    def fail(*asked: object, **how: object) -> object:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    logs = RunLogs(storage / "jobs", TRIAL)
    monkeypatch.setattr(os, "listdir", fail)
    monkeypatch.setattr(Path, "exists", fail)
    assert logs.end(0, is_tail_wanted) == ""
