"""What a script that imports Lightning gets in a Swell job: Trainers whose `fit` is elastic."""

from __future__ import annotations

import functools
import os
import sys
from importlib import import_module
from typing import Any

import torch

from swell.train.libraries import check_version, refuse
from swell.train.lightning.fit import ElasticFit
from swell.train.link.agent_link import open_link
from swell.wire import environ

#: The version with which this was tried.
TRIED = "2.6"
#: Strategies that average the gradients of whole models, as Swell does in their place.
_AVERAGING = {"auto", "ddp", "ddp_spawn", "ddp_fork", "ddp_notebook", "single_device", "DDPStrategy"}
#: Values of a Trainer's arguments that are not refused, besides None.
_ALLOWED = {
    "limit_train_batches": {"1.0"},
    "overfit_batches": {"0", "0.0"},
    "fast_dev_run": {"0", "False"},
    "max_time": set(),
    "reload_dataloaders_every_n_epochs": {"0"},
}


def adapt() -> None:
    """Have the Trainers of those of Lightning's packages be elastic that the script has imported."""
    for name in ("lightning.pytorch", "pytorch_lightning"):
        package = sys.modules.get(name)
        if package is not None and not hasattr(package.Trainer, "elastic"):
            check_version(name, package.__version__, TRIED)
            _adapt_trainer(name, package.Trainer)


def _adapt_trainer(package: str, trainer: Any) -> None:
    begin, fit, trainer.elastic = trainer.__init__, trainer.fit, None

    @functools.wraps(begin)
    def begin_elastic(self: Any, *args: Any, **options: Any) -> None:
        if environ.AGENT in os.environ:
            options, num_devices = one_device_options("Trainer", package, options)
        begin(self, *args, **options)
        if environ.AGENT in os.environ:
            self.elastic = ElasticFit(self, package, num_devices)

    @functools.wraps(fit)
    def fit_elastic(self: Any, *args: Any, **options: Any) -> None:
        if self.elastic is not None:  # a job goes on from its own state, and not from the last checkpoint
            if (path := options.pop("ckpt_path", None)) not in (None, "last", "hpc"):
                refuse("Trainer.fit", f"ckpt_path={path!r}")
            self.strategy.set_rank(1)  # until it is known which worker leads, none writes
        fit(self, *args, **options)

    trainer.__init__, trainer.fit = begin_elastic, fit_elastic


class ElasticStrategy:
    """What the strategy of one device is besides: its rank, which a resize may change, is the worker's."""

    global_rank: int

    @property
    def is_global_zero(self) -> bool:
        return self.global_rank == 0

    def set_rank(self, rank: int) -> None:
        rank_zero_only = import_module("lightning_utilities.core.rank_zero").rank_zero_only
        self.global_rank = rank_zero_only.rank = rank


def one_device_options(
    library: str, package: str, options: dict[str, Any], form: type = ElasticStrategy
) -> tuple[dict[str, Any], int]:
    """What a Trainer or Fabric of one worker gets, and the number of devices that the script has named."""
    strategy = options.get("strategy", "auto")
    named = strategy if isinstance(strategy, str) else type(strategy).__name__
    if named.removesuffix("_find_unused_parameters_true") not in _AVERAGING:
        refuse(library, f"the strategy {named}")
    for name in options.keys() & _ALLOWED.keys():
        if repr(options[name]) not in _ALLOWED[name] | {"None"}:
            refuse(library, f"{name}={options[name]!r}")
    device = torch.device(open_link().welcome.device)
    of_one = import_module(f"{package}.strategies").SingleDeviceStrategy
    environment = import_module(f"{package}.plugins.environments").LightningEnvironment()
    others = options.get("plugins") or []
    own = {
        "accelerator": "cpu" if device.type == "cpu" else "gpu",
        "devices": 1 if device.type == "cpu" else [device.index or 0],
        "num_nodes": 1,
        "strategy": type("ElasticStrategy", (form, of_one), {})(device=device),
        "plugins": [*(others if isinstance(others, list) else [others]), environment],
    }
    return {**options, **own}, num_named(options.get("devices", "auto")) * int(options.get("num_nodes", 1))


def num_named(devices: Any) -> int:
    """Devices that a script names; 1 where it takes those that there are."""
    if isinstance(devices, str) and "," in devices:
        devices = devices.strip(",").split(",")
    if isinstance(devices, list | tuple):
        return len(devices)
    return 1 if devices in ("auto", None) else max(1, int(devices))
