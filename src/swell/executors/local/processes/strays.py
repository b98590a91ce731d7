"""Processes of jobs that have outlived their agent: found by their mark, and ended.

A kill of agent and zygote ends the workers, and not what they started in sessions of their own. The mark is
an environment variable: the kernel shows in /proc/PID/environ what a program was started with, and all
programs that a worker starts inherit it, unless they are given another environment. A process that is forked
and starts no program shows the mark of the zygote.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swell.executors.local.processes.listing import find_process, is_alive, kill, list_processes, started_by
from swell.wire.environ import MARK

AGENT_MODULE = "swell.executors.local.agent.process"
#: What has the workers of a host of another machine.
HOST_MODULE = "swell.executors.node.process"
#: A process that the kernel does not end within this time waits for a device.
GONE_WITHIN_S = 5.0
POLL_S = 0.01


def is_agent(pid: int, state_dir: Path) -> bool:
    """Whether this process is an agent of the state folder, and not another one with its number."""
    found = find_process(pid)
    if found is None or found.is_dead:
        return False
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    has_agents = not {AGENT_MODULE.encode(), HOST_MODULE.encode()}.isdisjoint(words)
    return has_agents and os.fsencode(state_dir.resolve()) in words


def end_strays(state_dir: Path) -> int:
    """End what jobs of dead agents have left behind, and wait until it is gone. Returns how many processes.

    To be called where this process is no agent with a zygote.
    """
    state_dir = state_dir.resolve()

    def is_stray(mark: ProcessMark) -> bool:
        has_agent = mark.agent_pid != os.getpid() and is_agent(mark.agent_pid, state_dir)
        return mark.state_dir == str(state_dir) and not has_agent

    pids = kill_marked(is_stray)
    give_up_s = time.monotonic() + GONE_WITHIN_S
    while any(is_alive(pid) for pid in pids) and time.monotonic() < give_up_s:
        time.sleep(POLL_S)
    return len(pids)


def kill_marked(is_meant: Callable[[ProcessMark], bool]) -> list[int]:
    """Kill every process with a mark that is meant, and what they start meanwhile. Returns their pids."""
    return _kill_all(
        lambda: [
            process.pid
            for process in list_processes()
            if not process.is_dead and process.pid != os.getpid()
            if (mark := read_mark(process.pid)) is not None and is_meant(mark)
        ]
    )


def kill_started_by(pid: int) -> None:
    """Kill all that a process has started, and what that starts meanwhile."""
    _kill_all(lambda: started_by([pid]))


def _kill_all(find: Callable[[], list[int]]) -> list[int]:
    killed: list[int] = []
    while found := [pid for pid in find() if pid not in killed]:
        for pid in found:
            kill(pid)
        killed += found
    return killed


def end_children() -> None:
    """Kill all that this process, which adopts orphans, has started, and wait until it is gone."""
    give_up_s = time.monotonic() + GONE_WITHIN_S
    with contextlib.suppress(ChildProcessError):  # none is left
        while time.monotonic() < give_up_s:
            kill_started_by(os.getpid())
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(POLL_S)


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """Where a process comes from."""

    agent_pid: int
    zygote_id: str  #: of one zygote process; never used twice
    worker: int  #: which fork of its zygote; 0: the zygote itself, or a copy of a worker
    state_dir: str

    def text(self) -> str:
        """The mark as an environment variable; `parse_mark` reads it back."""
        return f"{self.agent_pid}:{self.zygote_id}:{self.worker}:{self.state_dir}"


def parse_mark(text: str) -> ProcessMark | None:
    """None if it is no mark."""
    with contextlib.suppress(ValueError):
        agent_pid, zygote_id, worker, state_dir = text.split(":", 3)
        return ProcessMark(int(agent_pid), zygote_id, int(worker), state_dir)
    return None


def read_mark(pid: int) -> ProcessMark | None:
    """None of a process that carries no mark, is gone, or is none that this one may look at."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    name = f"{MARK}=".encode()
    found = next((variable for variable in variables if variable.startswith(name)), name)
    return parse_mark(os.fsdecode(found[len(name) :]))
