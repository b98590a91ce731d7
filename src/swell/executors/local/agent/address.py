"""The files by which an agent of a state folder is found: where it listens, and its lock.

The daemon and commands import this module, and nothing else of an agent.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

import msgspec

from swell.executors.local.protocol import AgentAddress


def try_lock(descriptor: int) -> bool:
    """Take the lock without waiting. False if another process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
