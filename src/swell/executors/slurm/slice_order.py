"""How the host of a slice is to be started: what the head writes into a batch script, and its task reads."""

from __future__ import annotations

import shlex
import signal
import sys

import msgspec

TASK_MODULE = "swell.executors.slurm.slice_task"
#: Of a program that SIGTERM has ended.
SIGTERM_STATUS = 128 + signal.SIGTERM
_END = "END_OF_SLICE_ORDER"


class SliceOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Everything but what only the node knows."""

    platform: str
    join: str  #: HEAD:PORT
    token: str
    devices: str
    kind: str = ""  #: of the devices; empty: what they are
    is_borrowed: bool = False
    grace_s: float = 0.0  #: from SIGTERM to SIGKILL
    num_cpus: int = 1


def batch_script(order: SliceOrder) -> str:
    """Return the script of a slice: one step that runs its task, or the task itself where no step may be."""
    python = shlex.quote(sys.executable)
    step = f"srun --nodes=1 --ntasks=1 --cpus-per-task={order.num_cpus}"
    return f"""#!/bin/bash
begun="${{TMPDIR:-/tmp}}/swell-slice-$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}}"
start() {{
    "$@" {python} -P -m {TASK_MODULE} "$begun" <<'{_END}'
{msgspec.json.encode(order).decode()}
{_END}
}}
start {step}
status=$?
if [ ! -e "$begun" ] && [ $status -ne {SIGTERM_STATUS} ]; then  # this job may have no step
    start env
    status=$?
fi
rm -f "$begun"
if [ $status -eq {SIGTERM_STATUS} ]; then  # Slurm took the slice back before its host could hear of it
    status=0
fi
exit $status
"""
