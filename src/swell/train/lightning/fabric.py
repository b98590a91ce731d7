"""Lightning's Fabric in a Swell job: what `Fabric.setup` returns trains on workers that come and go."""

from __future__ import annotations

import atexit
import itertools
import math
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch.utils.data import DataLoader

from swell.train.collective.gradients import LoopError
from swell.train.libraries import check_version
from swell.train.lightning.adapter import TRIED, ElasticStrategy, one_device_options
from swell.train.lightning.logs import keep_earlier_rows
from swell.train.prepared_loop import ElasticLoader, PreparedLoop, as_elastic, joined, whole_only
from swell.train.runtime.run import Run
from swell.wire import environ


class FabricStrategy(ElasticStrategy):
    """What the strategy of one device does otherwise for a Fabric, which tells it what is set up."""

    loop: PreparedLoop
    num_devices: int  #: that the script names
    precision: Any
    local_rank: int

    def set_rank(self, rank: int) -> None:
        super().set_rank(rank)
        self.local_rank = rank

    def setup_module(self, module: Any) -> Any:
        self.loop.models.append(module)
        return module

    def setup_optimizer(self, optimizer: Any) -> Any:
        self.loop.optimizers.append(optimizer)
        return optimizer

    def process_dataloader(self, loader: DataLoader[Any]) -> Any:
        self.loop.loaders.append(plain := joined(loader, self.num_devices))
        return as_elastic(plain, ElasticLoader, loop=self.loop, plain=plain)

    def backward(self, loss: torch.Tensor, module: Any, **options: Any) -> None:
        self.precision.pre_backward(loss, module)
        scaler = getattr(self.precision, "scaler", None)
        self.loop.backward(loss, scaler=scaler, **options)
        self.precision.post_backward(loss, module)

    def optimizer_step(self, optimizer: Any, closure: Any = None) -> Any:
        output, run = None if closure is None else closure(), self.loop.begun
        if self.loop.num_passes and not self.loop.has_gradients:
            raise LoopError(
                "optimizer.step() after fewer batches than fabric.epochs(accumulate=...) was told"
            )
        run.step(optimizer)
        return output


class ElasticFabric:
    """What a Fabric is besides. In a Swell job it is elastic, and elsewhere it is as always.

    A step has the samples of a batch of the loader x the devices that the script names x `accumulate`. The
    loop over epochs is `for epoch in fabric.epochs(num_epochs)`. Each worker evaluates on all of the data, so
    that nothing is gathered, and `is_global_zero` is true in all of them until that loop begins.
    """

    loop: PreparedLoop | None = None  #: of a Swell job
    package: str
    strategy: Any
    loggers: list[Any]
    _is_leader = False

    def __init__(self, **options: Any) -> None:
        library: Any = super()
        if environ.AGENT not in os.environ:
            library.__init__(**options)
            return
        options, num_devices = one_device_options("Fabric", self.package, options, FabricStrategy)
        library.__init__(**options)
        self.strategy.num_devices = num_devices
        self.loop = self.strategy.loop = PreparedLoop("fabric", f"{__name__} import Fabric", self._follow)

    def epochs(
        self, num: int | None = None, *, steps: int | None = None, accumulate: int = 1
    ) -> Iterator[int]:
        """The epochs that are still to do: `range(num)` by itself. A job may end after `steps` instead.

        Args:
            accumulate: batches whose gradients the script sums in a step. What an epoch has beyond whole
                steps is left out in a job.
        """
        if self.loop is None:
            return iter(itertools.count() if num is None else range(num))
        seed = int(os.environ.get("PL_GLOBAL_SEED", 0))  # of `seed_everything`
        self.loop.num_passes = accumulate if accumulate > 1 else 0
        return self.loop.epochs(accumulate, epochs=num, steps=steps, seed=seed)

    def backward(self, tensor: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor | None:
        """Compute the gradients of a step; a job is told the mean loss of it, on all workers."""
        library: Any = super()
        library.backward(tensor, *args, **options)
        return None if self.loop is None else self.loop.step_loss

    def _follow(self, run: Run) -> None:
        """Have Fabric know this worker's rank, which a resize may change."""
        self.strategy.set_rank(run.rank)
        versions = run.state.setdefault("versions", [getattr(each, "version", None) for each in self.loggers])
        for logger, version in zip(self.loggers, versions, strict=True):
            logger._version = version
        if run.is_leader and not self._is_leader:
            keep_earlier_rows(self.loggers, math.inf if run.steps else 0)
            for logger in self.loggers:
                atexit.register(logger.save)  # what it keeps in memory when this worker leaves
        self._is_leader = run.is_leader


def elastic_form(package: str) -> Any:
    """The Fabric of one of Lightning's packages that is elastic in a job."""
    library = import_module(f"{package}.fabric").Fabric
    if issubclass(library, ElasticFabric):
        return library
    joins = {name: whole_only(getattr(library, name)) for name in ("all_gather", "all_reduce")}
    return type("Fabric", (ElasticFabric, library), {"package": package, "__module__": __name__, **joins})


def adapt() -> None:
    """Have scripts that import Fabric from now on get the elastic one."""
    for package in ("lightning.fabric", "lightning_fabric"):
        if f"{package}.fabric" in sys.modules:
            check_version(package, import_module(package).__version__, TRIED)
            own = elastic_form(package)
            for name in (f"{package}.fabric", package, package.partition(".")[0]):
                if hasattr(module := sys.modules[name], "Fabric"):
                    module.Fabric = own  # type: ignore[attr-defined]


Fabric: Any = elastic_form("lightning.fabric" if find_spec("lightning") else "lightning_fabric")
