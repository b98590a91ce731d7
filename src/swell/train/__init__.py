"""The library inside training scripts: `train.elastic` makes a single-device loop one that can be resized.

    from swell import train

    run = train.elastic(model, optimizer, loader, epochs=10)

Importing it starts no thread and opens no socket.
"""

from swell.train.checkpoint import NoCheckpointError, load_checkpoint
from swell.train.drift import DriftError
from swell.train.elastic import elastic
from swell.train.feed import LoaderError
from swell.train.gradients import LoopError
from swell.train.not_finite import LossNotFinite
from swell.train.run import Run

__all__ = [
    "DriftError",
    "LoaderError",
    "LoopError",
    "LossNotFinite",
    "NoCheckpointError",
    "Run",
    "elastic",
    "load_checkpoint",
]
