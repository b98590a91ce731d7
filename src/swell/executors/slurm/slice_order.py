"""What the head writes into the batch script of a slice."""

from __future__ import annotations

import shlex
import sys

import msgspec

from swell.executors.slices.order import SliceOrder

TASK_MODULE = "swell.executors.slurm.slice_task"
_END = "END_OF_SLICE_ORDER"


def batch_script(order: SliceOrder) -> str:
    """Return the script of a slice: one step that runs its task. Slurm tells steps of a preemption."""
    step = f"srun --nodes=1 --ntasks=1 --cpus-per-task={order.num_cpus}"
    return f"""#!/bin/bash
exec {step} {shlex.quote(sys.executable)} -P -m {TASK_MODULE} <<'{_END}'
{msgspec.json.encode(order).decode()}
{_END}
"""
