"""One side: torchrun's elastic mode, an agent of one worker for each device, with its best settings."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from benchmarks.training.sides import TRAIN, Case, LogFolder, SideFailed, environ

MAX_WORKERS = 8
#: Shorter ones than these made two groups train at once; longer ones make every shrink longer.
RENDEZVOUS = "last_call_timeout=1,keep_alive_interval=2,keep_alive_max_attempt=3"
STOP_S = 20.0
AGENT_ENVIRON = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


class TorchrunAgents(ABC):
    """Grows and shrinks as its users do: agents are started, and told to stop."""

    name = "torchrun"

    def __init__(self, case: Case, folder: Path, log_folders: Sequence[LogFolder]) -> None:
        self.folder = folder
        self.log_folders = log_folders
        self._case = case
        self._agents: list[subprocess.Popen[str]] = []  # the first one has the store of the rendezvous

    def start(self, num_workers: int) -> None:
        self.resize(num_workers)

    def resize(self, num_workers: int) -> None:
        for agent in self._agents[num_workers:]:
            agent.send_signal(signal.SIGTERM)
        for number in range(len(self._agents), num_workers):
            self._agents.append(self._start_agent(number))
        del self._agents[num_workers:]

    def settle(self, num_workers: int) -> None:  # noqa: B027 - of both sides; there is nothing to do
        """The agents have seen to it themselves."""

    def check(self) -> None:
        for number, agent in enumerate(self._agents):
            if agent.poll() is not None:
                raise SideFailed(
                    f"torchrun: agent {number} ended with status {agent.returncode}; "
                    f"see {self.folder / f'agent-{number}.log'}"
                )

    def close(self) -> None:
        for agent in reversed(self._agents):
            agent.send_signal(signal.SIGTERM)
        for agent in self._agents:
            try:
                agent.wait(STOP_S)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()

    @abstractmethod
    def _start_agent(self, number: int) -> subprocess.Popen[str]:
        """Of one worker."""


class TorchrunSide(TorchrunAgents):
    """On one machine."""

    def __init__(self, case: Case, folder: Path) -> None:
        folder.mkdir(parents=True)
        super().__init__(case, folder, (LogFolder(folder),))
        self._port = _free_port()

    def _start_agent(self, number: int) -> subprocess.Popen[str]:
        command = agent_command("127.0.0.1", f"127.0.0.1:{self._port}", self._case.args(self.folder))
        with (self.folder / f"agent-{number}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ() | AGENT_ENVIRON,
                text=True,
            )


def agent_command(address: str, rendezvous: str, args: Sequence[str]) -> list[str]:
    """An agent of one worker, which is reached at this address."""
    return [
        *(sys.executable, "-m", "torch.distributed.run"),
        *(f"--nnodes=1:{MAX_WORKERS}", "--nproc-per-node=1", "--max-restarts=1000"),
        *("--rdzv-backend=c10d", f"--rdzv-endpoint={rendezvous}", "--rdzv-id=bench"),
        *(f"--rdzv-conf={RENDEZVOUS}", f"--local-addr={address}", "--monitor-interval=0.1"),
        *(str(TRAIN), *args),
    ]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
