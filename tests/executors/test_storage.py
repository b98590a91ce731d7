"""The folder that all machines of a platform have in common, on a file server that may be away."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from swell.executors import storage as storage_module
from swell.executors.storage import MARK_FILE, why_not_shared, write_mark


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(storage_module, "ANSWER_S", 0.1)
    (tmp_path / "jobs").mkdir()
    return tmp_path


def test_a_storage_that_does_not_answer_keeps_no_head_waiting(
    storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_back = threading.Event()
    monkeypatch.setattr(storage_module, "write_whole", lambda path, content: is_back.wait(30))
    with pytest.raises(OSError, match=r"does not answer within 0\.1 s"):
        write_mark(storage)
    is_back.set()


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
