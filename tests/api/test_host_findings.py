"""What is said of the host process of a state folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from swell.api.machine_findings import host_findings
from swell.executors.local.processes.strays import HOST_MODULE
from swell.executors.node.state import HostState
from swell.executors.storage import write_mark
from swell.model.finding import Level
from swell.wire.lease_end import LEASE_FILE, HostClock, ShownEnd


def host_words(folder: Path, **more: object) -> list[str]:
    """Of a host process with this state folder. `more`: fields of `NodeOptions`, or others."""
    options = {"join": "127.0.0.1", "token_file": "t", "name": "n1", **more}
    return [HOST_MODULE, str(folder), msgspec.json.encode(options).decode()]


@contextmanager
def process_with(words: list[str]) -> Iterator[int]:
    """The pid of one that has these words behind its program, and waits."""
    wait = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", wait, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def test_a_host_that_the_head_has_not_let_in_is_bad(tmp_path: Path) -> None:
    lease = ShownEnd(tmp_path / LEASE_FILE)
    with process_with(host_words(tmp_path)):
        assert host_findings(tmp_path)[1].level is Level.BAD
        lease.show(HostClock().now_s() + 600.0)
        assert host_findings(tmp_path)[1].level is Level.OK


def test_a_host_is_told_that_it_no_longer_sees_the_storage(tmp_path: Path) -> None:
    folder, storage = tmp_path / "node", tmp_path / "storage"
    folder.mkdir()
    storage.mkdir()
    with process_with(host_words(folder)):
        assert "storage" not in [found.about for found in host_findings(folder)], "no head has named one yet"
        HostState(folder).note_storage(str(storage), write_mark(storage))
        found = host_findings(folder)[2]
        assert (found.about, found.level) == ("storage", Level.OK)
        storage.rename(tmp_path / "unmounted")
        found = host_findings(folder)[2]
    assert (found.about, found.level) == ("storage", Level.BAD)
    assert str(storage) in found.text and "no such folder" in found.text and "mount it" in found.remedy
