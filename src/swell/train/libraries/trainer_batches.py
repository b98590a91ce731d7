"""transformers: the Trainer's loaders are Accelerate's; it counts batches and averages losses itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from swell.train.libraries.accelerate_batches import divided_batches_of
from swell.train.libraries.division import Division
from swell.wire.findings import ScriptFinding

LIBRARY = "transformers"
LOADERS = ("get_train_dataloader", "get_eval_dataloader", "get_test_dataloader")


def change_trainer(module: ModuleType, division: Division) -> None:
    """Called once with `transformers.trainer`. Raises AttributeError if this version is another one."""
    trainer = module.Trainer
    total, fetch = trainer.get_total_train_batch_size, trainer.get_batch_samples
    step, train = trainer.training_step, trainer.train
    makers = {name: getattr(trainer, name) for name in LOADERS}
    trainer.get_total_train_batch_size = _counting(total)
    trainer.get_batch_samples = _fetching(fetch)
    trainer.training_step = _stepping(step, division)
    trainer.train = _training(train, division)
    for name, make in makers.items():
        setattr(trainer, name, _marking(make))


def _training(train: Callable[..., Any], division: Division) -> Callable[..., Any]:
    @wraps(train)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self.args, "auto_find_batch_size", False):
            why = "auto_find_batch_size may find another batch at each number of workers; name a batch size"
            division.keep_whole(LIBRARY, why)
        return train(self, *args, **kwargs)

    return watched


def _marking(make: Callable[..., Any]) -> Callable[..., Any]:
    """The Trainer gathers nothing of a batch but for metrics, which knows of uneven shares."""

    @wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> Any:
        loader = make(self, *args, **kwargs)
        if (batches := divided_batches_of(loader)) is not None:
            batches.is_always_uneven = True
        return loader

    return made


def _counting(total: Callable[[Any, Any], int]) -> Callable[[Any, Any], int]:
    @wraps(total)
    def get_total_train_batch_size(self: Any, args: Any) -> int:
        counted = total(self, args)
        return counted // args.world_size if self.accelerator.swell_is_divided else counted

    return get_total_train_batch_size


def _fetching(fetch: Callable[..., Any]) -> Callable[..., Any]:
    """It takes the batches of a whole update in advance: their weights are noted in the same order."""

    @wraps(fetch)
    def get_batch_samples(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = self.accelerator.gradient_state
        before = state.active_dataloader
        fetched = fetch(self, *args, **kwargs)
        loader = state.active_dataloader if state.active_dataloader is not None else before
        batches, last = divided_batches_of(loader), len(fetched[0]) - 1
        if batches is not None:
            ends = loader.end_of_dataloader
            self.swell_weights = deque(batches.weight(ends and at == last) for at in range(last + 1))
        return fetched

    return get_batch_samples


def _stepping(step: Callable[..., Any], division: Division) -> Callable[..., Any]:
    @wraps(step)
    def training_step(self: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        weights = getattr(self, "swell_weights", None)
        weight = weights.popleft() if weights else 1.0
        items = args[0] if args else kwargs.get("num_items_in_batch")
        if items is not None and _is_averaged_by_item(self):
            if weight == 0.0:
                _tell_filled(division)
            weight = 1.0
        self.accelerator.swell_weight = weight
        return step(self, model, inputs, *args, **kwargs)

    return training_step


def _is_averaged_by_item(trainer: Any) -> bool:
    """Whether its loss is a sum over the worker's labels, divided by the labels of all workers."""
    knows_items = trainer.model_accepts_loss_kwargs or trainer.compute_loss_func is not None
    return bool(trainer.args.average_tokens_across_devices and knows_items)


def _tell_filled(division: Division) -> None:
    text = (
        "the last batch of an epoch has fewer samples than there are workers, and some of them count twice; "
        "set dataloader_drop_last, or a batch size that leaves no such rest"
    )
    division.find(ScriptFinding(name="short-batch", text=text, holds=False))
