"""Accelerate in a Swell job: what `Accelerator.prepare` returns trains on workers that come and go."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import accelerate
import torch
from accelerate.optimizer import AcceleratedOptimizer
from accelerate.scheduler import AcceleratedScheduler
from accelerate.state import AcceleratorState, PartialState
from torch.utils.data import DataLoader, SequentialSampler

from swell.train.collective.gradients import LoopError
from swell.train.data.joined_batches import joined
from swell.train.elastic import elastic
from swell.train.libraries import check_version, refuse
from swell.train.runtime.run import Run
from swell.wire import environ

#: The version with which this was tried.
TRIED = "1.15"
_REFUSED = (
    "deepspeed_plugin",
    "deepspeed_plugins",
    "fsdp_plugin",
    "megatron_lm_plugin",
    "parallelism_config",
)
_NO_EPOCHS = (
    "accelerator.backward(loss) outside of `for epoch in accelerator.epochs(num_epochs):`; write this in "
    "place of `for epoch in range(num_epochs):`, for a worker that joins begins at a later epoch. With `from "
    "swell.train.accelerate import Accelerator` the script also runs without Swell"
)
_Library: Any = accelerate.Accelerator  # as it is before `adapt`


class Accelerator(_Library):  # type: ignore[misc]  # it has no types
    """Accelerate's own class. In a Swell job it is elastic, and elsewhere it is as always.

    A step of the job has the samples of `gradient_accumulation_steps` batches of the loader. The loop over
    epochs is `for epoch in accelerator.epochs(num_epochs):`. Each worker evaluates on all of the data, so
    that nothing is gathered, and `is_main_process` is true in all of them until that loop begins.
    """

    run: Run | None = None  #: of the job, once its loop over epochs has begun
    weight: Any = None  #: of the next loss, see `Run.backward`
    step_loss: torch.Tensor  #: mean of the step, on all workers, once its last pass is done
    trained_loader: DataLoader[Any] | None = None  #: while the loop over epochs is under way
    _coming_trackers: Callable[[], None] | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        self.is_elastic, self._elastic_loaders = environ.AGENT in os.environ, list[ElasticLoader]()
        for name in _REFUSED if self.is_elastic else ():
            if options.get(name):
                refuse("Accelerator", name)
        super().__init__(*args, **options)

    def epochs(self, num: int | None = None, *, steps: int | None = None) -> Iterator[int]:
        """The epochs that are still to do: `range(num)` by itself. A job may end after `steps` instead."""
        if not self.is_elastic:
            yield from itertools.count() if num is None else range(num)
            return
        objects = {f"scheduler{place}": each.scheduler for place, each in enumerate(self._schedulers)}
        objects |= {f"object{place}": each for place, each in enumerate(self._custom_objects)}
        num_batches = self.gradient_accumulation_steps
        run = self.begin(*self._prepared(), num_batches, epochs=num, steps=steps, state=objects)
        try:
            yield from run.epochs()
        finally:
            self.trained_loader = None

    def begin(
        self, model: Any, optimizer: Any, loader: DataLoader[Any], num_batches: int, **options: Any
    ) -> Run:
        """Have the loop be elastic, each step with `num_batches` batches of the loader; see `elastic`."""
        if isinstance(optimizer, torch.optim.Optimizer):
            options["max_local_batch"] = loader.batch_size if num_batches > 1 else None
        self.run = elastic(model, optimizer, joined(loader, num_batches), **options)
        self.trained_loader = loader
        self._note_rank()
        return self.run

    def _prepared(self) -> tuple[Any, Any, DataLoader[Any]]:
        """What was given to `prepare`, but for models of no optimizer. Loaders that shuffle come first."""
        optimizers = [each.optimizer for each in self._optimizers]
        trained = {id(one) for each in optimizers for group in each.param_groups for one in group["params"]}
        models = [each for each in self._models if any(id(one) in trained for one in each.parameters())]
        loaders = [each.plain for each in self._elastic_loaders]
        loaders.sort(key=lambda each: isinstance(each.sampler, SequentialSampler))
        if not (models and optimizers and loaders):
            raise LoopError("accelerator.epochs() before accelerator.prepare(model, optimizer, loader)")
        return _one_or_named(models), _one_or_named(optimizers), loaders[0]

    def batches(self) -> Iterator[Any]:
        """This worker's batches of the epoch, with the rank that it has by then."""
        for batch in () if self.run is None else self.run.batches():
            self._note_rank()
            yield batch
        self._note_rank()

    def backward(self, loss: torch.Tensor, **options: Any) -> torch.Tensor | None:
        """Compute the gradients of a step; see `Run.backward`, also for the loss that is returned."""
        if not self.is_elastic:
            super().backward(loss, **options)
            return None
        if self.run is None:
            raise LoopError(_NO_EPOCHS)
        options = {"weight": self.weight, "scaler": self.scaler, **options}
        self.step_loss = self.run.backward(loss, **options)
        parameters = (each for model in self._models for each in model.parameters())
        self.gradient_state._set_sync_gradients(any(each.grad is not None for each in parameters))
        return self.step_loss

    def accumulate(self, *models: Any) -> Any:
        return nullcontext() if self.is_elastic else super().accumulate(*models)  # the batches are one

    def unscale_gradients(self, optimizer: Any = None) -> None:
        """Do as Accelerate does, but in a pass that is not the step's last: it has no gradients."""
        if self.sync_gradients or not self.is_elastic:
            super().unscale_gradients(optimizer)

    def prepare_data_loader(self, data_loader: Any, *args: Any, **options: Any) -> Any:
        prepared = super().prepare_data_loader(data_loader, *args, **options)
        if not self.is_elastic or prepared is data_loader:
            return prepared
        self._elastic_loaders.append(ElasticLoader(self, data_loader, prepared))
        return self._elastic_loaders[-1]

    def prepare_optimizer(self, optimizer: Any, device_placement: bool | None = None) -> Any:
        prepared = super().prepare_optimizer(optimizer, device_placement)
        if self.is_elastic and type(prepared) is AcceleratedOptimizer:
            prepared.__class__, prepared.elastic = ElasticOptimizer, self
        return prepared

    def prepare_scheduler(self, scheduler: Any) -> Any:
        prepared = super().prepare_scheduler(scheduler)
        if self.is_elastic:
            prepared.__class__ = ElasticScheduler
        return prepared

    def skip_first_batches(self, dataloader: Any, num_batches: int = 0) -> Any:
        """The loader as it is, in a job, which goes on where it was by itself."""
        return dataloader if self.is_elastic else super().skip_first_batches(dataloader, num_batches)

    def _note_rank(self) -> None:
        """Have Accelerate know this worker's rank, which a resize may change."""
        _set_rank(0 if self.run is None else self.run.rank)
        if self.is_main_process and self._coming_trackers is not None:
            begin, self._coming_trackers = self._coming_trackers, None
            begin()

    def on_main_process(self, function: Callable[..., Any] | None = None) -> Any:
        if not self.is_elastic or function is None:
            return super().on_main_process(function)
        return lambda *args, **options: function(*args, **options) if self.is_main_process else None

    def on_local_main_process(self, function: Callable[..., Any] | None = None) -> Any:
        return self.on_main_process(function) if self.is_elastic else super().on_local_main_process(function)

    def init_trackers(self, *args: Any, **options: Any) -> None:
        """A job's trackers begin with its loop over epochs, when it is known which worker is the main one."""
        begin = functools.partial(super().init_trackers, *args, **options)
        if self.is_elastic and self.trained_loader is None:
            self._coming_trackers = begin
        else:
            begin()

    def log(self, *args: Any, **options: Any) -> None:
        if self.is_main_process or not self.is_elastic:
            super().log(*args, **options)

    def save_state(self, *args: Any, **options: Any) -> Any:
        """Save as Accelerate does. In a job the main process saves, and the others count it."""
        if self.run is None:
            return super().save_state(*args, **options)
        project = self.project_configuration
        project.iteration = number = self.run.state.setdefault("save_iteration", project.iteration)
        self.run.state["save_iteration"] = number + 1
        return super().save_state(*args, **options) if self.is_main_process else None


