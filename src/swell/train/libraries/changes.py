"""Which modules of libraries are changed, and what happens where a version is another one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType

from swell.train.libraries.accelerate_batches import change_accelerate
from swell.train.libraries.division import Division
from swell.train.libraries.import_hooks import after_import
from swell.train.libraries.lightning_batches import (
    change_connector,
    change_data,
    change_fabric,
    change_strategy,
)
from swell.train.libraries.trainer_batches import change_trainer

_IN_LIGHTNING = {
    "trainer.connectors.accelerator_connector": change_connector,
    "trainer.connectors.data_connector": change_data,
    "strategies.strategy": change_strategy,
}
CHANGES: dict[str, Callable[[ModuleType, Division], None]] = {
    "accelerate.accelerator": change_accelerate,
    "transformers.trainer": change_trainer,
    **{f"lightning.pytorch.{name}": change for name, change in _IN_LIGHTNING.items()},
    **{f"pytorch_lightning.{name}": change for name, change in _IN_LIGHTNING.items()},
    "lightning.fabric.fabric": change_fabric,
    "lightning_fabric.fabric": change_fabric,
}


def divide_batches(division: Division) -> None:
    """Called once, before the script of a job whose elasticity is `restart` runs."""
    after_import({name: partial(_change, change, division) for name, change in CHANGES.items()})


def _change(change: Callable[[ModuleType, Division], None], division: Division, module: ModuleType) -> None:
    try:
        change(module, division)
    except (AttributeError, KeyError) as error:
        library = module.__name__.partition(".")[0]
        why = f"this version has no place where Swell could divide them ({error}); use another version"
        division.keep_whole(library, why)
