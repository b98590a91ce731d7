"""How a zygote is started: as a child process of the agent, with variables that its workers have, too."""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

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

#: Modules that are there for any interpreter; what else is preloaded was chosen for the platform's.
EVERYWHERE = frozenset({"swell", "torch"})

log = logging.getLogger("swell.agent")


@dataclass(frozen=True, slots=True)
class ZygoteProgram:
    """What a zygote is started with.

    `lock_fd` is inherited by the zygote and all workers: held by any, held by all. `log_path` lies in the
    state folder, whose name is in the mark of all processes.
    """

    python: str
    modules: Sequence[str]
    log_path: Path
    lock_fd: int

    @staticmethod
    def of(python: str, preload: Sequence[str], state_dir: Path, lock_fd: int) -> ZygoteProgram:
        """Return that of an interpreter, which imports only Swell and torch if it is not the platform's."""
        name = "zygote"
        if python != sys.executable:
            name += f"-{hashlib.sha256(python.encode()).hexdigest()[:8]}"
            preload = [module for module in preload if module.partition(".")[0] in EVERYWHERE]
        return ZygoteProgram(python, preload, state_dir / f"{name}.log", lock_fd)

    def start(self, zygote_id: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Return the process, and the socket by which it is asked."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        command = [self.python, "-P", "-m", "swell.executors.local.zygote.process", str(theirs.fileno())]
        environ = DEFAULT_VARIABLES | os.environ | dict.fromkeys(THREAD_VARIABLES, "1") | TORCH_VARIABLES
        with theirs, open_log(self.log_path) as file:
            process = subprocess.Popen(
                [*command, str(os.getpid()), *self.modules],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=environ | {MARK: self.mark(zygote_id)},
                pass_fds=(theirs.fileno(), self.lock_fd),
            )
        return process, ours

    def mark(self, zygote_id: str) -> str:
        """Return the mark of its processes, as an environment variable."""
        return ProcessMark(os.getpid(), zygote_id, 0, str(self.log_path.parent.resolve())).text()


def open_log(path: Path) -> BinaryIO:
    """Where there is no room for a log the zygote starts without."""
    try:
        return path.open("wb")
    except OSError as error:
        log.warning("the zygote has no log: cannot write %s: %s", path, error)
        return open(os.devnull, "wb")
