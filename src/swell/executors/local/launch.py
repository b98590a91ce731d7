"""Start the agent's process, find one that runs, end one for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from swell.executors.local.agent.address import (
    AgentAddress,
    AgentRunning,
    address_path,
    hold_lock,
    lock_path,
    read_address,
)
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.logs.files import TAIL_BYTES
from swell.executors.local.processes.strays import AGENT_MODULE, is_agent
from swell.model.quantities import span

#: An agent needs half a second; a machine under load more, and one whose workers are still dying too.
START_S = 30.0
#: From SIGTERM until every process of an agent must be gone.
STOP_S = 15.0
POLL_S = 0.01


class AgentError(RuntimeError):
    """The agent could not be started, reached or ended; the text says where to look."""


def start_agent(options: AgentOptions) -> tuple[subprocess.Popen[bytes], AgentAddress]:
    """Return a new agent and where it listens. Its session is its own: nothing that ends the daemon ends it.

    Raises:
        AgentError: it ended, or did not begin in time.
    """
    path = options.state_dir / "agent.log"
    path.touch(mode=0o600)
    with path.open("ab") as log, os.fdopen(os.memfd_create("options"), "w+b") as stdin:
        begin = log.tell()
        stdin.write(options.encoded())
        stdin.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", AGENT_MODULE, str(options.state_dir.resolve())],
            stdin=stdin,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline_s = time.monotonic() + START_S
    while (address := read_address(options.state_dir)) is None or address.pid != process.pid:
        if process.poll() is not None:
            end = path.read_bytes()[begin:][-TAIL_BYTES:].decode(errors="replace").strip()
            raise AgentError(f"the agent ended with status {process.returncode}; {path} ends:\n{end}")
        if time.monotonic() > deadline_s:
            process.kill()
            process.wait()
            raise AgentError(f"the agent did not begin within {span(START_S)}; see {path}")
        time.sleep(POLL_S)
    return process, address


def find_agent(state_dir: Path) -> AgentAddress | None:
    """A live agent of this state folder, or None. A number that another process has now is no agent."""
    address = read_address(state_dir)
    if address is None or not is_agent(address.pid, state_dir):
        return None
    return address


def stop_agent(state_dir: Path, limit_s: float = STOP_S) -> bool:
    """End the agent of this folder, its zygote and its workers, and wait until all are gone.

    For when no daemon is there to ask it. Returns False if there was no agent.

    Raises:
        AgentError: something is still there after `limit_s`.
    """
    state_dir = state_dir.resolve()
    address = find_agent(state_dir)
    if address is None:
        await_all_gone(state_dir, limit_s)
        return False
    deadline_s = time.monotonic() + limit_s / 2
    os.kill(address.pid, signal.SIGTERM)
    while is_agent(address.pid, state_dir) and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
    if is_agent(address.pid, state_dir):
        os.kill(address.pid, signal.SIGKILL)
    await_all_gone(state_dir, limit_s / 2)
    address_path(state_dir).unlink(missing_ok=True)
    return True


def await_all_gone(state_dir: Path, limit_s: float) -> None:
    """End strays, and wait for the lock that the agent, its zygote and all its workers hold together.

    Raises:
        AgentError: somebody holds it longer.
    """
    if not lock_path(state_dir).exists():
        return
    try:
        os.close(hold_lock(state_dir, limit_s))
    except AgentRunning as error:
        raise AgentError(
            f"processes of {state_dir} are still there after {span(limit_s)}; "
            f"`fuser {lock_path(state_dir)}` names them"
        ) from error
