"""The files by which an agent of a state folder is found: where it listens, and its lock.

The daemon and commands import this module, and nothing else of an agent. All that an agent or a host starts
inherits the lock.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import msgspec

from swell.executors.local.processes.strays import end_strays
from swell.wire.whole_files import try_lock

#: After a crash the kernel needs a moment to end the workers of the agent before.
LOCK_WAIT_S = 10.0

log = logging.getLogger("swell.agent")


class AgentAddress(msgspec.Struct, frozen=True, kw_only=True):
    """`agent.json`: where the agent listens, and what opens it. Only its owner can read it."""

    port: int
    pid: int
    token: str
    hosts: str = ""  #: address at which hosts join; empty: none can
    fixed: tuple[str, ...] = ()  #: see `AgentOptions.fixed`


class AgentRunning(RuntimeError):
    """Another agent, or a process that it started, still holds this state folder."""


def hold_lock(state_dir: Path, wait_s: float = LOCK_WAIT_S) -> int:
    """The descriptor of the lock. Raises AgentRunning."""
    descriptor = os.open(lock_path(state_dir), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline_s = time.monotonic() + wait_s
    num_strays = 0
    while not try_lock(descriptor):
        if time.monotonic() > deadline_s:
            os.close(descriptor)
            raise AgentRunning(
                f"{state_dir} is in use by another agent or host, or a process that it started; a folder "
                "is of one at a time: end that (`swell down` ends an agent), or choose another with --state"
            )
        num_strays += end_strays(state_dir)  # a copy of a worker holds the lock as the worker did
        time.sleep(0.05)  # the kernel has no lock with a time limit
    num_strays += end_strays(state_dir)
    if num_strays:
        log.warning("ended %d processes that jobs of an earlier agent had left behind", num_strays)
    return descriptor


def lock_path(state_dir: Path) -> Path:
    return state_dir / "agent.lock"


def address_path(state_dir: Path) -> Path:
    return state_dir / "agent.json"


def read_address(state_dir: Path) -> AgentAddress | None:
    """Where an agent listens, or listened; None if there never was one, or it ended in order."""
    try:
        return msgspec.json.decode(address_path(state_dir).read_bytes(), type=AgentAddress)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
