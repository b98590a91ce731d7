"""Waiting for a daemon that does not answer yet."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import cast

import pytest

from swell.api.client import NoPlatform, connect_as_owner
from swell.api.errors import InvalidOption
from swell.cli import launch
from swell.store.folder import StateFolder
from swell.store.lock import lock_state


class SilentDaemon:
    """It lives, and never answers."""

    pid = 1
    now_s = 0.0

    def poll(self) -> None:
        """It lives."""

    def sleep(self, time_s: float) -> None:
        self.now_s += 100 * time_s


def test_one_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = SilentDaemon()
    monkeypatch.setattr(time, "monotonic", lambda: daemon.now_s)
    monkeypatch.setattr(time, "sleep", daemon.sleep)
    process = cast("subprocess.Popen[bytes]", daemon)
    with pytest.raises(InvalidOption, match="did not answer within 60 s; see"):
        launch._answering(StateFolder(tmp_path), process, launch.has_nodes, 0)


def test_other_commands_say_that_it_has_the_folder(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.create()
    with (
        lock_state(folder.lock),
        pytest.raises(NoPlatform, match=rf"pid {os.getpid()}\) does not answer: it"),
    ):
        connect_as_owner(folder.path)
    with pytest.raises(NoPlatform, match="start one with `swell up`"):
        connect_as_owner(folder.path)
