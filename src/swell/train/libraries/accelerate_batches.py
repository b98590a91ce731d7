"""Accelerate: what `Accelerator.prepare` makes of a loader divides its batches, at one worker, too.

Deviates from `split_batches=True`: a batch need not be a multiple of the workers, a short last batch is not
filled up, and the order of samples does not depend on the number of workers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from swell.train.libraries.divided_batches import DividedBatchSampler, divided, true_rows, why_whole
from swell.train.libraries.division import Division

LIBRARY = "Accelerate"
#: Values of `DistributedType` under which each process has all of the model, and gradients are averaged.
REPLICATED = frozenset({"NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_XPU", "MULTI_MLU", "MULTI_HPU"})
#: In the folder of a checkpoint: how many epochs each loader has given.
EPOCHS_FILE = "swell_epochs.json"


def change_accelerate(module: ModuleType, division: Division) -> None:
    """Called once with `accelerate.accelerator`. Raises AttributeError if this version is another one."""
    accelerator, prepare = module.Accelerator, module.prepare_data_loader
    shard = sys.modules["accelerate.data_loader"].DataLoaderShard
    init, backward = accelerator.__init__, accelerator.backward
    gather, gather_for_metrics = accelerator.gather, accelerator.gather_for_metrics
    hooks = (accelerator.register_save_state_pre_hook, accelerator.register_load_state_pre_hook)
    iterate, num_processes = shard.__iter__, accelerator.num_processes.fget
    module.prepare_data_loader = _preparing(prepare, division)  # type: ignore[attr-defined]
    accelerator.__init__ = _making(init, division, hooks)
    accelerator.backward = _weighing(backward)
    accelerator.gather = _gathering_uneven(gather)
    accelerator.gather_for_metrics = _gathering(gather_for_metrics, gather)
    accelerator.num_processes = property(_watched(num_processes, division))
    shard.__iter__ = _iterating(iterate)


def divided_batches_of(loader: Any) -> DividedBatchSampler | None:
    """The batches of a prepared loader, also of one that skips the first of them."""
    batches = None if loader is None else getattr(loader, "batch_sampler", None)
    while batches is not None and not isinstance(batches, DividedBatchSampler):
        batches = getattr(batches, "batch_sampler", None)
    return batches


def _making(init: Callable[..., None], division: Division, hooks: Any) -> Callable[..., None]:
    @wraps(init)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.swell_weight = None  #: of the current batch, where a Trainer knows it
        self.swell_is_divided = not division.is_of_script() and not _why_not_replicated(self, division)
        self.swell_is_asked_to_split = self.dataloader_config.split_batches
        if self.swell_is_divided:
            self.dataloader_config.split_batches = True  # its schedulers step once a step
            hooks[0](self, _epochs_to(self))
            hooks[1](self, _epochs_from(self))

    return made


def _why_not_replicated(accelerator: Any, division: Division) -> bool:
    """Whether the processes are no plain replicas of one another, which is told."""
    kind = str(getattr(accelerator.distributed_type, "name", accelerator.distributed_type))
    config = accelerator.dataloader_config
    if kind not in REPLICATED or getattr(accelerator, "parallelism_config", None):
        why = f"its processes are of the type {kind}, of which Swell does not know how they share a batch"
    elif config.dispatch_batches:
        why = "with dispatch_batches rank 0 makes the batches of all; leave it out"
    elif getattr(config, "use_stateful_dataloader", False):
        why = "the state of a stateful loader is of a number of workers; leave use_stateful_dataloader out"
    else:
        return False
    division.keep_whole(LIBRARY, why)
    return True


def _preparing(prepare: Callable[..., Any], division: Division) -> Callable[..., Any]:
    """What `Accelerator.prepare_data_loader` calls. The loader comes back as one of a single process."""

    @wraps(prepare)
    def prepare_data_loader(loader: DataLoader[Any], *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("split_batches") or division.is_of_script():
            return prepare(loader, *args, **kwargs)
        if why := why_whole(loader):
            division.keep_whole(LIBRARY, why)
            return prepare(loader, *args, **{**kwargs, "split_batches": False})
        seeded = bool(kwargs.get("use_seedable_sampler")) and isinstance(loader.sampler, RandomSampler)
        if seeded and kwargs.get("data_seed") is None:
            kwargs["data_seed"] = _of_first(torch.initial_seed(), division)
        batches = _divided_batches(loader, seeded, division)
        division.say_divided(batches.batch_size)
        alone = {"num_processes": 1, "process_index": 0, "split_batches": False, "dispatch_batches": False}
        return prepare(divided(loader, batches), *args, **{**kwargs, **alone})

    return prepare_data_loader


def _divided_batches(loader: DataLoader[Any], seeded: bool, division: Division) -> DividedBatchSampler:
    """`seeded`: Accelerate puts a sampler in that all workers draw alike."""
    sampler, seed = loader.sampler, None
    if not seeded and getattr(sampler, "generator", ...) is None:
        seed = _of_first(int(torch.empty((), dtype=torch.int64).random_().item()), division)
    is_alike = seeded or seed is not None or isinstance(sampler, SequentialSampler)
    batches = DividedBatchSampler(
        loader.batch_sampler,  # type: ignore[arg-type]
        division.rank,
        division.num_workers,
        seed=seed,
        is_drawn_by_first=not is_alike,
    )
    batches.is_always_uneven = isinstance(sampler, RandomSampler)
    return batches


def _of_first(number: int, division: Division) -> int:
    """Rank 0's number: workers whose script seeds each of them with another still draw one order."""
    if division.num_workers == 1 or not dist.is_initialized():
        return number
    numbers: list[Any] = [number]
    dist.broadcast_object_list(numbers, src=0)
    return int(numbers[0])


