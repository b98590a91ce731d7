"""Settings of torch without which the same computation may not give the same bits twice."""

from __future__ import annotations

import os

import torch
from torch import nn

from swell.train.collective.norms import StatisticsError


def compute_alike(model: nn.Module, device: torch.device) -> None:
    """Make this process compute as any worker does. It changes settings of the whole process.

    On a CPU one thread, as a worker of Swell has: sums that are cut among threads depend on their number.

    Raises:
        StatisticsError: the model looks at other workers' samples.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.SyncBatchNorm):
            raise StatisticsError(
                f"the model's module {name!r} is a SyncBatchNorm, whose result depends on the number of "
                "workers; with deterministic=True use nn.BatchNorm, which sees a shard at any size"
            )
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    if device.type == "cpu":
        torch.set_num_threads(1)
