"""Processes of jobs that have outlived their agent: found by their mark, and ended.

A kill of agent and zygote ends the workers, and not what they started in sessions of their own. The mark is
an environment variable: the kernel shows in /proc/PID/environ what a program was started with, and all
programs that a worker starts inherit it, unless they are given another environment. A process that is forked
and starts no program shows the mark of the zygote.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swell.executors.local.processes.listing import find_process, is_alive, kill, list_processes
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
    killed: list[int] = []
    while True:
        found = [
            process.pid
            for process in list_processes()
            if not process.is_dead and process.pid not in (os.getpid(), *killed)
            if (mark := read_mark(process.pid)) is not None and is_meant(mark)
        ]
        if not found:
            return killed
        for pid in found:
            kill(pid)
        killed += found


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
    parts = text.split(":", 3)
    if len(parts) != 4 or not (parts[0].isdecimal() and parts[2].isdecimal()):
        return None
    return ProcessMark(int(parts[0]), parts[1], int(parts[2]), parts[3])


def read_mark(pid: int) -> ProcessMark | None:
    """None of a process that carries no mark, is gone, or is none that this one may look at."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    name = f"{MARK}=".encode()
    found = next((variable for variable in variables if variable.startswith(name)), None)
    return None if found is None else parse_mark(os.fsdecode(found[len(name) :]))


def own_mark() -> ProcessMark:
    """Raises RuntimeError if this process was started without a mark."""
    text = os.environ.get(MARK, "")
    mark = parse_mark(text)
    if mark is None:
        raise RuntimeError(f"the environment variable {MARK} is {text!r} and no mark of a zygote")
    return mark
