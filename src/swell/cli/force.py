"""What `swell down --force` does first: a platform that does not answer is made to, or is ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from swell.api.errors import ApiError, InvalidOption, NoPlatform
from swell.store.errors import StateError

if TYPE_CHECKING:
    from swell.store.folder import StateFolder

#: A killed process is gone in milliseconds, one that waits for a disk later.
GONE_WITHIN_S = 10.0


def make_answer(folder: StateFolder) -> bool:
    """Kill a daemon that does not answer, and start another to save what it left. True if it was killed."""
    _wake_agent(folder)
    pid = _silent_daemon(folder)
    if pid is None:
        return False
    kill_daemon(folder, pid)
    _start_again(folder)
    return True


def kill_daemon(folder: StateFolder, pid: int) -> None:
    """Returns when the folder is free. Raises StateLocked if it does not become so."""
    from swell.store.lock import StateLock

    with contextlib.suppress(ProcessLookupError):  # it may end while we ask
        os.kill(pid, signal.SIGKILL)
    lock = StateLock(folder.lock)
    lock.acquire(GONE_WITHIN_S)
    lock.release()
    print(
        f"killed the platform (pid {pid}) of {folder.path}, which did not answer or did not end",
        file=sys.stderr,
    )


def _wake_agent(folder: StateFolder) -> None:
    """One that was stopped by a signal can save its workers once it goes on."""
    from swell.executors.local.launch import find_agent
    from swell.executors.local.processes.stopped import is_stopped

    agent = find_agent(folder.path)
    if agent is not None and is_stopped(agent.pid):
        os.kill(agent.pid, signal.SIGCONT)
        print(f"resumed the agent (pid {agent.pid}), which was stopped by a signal", file=sys.stderr)


def _silent_daemon(folder: StateFolder) -> int | None:
    """The daemon, if there is one and it does not answer."""
    from swell.api.client import connect_as_owner
    from swell.store.lock import find_holder

    if not folder.lock.exists() or (pid := find_holder(folder.lock)) is None:
        return None
    try:
        connect_as_owner(folder.path).close()
    except (NoPlatform, ApiError):
        return pid
    return None


def _start_again(folder: StateFolder) -> None:
    """So that workers that still train are saved, and not only ended."""
    from swell.cli.launch import launch
    from swell.executors.local.launch import find_agent

    if find_agent(folder.path) is None:
        return
    try:
        launch(folder, ()).close()
    except (InvalidOption, StateError) as error:
        print(f"its jobs cannot be saved: {error}", file=sys.stderr)
