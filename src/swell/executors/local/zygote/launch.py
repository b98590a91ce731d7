"""Where a zygote runs: a child process of the agent."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from swell.executors.exit_status import NOT_STARTED
from swell.executors.gang.timeouts import signal_name
from swell.executors.local.logs.files import read_tail
from swell.executors.local.processes.mark import ProcessMark
from swell.executors.local.zygote.process import THREAD_VARIABLES
from swell.wire.environ import MARK

TORCH_VARIABLES = {
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # asking CUDA itself would start it, before the fork
    "TORCH_CPP_LOG_LEVEL": "ERROR",  # a group that loses a worker is an event, not a page in the job's log
}

#: Where the platform's own environment does not say otherwise.
#: The heap keeps what is freed: a step that gives its gradients back would have them cleared again each time.
#: That of Arrow, which pandas and scikit-learn import where they find it, would start a thread.
#: A set of texts has one order in all workers, and when the job goes on later.
DEFAULT_VARIABLES = {
    **dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(2**32)),
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "PYTHONHASHSEED": "0",
}

log = logging.getLogger("swell.agent")


@dataclass(frozen=True, slots=True)
class ColdZygoteEnd:
    """How workers end whose zygote has not come to import everything."""

    status: int
    why: str


def mark_of(state_dir: Path, zygote_id: str) -> ProcessMark:
    """Return the mark of the processes of one of this agent's zygotes."""
    return ProcessMark(os.getpid(), zygote_id, 0, str(state_dir.resolve()))


@dataclass(frozen=True, slots=True)
class BesideAgent:
    """Starts zygotes as child processes, with one of this machine's interpreters.

    `lock_fd` is inherited by the zygote and all workers: held by any, held by all. `log_path` lies in the
    state folder, whose name is in the mark of all processes.
    """

    python: str
    modules: Sequence[str]
    log_path: Path
    lock_fd: int

    async def start(self, zygote_id: str) -> ChildZygote:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        command = [self.python, "-P", "-m", "swell.executors.local.zygote.process", str(theirs.fileno())]
        environ = DEFAULT_VARIABLES | os.environ | dict.fromkeys(THREAD_VARIABLES, "1") | TORCH_VARIABLES
        environ[MARK] = mark_of(self.log_path.parent, zygote_id).text()
        with theirs, _open_log(self.log_path) as file:
            process = subprocess.Popen(
                [*command, str(os.getpid()), *self.modules],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=environ,
                pass_fds=(theirs.fileno(), self.lock_fd),
            )
        return ChildZygote(process, ours, self.log_path)


class ChildZygote:
    """A zygote's process, whose workers end with it."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket, log_path: Path) -> None:
        self._process = process
        self.channel = channel
        self._log_path = log_path

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def why_cold(self, modules: Sequence[str]) -> ColdZygoteEnd:
        status = self._process.wait()
        if status < 0:
            imported = ", ".join(modules)
            return ColdZygoteEnd(
                NOT_STARTED,
                f"the process that imports {imported} for all workers was killed by {signal_name(-status)}",
            )
        return ColdZygoteEnd(
            NOT_STARTED, f"what is to be preloaded cannot be imported:\n{read_tail(self._log_path)}"
        )


def _open_log(path: Path) -> BinaryIO:
    """Where there is no room for a log the zygote starts without."""
    try:
        return path.open("wb")
    except OSError as error:
        log.warning("the zygote has no log: cannot write %s: %s", path, error)
        return open(os.devnull, "wb")
