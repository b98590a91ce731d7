"""A disk that does not answer holds nobody up."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from swell.live import disk_space
from swell.live.disk_space import DiskSpace, Space


def test_a_disk_that_does_not_answer_is_asked_by_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_space, "ANSWER_S", 0.05)
    answers, asked = threading.Event(), list[Path]()

    def look(path: Path) -> Space:
        asked.append(path)
        answers.wait(30)
        return Space(1, 2)

    disk = DiskSpace(tmp_path, look)
    assert [disk.look(), disk.look()] == [None, None] and len(asked) == 1
    monkeypatch.setattr(disk_space, "ANSWER_S", 30.0)
    answers.set()
    assert disk.look() == Space(1, 2)
