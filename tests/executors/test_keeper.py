"""Workers of a host process that stands still end with its lease."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.executors.listening import eventually

from swell.executors.local.processes.listing import find_process, is_alive
from swell.executors.local.processes.mark import ProcessMark
from swell.executors.node import keeper
from swell.wire.environ import MARK
from swell.wire.unslewed_clocks import HostClock

#: A host process: tells its keeper the ends that it is told, and has a worker that has one of its own.
HOST = """
import os, subprocess, sys
from pathlib import Path
from swell.executors.node.keeper import LeaseKeeper

keeper = LeaseKeeper(Path(sys.argv[1]))
environ = dict(os.environ, **{sys.argv[2]: f"{os.getpid()}:zygote:0000000001:{sys.argv[1]}"})
script = "import subprocess as s; p = s.Popen(['sleep', '60'], env={}); print(p.pid, flush=True); p.wait()"
worker = subprocess.Popen([sys.executable, "-c", script], env=environ)
print(worker.pid, flush=True)
for line in sys.stdin:
    keeper.show(float(line))
    print(keeper._process.pid, flush=True)
keeper.close()
"""


class StandIn:
    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOST, str(folder), MARK],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.workers = {self._number(), self._number()}
        self.clock = HostClock()

    def _number(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def show(self, end_s: float) -> int:
        """Returns the pid of the keeper."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{end_s}\n")
        self.process.stdin.flush()
        return self._number()

    @property
    def living(self) -> set[int]:
        return {pid for pid in self.workers if is_alive(pid)}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[StandIn]:
    made = StandIn(tmp_path)
    yield made
    made.process.kill()
    made.process.wait()
    for pid in made.living:
        os.kill(pid, signal.SIGKILL)


def test_the_mark_of_the_test_is_that_of_a_worker(host: StandIn, tmp_path: Path) -> None:
    text = ProcessMark(host.process.pid, "zygote", 1, str(tmp_path)).text()
    environs = [Path(f"/proc/{pid}/environ").read_bytes() for pid in host.workers]
    assert sum(f"{MARK}={text}".encode() in variables for variables in environs) == 1


def test_workers_end_with_the_lease_of_a_host_that_is_stopped_and_no_sooner(host: StandIn) -> None:
    """One of them carries no mark, as a program with another environment."""
    host.show(host.clock.now_s() + 0.2)
    end_s = host.clock.now_s() + 1.0
    host.show(end_s)
    os.kill(host.process.pid, signal.SIGSTOP)
    while host.clock.now_s() < end_s:
        assert len(host.living) == 2
    eventually(lambda: not host.living)
    assert is_alive(host.process.pid), "it may be needed to tell what was"


def test_a_host_that_has_no_worker_left_may_begin_anew_after_the_end(host: StandIn) -> None:
    end_s = host.clock.now_s() + 0.2
    host.show(end_s)
    host.show(float("-inf"))
    host.show(float("inf"))
    eventually(lambda: host.clock.now_s() > end_s + 1.5)
    assert len(host.living) == 2


def test_a_keeper_that_is_gone_is_replaced_at_the_next_renewal(host: StandIn) -> None:
    first = host.show(host.clock.now_s() + 60.0)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: not is_alive(first))
    second = host.show(host.clock.now_s() + 0.2)
    assert second != first
    os.kill(host.process.pid, signal.SIGSTOP)
    eventually(lambda: not host.living)


def test_a_keeper_is_no_job_of_the_hosts_terminal_and_ends_with_the_host(host: StandIn) -> None:
    pid = host.show(host.clock.now_s() + 60.0)
    found = find_process(pid)
    assert found is not None and found.group == pid != os.getpgid(host.process.pid)
    host.process.kill()
    host.process.wait()
    eventually(lambda: not host.living and not is_alive(pid))


def test_a_process_that_cannot_be_ended_is_tried_with_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the host tells of another end."""
    reader, writer = os.pipe()
    killed: list[int] = []

    def kill(pid: int) -> None:
        killed.append(pid)
        if len(killed) == 5:
            os.write(writer, struct.pack("d", 7.0))

    monkeypatch.setattr(keeper, "_workers", lambda host_pid, state_dir: [4711])
    monkeypatch.setattr(keeper, "kill", kill)
    begun_s = time.monotonic()
    keeper._end_workers(keeper._Shown(reader), 1, "")
    assert time.monotonic() - begun_s >= 4 * keeper.ROUND_S and len(killed) == 5
    os.close(reader)
    os.close(writer)
