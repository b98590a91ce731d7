"""What a LightningModule logs in a step: the mean over the step's samples, on all workers alike.

Each worker has a part of a step's samples, and `self.log` gets a mean over these. The numbers travel with the
gradients, as those of a parameter of no model, and are given to Lightning once the step is made.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any
from zlib import crc32

import torch
from torch import nn

from swell.train.collective.gradients import LoopError
from swell.train.data.sample_schedule import Share
from swell.train.libraries import refuse

#: Names that a step may log.
MOST_NAMES = 128
#: So small that nothing which looks at gradients sees these numbers, and a power of two, that rounds nothing.
SCALE = 2.0**-64
OTHERS_LOGGED = (
    "the workers log different names in one training_step; log each of them whatever the batch's samples are"
)


class StepLogs:
    """Stands in front of the results of Lightning's training loop."""

    def __init__(self, trainer: Any) -> None:
        trained = trainer.fit_loop.epoch_loop._results
        validated = trainer.fit_loop.epoch_loop.val_loop._results
        self.log_now, validated.log = _averaged(trained.log), _averaged(validated.log)
        trained.log = self._log
        self._is_within = False  # a step, whose values are not known yet
        self.values: dict[str, torch.Tensor] = {}  #: of the pass under way
        self._calls: dict[str, dict[str, Any]] = {}  # of the step under way, by name
        self._means: list[float] = []  # of the step

    def carrier_of(self, module: nn.Module) -> nn.Module:
        """The module whose gradient has the numbers; it is never updated."""
        is_wide = any(each.dtype == torch.float64 for each in module.parameters())
        dtype, device = torch.float64 if is_wide else torch.float32, next(module.parameters()).device
        self._carrier = nn.Parameter(torch.zeros(1 + MOST_NAMES, dtype=dtype, device=device))
        return nn.ParameterList([self._carrier])

    def begin_step(self, share: Share | None) -> Iterator[None]:
        """The first pass of a step begins. Yields each time when another one is to begin."""
        assert share is not None  # noqa: S101 - a batch is out
        self._share, self._is_within, self._calls = share, True, {}
        for self._pass in share.passes:
            self.values = {}
            if self._pass is not share.passes[-1]:
                yield

    def _log(self, fx: str, name: str, value: Any, **options: Any) -> None:
        """Keep what a training step logs until its mean is known; log all else as Lightning does."""
        if not self._is_within or fx != "training_step":
            self.log_now(fx, name, value, **options)
            return
        if not isinstance(value, torch.Tensor):
            value, metric, options["metric_attribute"] = value._forward_cache, value, None
            if value is None:
                refuse("self.log", f"the metric {name!r} in training_step without a value of the step")
            metric.reset()
        reduction = getattr(options["reduce_fx"], "__name__", options["reduce_fx"])
        if reduction not in ("mean", "avg", "sum"):
            refuse("self.log", f"reduce_fx={reduction} for {name!r} in training_step")
        if reduction == "sum":
            value = value / self._pass.factor if self._pass.factor else torch.zeros_like(value)
        self.values[name] = value.detach().reshape(()).to(self._carrier)
        self._calls[name] = {"fx": fx, "name": name, **options}

    def write(self) -> None:
        """Put the values of the pass where its gradients are. Raises LoopError."""
        if len(self.values) > MOST_NAMES:
            raise LoopError(f"training_step logs more than {MOST_NAMES} names; log fewer")
        values = [torch.tensor(_digest(self.values)).to(self._carrier), *self.values.values()]
        numbers = torch.zeros_like(self._carrier)
        numbers[: len(values)] = torch.stack(values) * SCALE
        self._carrier.grad = numbers

    def read(self) -> None:
        """Take the means of the step from its gradients. Raises LoopError."""
        summed, self._carrier.grad = self._carrier.grad, None
        if summed is not None:
            digest, *self._means = (summed / SCALE).tolist()
            if abs(digest - _digest(self.values)) > 1e-6:
                raise LoopError(OTHERS_LOGGED)

    def log(self) -> None:
        """The step counts: log its means."""
        self._is_within = False
        for call, mean in zip(self._calls.values(), self._means, strict=False):
            value = torch.tensor(mean, dtype=self._carrier.dtype, device=self._carrier.device)
            self.log_now(value=value, **{**call, "batch_size": self._share.num_global})


def _averaged(log: Any) -> Any:
    """A way to log what all workers have alike, of which Lightning must not say that it is not averaged."""
    return lambda *args, **options: log(*args, **{**options, "sync_dist": True})


def _digest(names: Iterable[str]) -> float:
    return crc32("\n".join(names).encode()) % 4096 / 4096


def keep_earlier_rows(loggers: Sequence[Any], step: float) -> None:
    """This worker leads from now on: its loggers go on with what others have written of steps before this.

    A worker that leaves may write its last rows meanwhile, so the file is written again only if it must be.
    """
    for logger in loggers if step else ():
        if type(logger).__name__ == "TensorBoardLogger" and step < math.inf:
            logger._kwargs.setdefault("purge_step", step)
        elif type(logger).__name__ == "CSVLogger":
            module, logger._experiment = import_module(type(logger).__module__), None
            kind: Any = getattr(module, "ExperimentWriter", None) or module._ExperimentWriter
            kind._check_log_dir_exists = lambda writer: None  # it removes the file
            logger.experiment.metrics_keys = _kept_names(logger.experiment.metrics_file_path, step)


def _kept_names(path: str, step: float) -> list[str]:
    """Names that a table of metrics has, without the rows of this step and later ones."""
    if not os.path.exists(path):
        return []
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        rows, names = [*reader], [*(reader.fieldnames or ())]
    if any(int(row["step"]) >= step for row in rows):  # the job goes on from a state before these
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(row for row in rows if int(row["step"]) < step)
    return names
