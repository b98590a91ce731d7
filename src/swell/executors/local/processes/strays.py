"""Processes of jobs that have outlived their agent: found by their mark, and ended.

A kill of agent and zygote ends the workers, and not what they started in sessions of their own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from swell.executors.local.processes.listing import find_process, is_alive, kill, list_processes
from swell.executors.local.processes.mark import ProcessMark, read_mark

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
