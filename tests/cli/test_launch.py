"""Waiting for a daemon that has a long journal."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import cast

import pytest

from swell.api.client import NoPlatform, connect_as_owner
from swell.api.errors import InvalidOption
from swell.cli import launch
from swell.store.folder import Endpoint, RecoveryProgress, StateFolder

BATCHES = 40_000
READY = object()


class Daemon:
    """Gets on with its journal as time passes: `per_s` batches a second, up to `stuck_at`."""

    def __init__(self, folder: StateFolder, per_s: float, stuck_at: int = BATCHES) -> None:
        self.now_s, self._folder, self._per_s, self._stuck_at = 0.0, folder, per_s, stuck_at
        self.pid = Endpoint.of_this_process().pid

    def poll(self) -> None:
        """It lives."""

    def sleep(self, time_s: float) -> None:
        self.now_s += 100 * time_s
        num = min(int(self.now_s * self._per_s), self._stuck_at)
        note = RecoveryProgress(daemon=Endpoint.of_this_process(), num_handled=num, num_batches=BATCHES)
        self._folder.write_recovery(note)

    def ready(self, *_: object) -> object:
        return READY if self.now_s * self._per_s >= BATCHES else None


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path)


def wait_for(daemon: Daemon, folder: StateFolder, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(time, "monotonic", lambda: daemon.now_s)
    monkeypatch.setattr(time, "sleep", daemon.sleep)
    monkeypatch.setattr(launch, "_ready", daemon.ready)
    process = cast("subprocess.Popen[bytes]", daemon)
    return launch._answering(folder, process, launch.has_nodes, 0)


def test_a_daemon_has_time_as_long_as_it_gets_on(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = Daemon(folder, per_s=100.0)
    assert wait_for(daemon, folder, monkeypatch) is READY
    assert daemon.now_s >= 400.0 > launch.START_WITHIN_S


def test_one_that_gets_on_no_longer_is_given_up_where_it_is(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = Daemon(folder, per_s=100.0, stuck_at=12_000)
    daemon.ready = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(InvalidOption, match=r"within 60 s after 12,000 of 40,000 batches of its journal"):
        wait_for(daemon, folder, monkeypatch)
    assert 120.0 + launch.START_WITHIN_S <= daemon.now_s < 200.0


def test_other_commands_say_how_far_it_is(folder: StateFolder) -> None:
    folder.create()
    daemon = Endpoint.of_this_process()
    folder.write_recovery(RecoveryProgress(daemon=daemon, num_handled=12_000, num_batches=BATCHES))
    with pytest.raises(NoPlatform, match=r"12,000 of 40,000 batches of its journal are handled; try again"):
        connect_as_owner(folder.path)
    folder.remove_recovery()
    with pytest.raises(NoPlatform, match="start one with `swell up`"):
        connect_as_owner(folder.path)
