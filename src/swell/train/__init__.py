"""The library inside training scripts: `train.elastic` makes a loop one that can be resized.

    from swell import train

    run = train.elastic(model, optimizer, loader, epochs=10)

Importing it starts no thread and opens no socket.
"""

from swell.train.collective.gradients import LoopError
from swell.train.data.epoch_order import LoaderError
from swell.train.elastic import elastic
from swell.train.runtime.run import Run
from swell.train.state.checkpoint import NoCheckpointError, load_checkpoint
from swell.train.state.drift import DriftError
from swell.train.state.loss import LossNotFinite
from swell.wire.reports import report_progress

__all__ = [
    "DriftError",
    "LoaderError",
    "LoopError",
    "LossNotFinite",
    "NoCheckpointError",
    "Run",
    "elastic",
    "load_checkpoint",
    "report_progress",
]
