"""Models that cannot be summed over workers are refused at every size, also where one would do."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from swell.train.collective.norms import StatisticsError
from swell.train.state.codec import is_shard
from swell.train.state.module_forms import saved_buffers


def check_model(model: nn.Module) -> None:
    """Raises TypeError if part of the model does what elastic() does, or cannot be summed over workers.

    A SyncBatchNorm is a StatisticsError.
    """
    for name, module in model.named_modules():
        named = f"the model's module {name!r}" if name else "the model"
        if isinstance(module, DistributedDataParallel) or type(module).__name__ == "FullyShardedDataParallel":
            raise TypeError(
                f"{named} is a {type(module).__name__}, which averages gradients over workers as elastic() "
                "does, but without regard to how many samples each has; give elastic() the module within "
                "it, `model.module`, and call that in the loop"
            )
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse:
            raise TypeError(
                f"{named} is an {type(module).__name__} with sparse=True; swell.train sums dense gradients "
                "only: build it with sparse=False, and use Adam in place of SparseAdam"
            )
        if isinstance(module, nn.SyncBatchNorm):
            raise StatisticsError(
                f"{named} is a SyncBatchNorm, whose group of workers would have to change while the job "
                "trains; use nn.BatchNorm, whose running statistics are averaged over the workers, or a "
                "norm that does not look at other samples, such as nn.GroupNorm"
            )
        _check_tensors(named, module)


def _check_tensors(named: str, module: nn.Module) -> None:
    """Raises TypeError for a parameter or a buffer that could not be saved or sent to a new worker."""
    for key, tensor in (*module.named_parameters(recurse=False), *saved_buffers(module)):
        if is_shard(tensor):
            raise TypeError(
                f"{named} has {key!r} as a DTensor, of which each worker holds a part, as after "
                "parallelize_module() or fully_shard(); leave that call out, and "
                "give elastic() shard=[Block] with the classes of its blocks, which then are divided at any "
                "number of workers; or run the script without swell.train, with `elasticity: restart` and "
                "its own checkpoint"
            )
        if tensor.is_meta:
            raise TypeError(
                f"{named} has {key!r} on the meta device, without values; give it values before elastic(), "
                "with to_empty() and an initialisation, or build the module on a device"
            )
        if tensor.layout != torch.strided:
            raise TypeError(
                f"{named} has {key!r} as a {tensor.layout} tensor; only dense tensors can be saved and sent "
                "to new workers: use to_dense(), or register the buffer with persistent=False if each "
                "worker computes it for itself"
            )