class ElasticLoader:
    """A prepared loader, which in the loop over epochs has the job's batches if it is trained on."""

    def __init__(self, accelerator: Accelerator, plain: DataLoader[Any], prepared: DataLoader[Any]) -> None:
        self._accelerator, self.plain, self._prepared = accelerator, plain, prepared

    def __iter__(self) -> Iterator[Any]:
        if self.plain is self._accelerator.trained_loader:
            yield from self._accelerator.batches()
            return
        rank, batches = self._accelerator.process_index, iter(self._prepared)
        while True:
            _set_rank(0)  # which alone is given what a stream has
            batch = next(batches, batches)
            _set_rank(rank)
            if batch is batches:
                return
            yield batch

    def __len__(self) -> int:
        return len(self._prepared)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._prepared, name)


class ElasticOptimizer(AcceleratedOptimizer):  # type: ignore[misc]
    """An optimizer that steps with the gradients of all workers."""

    def step(self, closure: None = None) -> None:
        run = self.elastic.run
        if run is None:
            raise LoopError(_NO_EPOCHS)
        scale = self.scaler.get_scale() if self.scaler is not None else 1.0
        run.step(self.optimizer)
        self._is_overflow = self.scaler is not None and self.scaler.get_scale() < scale
        self.gradient_state._set_sync_gradients(run.has_stepped)


class ElasticScheduler(AcceleratedScheduler):  # type: ignore[misc]
    """A scheduler that steps if the optimizer has, and once for all workers."""

    def step(self, *args: Any, **options: Any) -> None:
        if self.gradient_state.sync_gradients and not any(each.step_was_skipped for each in self.optimizers):
            self.scheduler.step(*args, **options)


def _set_rank(rank: int) -> None:
    for state in (PartialState(), AcceleratorState()):
        state.process_index = state.local_process_index = rank


def _one_or_named(things: Sequence[Any]) -> Any:
    return things[0] if len(things) == 1 else {f"part{place}": each for place, each in enumerate(things)}


def adapt() -> None:
    """Have scripts that import Accelerate from now on get this one."""
    check_version("accelerate", accelerate.__version__, TRIED)
    accelerate.Accelerator = accelerate.accelerator.Accelerator = Accelerator
