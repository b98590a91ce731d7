"""Settings of torch without which the same computation may not give the same bits twice."""

from __future__ import annotations

import os

import torch


def compute_alike(device: torch.device) -> None:
    """Make this process compute as any worker does. It changes settings of the whole process.

    On a CPU one thread, as a worker of Swell has: sums that are cut among threads depend on their number.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    if device.type == "cpu":
        torch.set_num_threads(1)
