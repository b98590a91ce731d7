"""Torch's `fully_shard` in a worker of Swell: by calling it a script names modules that are to be divided.

Torch would divide them among a group of fixed size, before `elastic` sees them. Here they stay whole until
then, and `elastic` takes them as if the script had given them as `shard`.
"""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Sequence
from typing import Any

from torch import nn

#: Modules of torch that a script may import `fully_shard` from.
FROM = (
    "torch.distributed.fsdp",
    "torch.distributed.fsdp._fully_shard",
    "torch.distributed.fsdp._fully_shard._fully_shard",
    "torch.distributed._composable.fsdp",
    "torch.distributed._composable.fsdp.fully_shard",
)
#: Options of it that have no equal here, and what to do.
REFUSED = {
    "mesh": "leave it out: all workers of the job divide a module, and Swell forms their group",
    "dp_mesh_dims": "leave it out: all workers of the job divide a module, and Swell forms their group",
    "shard_placement_fn": "leave it out: a module is cut by elements and not along a dimension",
    "mp_policy": "leave it out, and compute under torch.autocast",
    "offload_policy": "leave it out: parameters stay on the device",
    "ignored_params": "leave it out, and call fully_shard() for the inner modules that are to be divided",
}

_named: weakref.WeakSet[nn.Module] = weakref.WeakSet()


class FullyShardError(RuntimeError):
    """The script calls `fully_shard` in a way that has no equal."""


def name_modules(module: nn.Module | Sequence[nn.Module], **options: Any) -> Any:
    """Stands for `fully_shard`: note the modules, and return what was given.

    `reshard_after_forward` changes only when memory is free, and has no effect.

    Raises:
        FullyShardError: an option has no equal here; the text says what to do.
    """
    for name, value in options.items():
        if name in REFUSED and _is_given(value):
            raise FullyShardError(f"the script called fully_shard({name}=...); under Swell {REFUSED[name]}")
    modules = [module] if isinstance(module, nn.Module) else list(module)
    _named.update(modules)
    return module


def _is_given(value: Any) -> bool:
    """Whether an option is another one than its default: None, nothing, or a policy without any choice."""
    if value is None or (isinstance(value, set) and not value):
        return False
    return type(value).__name__ not in ("MixedPrecisionPolicy", "OffloadPolicy") or value != type(value)()


def stand_in() -> None:
    """Give scripts of this process `name_modules` for `fully_shard`, from now on."""
    importlib.import_module(FROM[0])  # as a rule it is there: what is preloaded imports it
    for name in FROM:
        if (module := sys.modules.get(name)) is not None and callable(getattr(module, "fully_shard", None)):
            module.fully_shard = name_modules  # type: ignore[attr-defined]


def named_modules(model: nn.Module) -> list[nn.Module]:
    """Modules of a model that the script has named by `fully_shard`."""
    return [module for module in model.modules() if module in _named]
