"""The task of a slice on its node: `python -m swell.executors.slurm.slice_task`, an order its input.

Slurm may send the SIGTERM of a preemption to every descendant of the task. The host and its workers are none:
a guard, detached from the task, starts the host. Two pipes connect task and guard. The kernel closes one of
them when the task is killed, and then the guard kills the host.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

import msgspec

from swell.executors.slices.guard import TERM, clean_up, guard_host
from swell.executors.slices.order import SliceOrder


def run_task(order: SliceOrder) -> int:
    """Be the process that Slurm knows. Returns the exit status of the host."""
    orders, to_guard = os.pipe()
    from_guard, status = os.pipe()
    guard_pid = os.fork()
    if guard_pid == 0:
        os.close(to_guard)
        os.close(from_guard)
        _detached_guard(order, orders, status)
    os.close(orders)
    os.close(status)
    os.waitpid(guard_pid, 0)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signum, frame: os.write(to_guard, TERM))
    told = os.read(from_guard, 1)
    if not told:  # the guard was killed, and the host with it
        clean_up(order)
    return told[0] if told else 128 + signal.SIGKILL


def _detached_guard(order: SliceOrder, orders: int, status: int) -> NoReturn:
    """Go on in a child of init, in a session of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a signal to the group of the task
    os.setsid()
    if os.fork():
        os._exit(0)
    ended_with = guard_host(order, orders)
    with suppress(BrokenPipeError):  # the task is gone
        os.write(status, bytes([ended_with]))
    os._exit(0)


def switch_of(environ: Mapping[str, str]) -> str:
    """The switch that the node hangs on; empty: Slurm knows none.

    Slurm names them from the top down to the node, as in `s0.s2.n7` with the pattern `switch.switch.node`.
    """
    kinds = environ.get("SLURM_TOPOLOGY_ADDR_PATTERN", "").split(".")
    switches = environ.get("SLURM_TOPOLOGY_ADDR", "").split(".")[: kinds.count("switch")]
    return switches[-1] if switches else ""


def main() -> None:
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=SliceOrder)
    environ = os.environ
    try:
        order = order.on(environ["SLURMD_NODENAME"], int(environ["SLURM_JOB_ID"]), rack=switch_of(environ))
    except OSError as error:
        sys.exit(f"swell: {error}")
    sys.exit(run_task(order))


if __name__ == "__main__":
    main()
