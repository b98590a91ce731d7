"""How the host of a slice is called, and how it is started: what the head writes into a batch script."""

from __future__ import annotations

import re
import shlex
import sys

import msgspec

TASK_MODULE = "swell.executors.slurm.slice_task"
_END = "END_OF_SLICE_ORDER"
_STRANGE = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_CHARACTERS = 40


class SliceOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Everything but what only the node knows."""

    platform: str
    join: str  #: HEAD:PORT
    token: str
    devices: str
    is_borrowed: bool = False
    grace_s: float = 0.0  #: from SIGTERM to SIGKILL
    num_cpus: int = 1


def batch_script(order: SliceOrder) -> str:
    """Return the script of a slice: one step that runs its task. Slurm tells steps of a preemption."""
    step = f"srun --nodes=1 --ntasks=1 --cpus-per-task={order.num_cpus}"
    return f"""#!/bin/bash
exec {step} {shlex.quote(sys.executable)} -P -m {TASK_MODULE} <<'{_END}'
{msgspec.json.encode(order).decode()}
{_END}
"""


def host_name(node: str, job_id: int) -> str:
    """Return the name of a host, `NODE-JOBID`; no other host of a platform has the same."""
    suffix = f"-{job_id}"
    plain = _STRANGE.sub("-", node).strip("-")[: _MAX_CHARACTERS - len(suffix)] or "node"
    return f"{plain}{suffix}"


def job_of(host: str) -> int | None:
    """Return the id of the Slurm job that runs the host of this name; None: it is no such name."""
    node, _, job = host.rpartition("-")
    return int(job) if node and re.fullmatch("[0-9]+", job) else None
