"""Start the agent's process, find one that runs, end one for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from swell.executors.local.agent.address import address_path, lock_path, read_address, try_lock
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.logs.files import read_tail
from swell.executors.local.processes.strays import AGENT_MODULE, end_strays, is_agent
from swell.executors.local.protocol import AgentAddress
from swell.model.lengths import span

#: An agent needs half a second; a machine under load more, and one whose workers are still dying too.
START_S = 30.0
#: From SIGTERM until every process of an agent must be gone.
STOP_S = 15.0
POLL_S = 0.01


class AgentError(RuntimeError):
    """The agent could not be started, reached or ended; the text says where to look."""


def start_agent(options: AgentOptions) -> subprocess.Popen[bytes]:
    """A process of its own session, so that nothing that ends the daemon ends it."""
    with (
        (options.state_dir / "agent.log").open("ab") as log,
        os.fdopen(os.memfd_create("options"), "w+b") as stdin,
    ):
        stdin.write(options.encoded())
        stdin.seek(0)
        return subprocess.Popen(
            [sys.executable, "-P", "-m", AGENT_MODULE, str(options.state_dir.resolve())],
            stdin=stdin,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def log_size(options: AgentOptions) -> int:
    """Bytes of the agents' log by now."""
    log = options.state_dir / "agent.log"
    return log.stat().st_size if log.exists() else 0


def await_address(
    options: AgentOptions, process: subprocess.Popen[bytes], log_begin: int = 0
) -> AgentAddress:
    """Where the new agent listens. `log_begin`: where its log begins.

    Raises:
        AgentError: it ended, or did not begin in time.
    """
    deadline_s = time.monotonic() + START_S
    while True:
        address = read_address(options.state_dir)
        if address is not None and address.pid == process.pid:
            return address
        log = options.state_dir / "agent.log"
        if process.poll() is not None:
            raise AgentError(
                f"the agent ended with status {process.returncode}; {log} ends:\n{_tail(log, log_begin)}"
            )
        if time.monotonic() > deadline_s:
            process.kill()
            raise AgentError(f"the agent did not begin within {span(START_S)}; see {log}")
        time.sleep(POLL_S)


def _tail(log: Path, begin: int) -> str:
    """Return the end of what was written to the log after position `begin`."""
    with log.open("rb") as file:
        file.seek(begin)
        num_lines = file.read().count(b"\n")
    return "\n".join(read_tail(log).splitlines()[-max(1, num_lines) :])


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
    end_strays(state_dir)
    if not lock_path(state_dir).exists():
        return
    descriptor = os.open(lock_path(state_dir), os.O_RDWR | os.O_CLOEXEC)
    try:
        deadline_s = time.monotonic() + limit_s
        while not try_lock(descriptor):
            if time.monotonic() > deadline_s:
                raise AgentError(
                    f"processes of {state_dir} are still there after {span(limit_s)}; "
                    f"`fuser {lock_path(state_dir)}` names them"
                )
            time.sleep(POLL_S)
    finally:
        os.close(descriptor)