def _iterating(iterate: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    """What iterates over a prepared loader: shares of a batch that is evaluated are filled up to one size."""

    @wraps(iterate)
    def iterated(self: Any) -> Iterator[Any]:
        batches = divided_batches_of(self)
        if batches is not None:
            batches.is_uneven = batches.is_always_uneven or torch.is_grad_enabled()
        yield from iterate(self)
        if batches is not None:
            batches.epoch += 1

    return iterated


def _weighing(backward: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(backward)
    def weighed(self: Any, loss: Any, *args: Any, **kwargs: Any) -> Any:
        weight = self.swell_weight
        if weight is None:
            loader = self.gradient_state.active_dataloader
            batches = divided_batches_of(loader)
            weight = 1.0 if batches is None else batches.weight(loader.end_of_dataloader)
        return backward(self, loss if weight == 1.0 else loss * weight, *args, **kwargs)

    return weighed


def _gathering(
    gather_for_metrics: Callable[..., Any], gather: Callable[[Any, Any], Any]
) -> Callable[..., Any]:
    """Metrics count each sample once, also where shares were filled up to one size."""

    @wraps(gather_for_metrics)
    def gathered_for_metrics(self: Any, input_data: Any, use_gather_object: bool = False) -> Any:
        loader = self.gradient_state.active_dataloader
        batches = divided_batches_of(loader)
        if batches is None or batches.num_processes == 1 or use_gather_object:
            return gather_for_metrics(self, input_data, use_gather_object)
        num_samples, num_workers = batches.num_samples(loader.end_of_dataloader), batches.num_processes
        if batches.is_uneven and num_samples % num_workers:
            input_data = self.pad_across_processes(input_data, dim=0)
        return _without_filling(gather(self, input_data), num_samples, num_workers)

    return gathered_for_metrics


def _gathering_uneven(gather: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Shares of a batch that was not filled up differ in size, which the library's own way cannot gather.

    Whether a batch is evaluated is known only once the script computes with it. Of one that was filled up,
    the filling is left out.
    """

    @wraps(gather)
    def gathered(self: Any, tensor: Any) -> Any:
        loader = self.gradient_state.active_dataloader
        batches = divided_batches_of(loader)
        if batches is None:
            return gather(self, tensor)
        num_samples, num_workers = batches.num_samples(loader.end_of_dataloader), batches.num_processes
        if num_samples % num_workers == 0:
            return gather(self, tensor)
        if not batches.is_uneven:
            num_filled = num_workers * -(-num_samples // num_workers)
            rows = true_rows(num_samples, num_workers, num_filled // num_workers)
            return _each(gather(self, tensor), lambda part: part[rows] if len(part) == num_filled else part)
        return _each(tensor, lambda part: _rows(self, gather, part, num_samples, num_workers))

    return gathered


def _rows(
    accelerator: Any, gather: Callable[[Any, Any], Any], part: Any, num_samples: int, num_workers: int
) -> Any:
    """Return the rows of all workers' parts: each has as many as its share, or all have as many."""
    if not isinstance(part, torch.Tensor) or not part.dim():
        return gather(accelerator, part)
    sizes = gather(accelerator, torch.tensor([len(part)], device=part.device)).tolist()
    if len(set(sizes)) == 1:
        return gather(accelerator, part)
    rows = gather(accelerator, accelerator.pad_across_processes(part, dim=0))
    return rows[true_rows(num_samples, num_workers, max(sizes))]


def _without_filling(gathered: Any, num_samples: int, num_workers: int) -> Any:
    """Rows of gathered values without filling; one value for each worker, such as its loss, is kept."""

    def stripped(part: Any) -> Any:
        num_each, rest = divmod(len(part), num_workers)
        if rest or num_each * num_workers < num_samples:
            return part
        return part[true_rows(num_samples, num_workers, num_each)]

    return _each(gathered, stripped)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the same nest of dicts, lists and tuples, with each tensor in it changed."""
    if isinstance(value, dict):
        return type(value)({name: _each(part, change) for name, part in value.items()})
    if isinstance(value, tuple | list):
        listed = [_each(part, change) for part in value]
        return type(value)(*listed) if hasattr(value, "_fields") else type(value)(listed)
    return change(value)


def _watched(num_processes: Callable[[Any], int], division: Division) -> Callable[[Any], int]:
    @wraps(num_processes)
    def watched(self: Any) -> int:
        if getattr(self, "swell_is_divided", False) and not self.swell_is_asked_to_split:
            division.note_reader(sys._getframe(1))
        return num_processes(self)

    return watched


def _epochs_to(accelerator: Any) -> Callable[[Any, Any, str], None]:
    def save(models: Any, weights: Any, output_dir: str) -> None:
        found = [divided_batches_of(loader) for loader in accelerator._dataloaders]
        epochs = [0 if batches is None else batches.epoch for batches in found]
        if accelerator.is_main_process:
            Path(output_dir, EPOCHS_FILE).write_text(json.dumps(epochs))

    return save


def _epochs_from(accelerator: Any) -> Callable[[Any, str], None]:
    """A checkpoint that was made without Swell has no such file: its orders begin again."""

    def load(models: Any, input_dir: str) -> None:
        path = Path(input_dir, EPOCHS_FILE)
        epochs = json.loads(path.read_text()) if path.is_file() else []
        for loader, epoch in zip(accelerator._dataloaders, epochs, strict=False):
            if (batches := divided_batches_of(loader)) is not None:
                batches.set_epoch(epoch)

    return load
