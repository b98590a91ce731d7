"""Plain PyTorch on the devices of a node, in processes of its own: what Swell is compared with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from swell.executors.gang.job_context import DeviceBinding
from swell.train.collective.process_groups import LOOPBACK

#: After so long a run is given up.
LIMIT_S = 300.0


class PlainRunFailed(RuntimeError):
    """A run of plain PyTorch has not ended well; the text has its last line."""


def plain(device: DeviceBinding, checkpoints: Sequence[Path]) -> tuple[float, list[float]]:
    """Train in one process as far as each checkpoint: seconds of a step, and how far weights are apart."""
    (told,) = _run([device], [["plain", *map(str, checkpoints)]])
    return told["step_s"], told["apart"]


def ddp(devices: Sequence[DeviceBinding]) -> tuple[float, dict[int, float]]:
    """Train by DistributedDataParallel: seconds of a step, and of the sum of so many megabytes."""
    size = str(len(devices))
    store = TCPStore(LOOPBACK, 0, is_master=True, wait_for_workers=False)
    told = _run(devices, [["ddp", str(rank), size, str(store.port)] for rank in range(len(devices))])
    return told[0]["step_s"], {int(mb): sum_s for mb, sum_s in told[0]["sums_s"].items()}


def _run(devices: Sequence[DeviceBinding], arguments: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """What each of the processes has printed. All are gone when this returns."""
    program = [sys.executable, "-P", "-m", "swell.measure.training", str(os.getpid())]
    with ExitStack() as stack:
        processes = []
        for device, words in zip(devices, arguments, strict=True):
            environ = os.environ | {"CUDA_VISIBLE_DEVICES": device.cuda or ""}
            process = subprocess.Popen(
                [*program, *words], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        return [_told(process) for process in processes]


def _told(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        out, errors = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise PlainRunFailed(f"plain PyTorch has not ended within {LIMIT_S:g} s") from error
    if process.returncode:
        last = errors.strip().rpartition("\n")[2]
        raise PlainRunFailed(f"plain PyTorch ended with status {process.returncode}: {last}")
    found: dict[str, Any] = json.loads(out)
    return found
