"""The host process of a state folder, as another process of the same user sees it."""

from __future__ import annotations

import os
from pathlib import Path

from swell.executors.local.processes.listing import list_processes
from swell.executors.local.processes.strays import HOST_MODULE, is_agent
from swell.executors.node.options import InvalidHostOptions, NodeOptions, read_options


def find_host(state_dir: Path) -> int | None:
    """Its pid; None: none runs."""
    state_dir = state_dir.resolve()
    return next((found.pid for found in list_processes() if is_agent(found.pid, state_dir)), None)


def options_of(pid: int) -> NodeOptions:
    """What it was started with.

    Raises:
        OSError: it is gone, or another user's.
        ValueError: this version knows no such options.
    """
    words = list(map(os.fsdecode, Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]))
    if HOST_MODULE not in words:
        raise InvalidHostOptions("`swell node` has not started it")
    return read_options(words[words.index(HOST_MODULE) + 1 :])[1]
