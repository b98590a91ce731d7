"""The task of a slice on its node: `python -m swell.executors.slurm.slice_task`, an order its input.

Slurm may send the SIGTERM of a preemption to every descendant of the task. The host and its workers are none:
a guard, detached from the task, starts the host. Two pipes connect task and guard. The kernel closes one of
them when the task is killed, and then the guard kills the host.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec

from swell.executors.local.devices import is_rack
from swell.executors.slices.folders import ForeignFolder, claim_folder, remove_folder
from swell.executors.slices.guard import TERM, guard_host
from swell.executors.slices.order import SliceOrder, host_name, host_words
from swell.wire.environ import GPU_ORDER

PREEMPTED = "Slurm takes its slice back (preemption, scancel, or the end of its time)"
#: Variables that would make a script take itself for a part of the task, or limit its threads.
HIDING = ("OMP_NUM_THREADS",)
#: Slurm's commands need it where its configuration is in no usual place.
KEPT = "SLURM_CONF"


class SliceTask:
    """The process that Slurm knows. `run` returns the exit status of the host."""

    def __init__(self, words: list[str], token: str, environ: Mapping[str, str], folder: Path) -> None:
        """`folder`: of the slice, which is removed once the host has ended."""
        self._words, self._token, self._environ, self._folder = words, token, environ, folder

    def run(self) -> int:
        orders, to_guard = os.pipe()
        from_guard, status = os.pipe()
        guard_pid = os.fork()
        if guard_pid == 0:
            os.close(to_guard)
            os.close(from_guard)
            self._guard(orders, status)
        os.close(orders)
        os.close(status)
        os.waitpid(guard_pid, 0)
        signal.signal(signal.SIGTERM, lambda signum, frame: os.write(to_guard, TERM))
        signal.signal(signal.SIGINT, lambda signum, frame: os.write(to_guard, TERM))
        told = os.read(from_guard, 1)
        if not told:  # the guard was killed, and the host with it
            remove_folder(self._folder)
        return told[0] if told else 128 + signal.SIGKILL

    def _guard(self, orders: int, status: int) -> NoReturn:
        """Go on in a child of init, in a session of its own."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a signal to the group of the task
        os.setsid()
        if os.fork():
            os._exit(0)
        ended_with = guard_host(self._words, self._token, self._environ, self._folder, orders)
        with suppress(BrokenPipeError):  # the task is gone
            os.write(status, bytes([ended_with]))
        os._exit(0)


def task_words(order: SliceOrder, environ: Mapping[str, str], folder: Path) -> list[str]:
    """The command line of the host. `environ`: Slurm's, of the task."""
    words = host_words(order, folder, _name(environ), _rack(environ))
    return [*words, "--sigterm-means", PREEMPTED]


def host_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables of the host: those of the task, without those of Slurm and of the head."""
    foreign = ("SLURM_", "SLURMD_", "SRUN_", "SWELL_", *HIDING)
    own = {name: value for name, value in environ.items() if name == KEPT or not name.startswith(foreign)}
    return {**own, **GPU_ORDER}


def _name(environ: Mapping[str, str]) -> str:
    return host_name(environ["SLURMD_NODENAME"], int(environ["SLURM_JOB_ID"]))


def _rack(environ: Mapping[str, str]) -> str:
    """The switch that the node hangs on; empty: Slurm knows none, or its name can be no rack's.

    Slurm names them from the top down to the node, as in `s0.s2.n7` with the pattern `switch.switch.node`.
    """
    kinds = environ.get("SLURM_TOPOLOGY_ADDR_PATTERN", "").split(".")
    switches = environ.get("SLURM_TOPOLOGY_ADDR", "").split(".")[: kinds.count("switch")]
    return switches[-1] if switches and is_rack(switches[-1]) else ""


def main() -> None:
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=SliceOrder)
    try:
        folder = claim_folder(Path(tempfile.gettempdir()), "slurm", order.platform, _name(os.environ))
    except (ForeignFolder, OSError) as error:
        sys.exit(f"swell: {error}")
    words = task_words(order, os.environ, folder)
    os.chdir(folder)
    sys.exit(SliceTask(words, order.token, host_environ(os.environ), folder).run())


if __name__ == "__main__":
    main()
