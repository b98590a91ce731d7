"""Processes of other PID namespaces: a container's processes have numbers of their own there."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from swell.executors.local.processes.listing import list_processes

_CREDENTIALS = struct.Struct("3i")  # pid, user, group


def find_child(parent: int, inner: int) -> int | None:
    """The child of a process that calls itself `inner`; None if it is gone."""
    children = (process.pid for process in list_processes() if process.parent == parent)
    return next((pid for pid in children if inner_pid(pid) == inner), None)


def inner_pid(pid: int) -> int | None:
    """What a process calls itself, in its own namespace; None if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return next((int(line.split()[-1]) for line in lines if line.startswith("NSpid:")), None)


def peer_pid(line: socket.socket) -> int:
    """Who has connected to a Unix socket, as this process sees it; 0 if it does not."""
    pid, _, _ = _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(pid)
