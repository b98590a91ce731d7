"""The task of a slice on its node: `python -m swell.executors.slurm.slice_task`, an order its input.

Slurm may send the SIGTERM of a preemption to every descendant of the task. The host and its workers are none:
a guard, detached from the task, starts the host, and passes SIGTERM on to it alone. Two pipes connect task
and guard. The kernel closes one of them when the task is killed, and then the guard kills the host. The last
one of them removes the folder of the slice.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec

from swell.executors.local.devices import is_rack
from swell.executors.local.processes.parent_death import die_with_parent
from swell.executors.local.processes.strays import HOST_MODULE
from swell.executors.node.private_folder import ForeignFolder
from swell.executors.slurm.slice_folders import STATE_FOLDER, claim_folder, remove_folder
from swell.executors.slurm.slice_order import SliceOrder, host_name
from swell.wire.environ import GPU_ORDER
from swell.wire.whole_files import write_whole

PREEMPTED = "Slurm takes its slice back (preemption, scancel, or the end of its time)"
#: What the task writes to the guard.
TERM = b"T"
#: Variables that would make a script take itself for a part of the task, or limit its threads.
HIDING = ("OMP_NUM_THREADS",)
#: Slurm's commands need it where its configuration is in no usual place.
KEPT = "SLURM_CONF"


class SliceTask:
    """The process that Slurm knows. `run` returns the exit status of the host."""

    def __init__(self, words: list[str], environ: Mapping[str, str], folder: Path) -> None:
        """`folder`: of the slice, which is removed once the host has ended."""
        self._words, self._environ, self._folder = words, dict(environ), folder

    def run(self) -> int:
        orders, to_guard = os.pipe()
        from_guard, status = os.pipe()
        guard_pid = os.fork()
        if guard_pid == 0:
            os.close(to_guard)
            os.close(from_guard)
            _detach()
            _guard(self._words, self._environ, self._folder, orders, status)
        os.close(orders)
        os.close(status)
        os.waitpid(guard_pid, 0)
        signal.signal(signal.SIGTERM, lambda signum, frame: os.write(to_guard, TERM))
        signal.signal(signal.SIGINT, lambda signum, frame: os.write(to_guard, TERM))
        told = os.read(from_guard, 1)
        if not told:  # the guard was killed, and the host with it
            remove_folder(self._folder)
        return told[0] if told else 128 + signal.SIGKILL


def _detach() -> None:
    """Go on in a child of init, in a session of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a signal to the group of the task
    os.setsid()
    if os.fork():
        os._exit(0)


def _guard(words: list[str], environ: dict[str, str], folder: Path, orders: int, status: int) -> NoReturn:
    """Start the host, pass signals on, and end it when the task is gone."""
    host = subprocess.Popen(
        words, env=environ, stdin=subprocess.DEVNULL, preexec_fn=partial(_begin_host, os.getpid())
    )
    ended = os.pidfd_open(host.pid)
    while ended not in select.select([orders, ended], [], [])[0]:
        told = os.read(orders, 1)
        if host.poll() is None:
            host.send_signal(signal.SIGTERM if told else signal.SIGKILL)
        if not told:
            break
    ended_with = _status_of(host.wait())
    remove_folder(folder)
    with suppress(BrokenPipeError):  # the task is gone
        os.write(status, bytes([ended_with]))
    os._exit(0)


def _begin_host(guard_pid: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(guard_pid)


def _status_of(code: int) -> int:
    return code if code >= 0 else 128 - code


def host_words(order: SliceOrder, environ: Mapping[str, str], folder: Path) -> list[str]:
    """The command line of the host. `environ`: Slurm's, of the task."""
    token = folder / "join-token"
    write_whole(token, f"{order.token}\n".encode(), mode=0o600)
    words = [sys.executable, "-P", "-m", HOST_MODULE, "--state", str(folder / STATE_FOLDER)]
    words += ["--join", order.join, "--token-file", str(token), "--name", _name(environ)]
    words += ["--devices", order.devices, "--grace", f"{order.grace_s:g}", "--sigterm-means", PREEMPTED]
    words += ["--rack", rack] if (rack := _rack(environ)) else []
    return [*words, "--borrowed"] if order.is_borrowed else words


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
        folder = claim_folder(Path(tempfile.gettempdir()), order.platform, _name(os.environ))
        words = host_words(order, os.environ, folder)
    except (ForeignFolder, OSError) as error:
        sys.exit(f"swell: {error}")
    os.chdir(folder)
    sys.exit(SliceTask(words, host_environ(os.environ), folder).run())


if __name__ == "__main__":
    main()
