"""Zygotes that are forked from a process which has imported torch: an import takes seconds of a processor.

For hosts that run in the process of a test, whose zygotes are not what is tested. Those that import no torch
are started as ever.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import DupFd
from typing import Any, cast

import pytest
from tests.train.fake_agent import FORKING

from swell.executors.local.processes.parent_death import die_with_parent
from swell.executors.local.zygote.client import TORCH_VARIABLES, ZygoteProcess, ZygoteProgram
from swell.executors.local.zygote.process import serve_on
from swell.wire.environ import MARK


def fork_zygotes(patch: pytest.MonkeyPatch) -> None:
    """From here on, for hosts of this process."""
    patch.setattr(ZygoteProgram, "start", _start)


class _ForkedProcess:
    """What `ZygoteClient` asks of a process."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode


_start_program = ZygoteProgram.start


def _start(program: ZygoteProgram, zygote_id: str) -> tuple[ZygoteProcess, socket.socket]:
    if "torch" not in program.modules:
        return _start_program(program, zygote_id)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    environ = {**os.environ, **TORCH_VARIABLES, MARK: program.mark(zygote_id)}
    with theirs, program.log_path.open("wb") as log:
        process = FORKING.Process(
            target=_Serving(theirs.fileno(), program.lock_fd, log.fileno(), environ, program.modules)
        )
        process.start()
    return cast("subprocess.Popen[bytes]", _ForkedProcess(process)), ours


class _Serving:
    """What a forked process does, with descriptors of its channel, its agent's lock and its log."""

    def __init__(
        self, channel: int, lock: int, log: int, environ: dict[str, str], modules: Sequence[str]
    ) -> None:
        self._descriptors = (channel, lock, log)
        self._environ, self._modules = environ, modules

    def __getstate__(self) -> dict[str, Any]:
        """While it is started, when descriptors can be handed over."""
        return self.__dict__ | {"_descriptors": tuple(map(DupFd, self._descriptors))}

    def __call__(self) -> None:
        channel, _, log = (each.detach() for each in cast("tuple[Any, ...]", self._descriptors))
        die_with_parent(os.getppid())
        for stream in (sys.stdout, sys.stderr):
            os.dup2(log, stream.fileno())
        os.environ.clear()
        os.environ.update(self._environ)
        multiprocessing.set_start_method("fork", force=True)  # for loaders, as in a worker of a real zygote
        serve_on(socket.socket(fileno=channel), self._modules)
