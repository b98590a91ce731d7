"""Lightning: its Trainer has the job's workers, and training batches are divided among them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SequentialSampler

from swell.train.libraries.divided_batches import DividedBatchSampler, divided, why_whole
from swell.train.libraries.division import Division
from swell.wire.findings import ScriptFinding

LIBRARY = "Lightning"
#: Names of strategies under which each process has all of the model, and gradients are averaged.
REPLICATED = frozenset({"DDPStrategy", "SingleDeviceStrategy"})


def change_connector(module: ModuleType, division: Division) -> None:
    """Called once with `...connectors.accelerator_connector`."""
    connector = module._AcceleratorConnector
    connector.__init__ = _placing(connector.__init__, division)


def change_data(module: ModuleType, division: Division) -> None:
    """Called once with `...connectors.data_connector`."""
    connector = module._DataConnector
    connector._prepare_dataloader = _preparing(connector._prepare_dataloader, division)


def change_strategy(module: ModuleType, division: Division) -> None:
    """Called once with `...strategies.strategy`."""
    strategy = module.Strategy
    strategy.backward = _weighing(strategy.backward, division)


def change_fabric(module: ModuleType, division: Division) -> None:
    """Called once with `lightning.fabric.fabric`."""
    fabric = module.Fabric
    fabric.setup_dataloaders = _telling(fabric.setup_dataloaders, division)


def _placing(init: Callable[..., None], division: Division) -> Callable[..., None]:
    """A Trainer that names no devices, or other ones than the job has, gets those of the job."""

    @wraps(init)
    def placed(self: Any, devices: Any = "auto", num_nodes: int = 1, *args: Any, **kwargs: Any) -> None:
        if not division.is_of_script():
            num_nodes, rest = divmod(division.num_workers, division.num_local)
            if rest:
                raise SystemExit(
                    f"Lightning needs the same number of workers on each host, and {division.num_local} of "
                    f"the job's {division.num_workers} are on this one; submit it with `--workers "
                    f"{division.num_local}`, or with a number that fills hosts alike"
                )
            devices = division.num_local
        init(self, devices, num_nodes, *args, **kwargs)

    return placed


def _preparing(prepare: Callable[..., Any], division: Division) -> Callable[..., Any]:
    """Evaluation is left to Lightning: a batch is each worker's, and a few samples may count twice."""

    @wraps(prepare)
    def _prepare_dataloader(self: Any, dataloader: Any, shuffle: bool, mode: Any) -> Any:
        if getattr(mode, "value", mode) != "train" or not isinstance(dataloader, DataLoader):
            return prepare(self, dataloader, shuffle, mode)
        if division.is_of_script():
            return prepare(self, dataloader, shuffle, mode)
        if why := _why_whole(self.trainer, dataloader):
            division.keep_whole(LIBRARY, why)
            return prepare(self, dataloader, shuffle, mode)
        batches = _divided_batches(dataloader, division)
        division.say_divided(batches.batch_size)
        return divided(dataloader, batches)

    return _prepare_dataloader


def _why_whole(trainer: Any, loader: DataLoader[Any]) -> str:
    kind = type(trainer.strategy).__name__
    if kind not in REPLICATED:
        return f"its strategy is a {kind}, of which Swell does not know how workers share a batch; use ddp"
    if not trainer._accelerator_connector.use_distributed_sampler:
        return "use_distributed_sampler=False leaves samples to the script; leave it out"
    return why_whole(loader)


def _divided_batches(loader: DataLoader[Any], division: Division) -> DividedBatchSampler:
    """The order is drawn from the seed and the epoch, as by Lightning's own sampler on several workers."""
    batches: Any = loader.batch_sampler
    sampler = batches.sampler
    is_plain = type(sampler) is RandomSampler and not sampler.replacement and sampler._num_samples is None
    if is_plain and sampler.generator is None:
        seed = int(os.environ.get("PL_GLOBAL_SEED", 0))
        dataset: Any = loader.dataset
        sampler = DistributedSampler(dataset, num_replicas=1, rank=0, shuffle=True, seed=seed)
    twin = type(batches)(sampler, batches.batch_size, batches.drop_last)
    is_alike = isinstance(sampler, SequentialSampler | DistributedSampler)
    return DividedBatchSampler(twin, division.rank, division.num_workers, is_drawn_by_first=not is_alike)


def _weighing(backward: Callable[..., Any], division: Division) -> Callable[..., Any]:
    @wraps(backward)
    def weighed(self: Any, closure_loss: Any, *args: Any, **kwargs: Any) -> Any:
        weight = _weight(self.lightning_module.trainer.fit_loop, division)
        closure_loss = closure_loss if weight == 1.0 else closure_loss * weight
        return backward(self, closure_loss, *args, **kwargs)

    return weighed


def _weight(fit_loop: Any, division: Division) -> float:
    loaders = fit_loop._combined_loader.flattened
    found = [loader.batch_sampler for loader in loaders if _is_divided(loader)]
    at = fit_loop.epoch_loop.batch_idx
    weights = {batches.weight(is_last=at % len(batches) == len(batches) - 1) for batches in found}
    if len(weights) > 1:
        text = (
            "the training loaders have batches that do not divide evenly in the same step, so samples of the "
            "smaller shares count more; give all of them batches that every number of workers divides"
        )
        division.find(ScriptFinding(name="several-loaders", text=text, holds=False))
    return weights.pop() if len(weights) == 1 else 1.0


def _is_divided(loader: Any) -> bool:
    return isinstance(getattr(loader, "batch_sampler", None), DividedBatchSampler)


def _telling(setup: Callable[..., Any], division: Division) -> Callable[..., Any]:
    @wraps(setup)
    def setup_dataloaders(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not division.is_of_script():
            division.keep_whole(
                "Lightning Fabric", "Swell divides batches of Lightning's Trainer, not of Fabric"
            )
        return setup(self, *args, **kwargs)

    return setup_dataloaders
