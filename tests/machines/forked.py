"""Functions that run on a machine in forks of a process that has imported torch: an import takes seconds."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from tests.machines.entry import join_namespaces
from tests.machines.namespaces import Machine
from tests.train.fake_agent import FORKING

PATIENCE_S = 60.0


class Forked:
    """`work(line, *args)` in the namespaces of a machine: what it sends on its line, and what it returns.

    Args:
        work: found by its name there.
        environ: in addition to that of the process that forks.
    """

    def __init__(
        self, machine: Machine, work: Callable[..., object], *args: object, environ: Mapping[str, str]
    ) -> None:
        self._line, theirs = FORKING.Pipe()
        with theirs:
            process = FORKING.Process(
                target=_enter, args=(machine.pid, machine._kinds, dict(environ), theirs, work, args)
            )
            process.start()
        self._process = process

    def tell(self, text: str) -> None:
        self._line.send(text)

    def hear(self) -> Any:
        assert self._line.poll(PATIENCE_S)
        return self._line.recv()

    def result(self) -> Any:
        """What it returns, which it sends last. Raises AssertionError if it raises."""
        found = self.hear()
        self._process.join(PATIENCE_S)
        assert self._process.exitcode == 0, found
        return found


def _enter(
    pid: int,
    kinds: tuple[str, ...],
    environ: Mapping[str, str],
    line: Connection[Any, Any],
    work: Callable[..., object],
    args: tuple[object, ...],
) -> None:
    join_namespaces(pid, kinds)
    os.environ.update(environ)
    child = os.fork()  # a process stays in its PID namespace: its children are in the other one
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(abs(os.waitstatus_to_exitcode(status)))
    status = 1
    try:
        line.send(work(line, *args))
        status = 0
    except BaseException:  # noqa: BLE001 -- whatever it is, the test shows it
        line.send(traceback.format_exc())
    finally:
        os._exit(status)
