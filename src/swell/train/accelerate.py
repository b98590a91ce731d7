"""Accelerate in a Swell job: what `Accelerator.prepare` returns trains on workers that come and go."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import accelerate
import torch
from accelerate.state import AcceleratorState, PartialState

from swell.train.libraries import check_version, refuse
from swell.train.prepared_loop import ElasticLoader, PreparedLoop, as_elastic, whole_only
from swell.train.runtime.run import Run
from swell.wire import environ

#: The version with which this was tried.
TRIED = "1.15"
_REFUSED = (
    "deepspeed_plugin", "deepspeed_plugins", "fsdp_plugin", "megatron_lm_plugin", "parallelism_config"
)  # fmt: skip
_Library: Any = accelerate.Accelerator  # as it is before `adapt`


class Accelerator(_Library):  # type: ignore[misc]  # it has no types
    """Accelerate's own class. In a Swell job it is elastic, and elsewhere it is as always.

    A step of the job has the samples of `gradient_accumulation_steps` batches of the loader. The loop over
    epochs is `for epoch in accelerator.epochs(num_epochs):`. Each worker evaluates on all of the data, so
    that nothing is gathered, and `is_main_process` is true in all of them until that loop begins.
    """

    loop: PreparedLoop | None = None  #: of a Swell job
    weight: Any = None  #: of the next loss, see `Run.backward`
    _coming_trackers: Callable[[], None] | None = None
    gather, gather_for_metrics, reduce = map(
        whole_only, (_Library.gather, _Library.gather_for_metrics, _Library.reduce)
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        is_elastic = environ.AGENT in os.environ
        for name in _REFUSED if is_elastic else ():
            if options.get(name):
                refuse("Accelerator", name)
        super().__init__(*args, **options)
        if is_elastic:
            self.loop = PreparedLoop("accelerator", f"{__name__} import Accelerator", self._follow)

    def epochs(self, num: int | None = None, *, steps: int | None = None) -> Iterator[int]:
        """The epochs that are still to do: `range(num)` by itself. A job may end after `steps` instead."""
        if self.loop is None:
            return iter(itertools.count() if num is None else range(num))
        state = {f"scheduler{place}": each.scheduler for place, each in enumerate(self._schedulers)}
        state |= {f"object{place}": each for place, each in enumerate(self._custom_objects)}
        self.loop.models, self.loop.optimizers = self._models, [each.optimizer for each in self._optimizers]
        self.loop.loaders = [each.plain for each in self._dataloaders if isinstance(each, ElasticLoader)]
        return self.loop.epochs(self.gradient_accumulation_steps, epochs=num, steps=steps, state=state)

    def backward(self, loss: torch.Tensor, **options: Any) -> torch.Tensor | None:
        """Compute the gradients of a step; see `Run.backward`, also for the loss that is returned."""
        if self.loop is None:
            super().backward(loss, **options)
            return None
        told = self.loop.backward(loss, **{"weight": self.weight, "scaler": self.scaler, **options})
        self.gradient_state._set_sync_gradients(self.loop.has_gradients)
        return told

    def accumulate(self, *models: Any) -> Any:
        return super().accumulate(*models) if self.loop is None else nullcontext()  # the batches are one

    def unscale_gradients(self, optimizer: Any = None) -> None:
        """Do as Accelerate does, but in a pass that is not the step's last: it has no gradients."""
        if self.sync_gradients or self.loop is None:
            super().unscale_gradients(optimizer)

    def prepare_data_loader(self, data_loader: Any, *args: Any, **options: Any) -> Any:
        prepared = super().prepare_data_loader(data_loader, *args, **options)
        main = SimpleNamespace(process_index=0, num_processes=1, device=self.device)  # it reads streams alone
        return self._in_job(ElasticLoader, prepared, data_loader, self._dataloaders, state=main)

    def prepare_optimizer(self, optimizer: Any, device_placement: bool | None = None) -> Any:
        prepared = super().prepare_optimizer(optimizer, device_placement)
        return self._in_job(ElasticOptimizer, prepared, optimizer, self._optimizers)

    def prepare_scheduler(self, scheduler: Any) -> Any:
        prepared = super().prepare_scheduler(scheduler)
        return self._in_job(ElasticScheduler, prepared, scheduler, self._schedulers)

    def _in_job(self, form: type, prepared: Any, plain: Any, known: list[Any], **others: Any) -> Any:
        """What was prepared, and is the last one known, as a job needs it."""
        if self.loop is not None and prepared is not plain:
            known[-1] = prepared = as_elastic(prepared, form, loop=self.loop, plain=plain, **others)
        return prepared

    def skip_first_batches(self, dataloader: Any, num_batches: int = 0) -> Any:
        """The loader as it is, in a job, which goes on where it was by itself."""
        return super().skip_first_batches(dataloader, num_batches) if self.loop is None else dataloader

    def _follow(self, run: Run) -> None:
        """Have Accelerate know this worker's rank, which a resize may change."""
        for state in (PartialState(), AcceleratorState()):
            state.process_index = state.local_process_index = run.rank
        if self.is_main_process and self._coming_trackers is not None:
            begin, self._coming_trackers = self._coming_trackers, None
            begin()

    def on_main_process(self, function: Callable[..., Any] | None = None) -> Any:
        if self.loop is None or function is None:
            return super().on_main_process(function)
        return lambda *args, **options: function(*args, **options) if self.is_main_process else None

    def on_local_main_process(self, function: Callable[..., Any] | None = None) -> Any:
        return (
            super().on_local_main_process(function) if self.loop is None else self.on_main_process(function)
        )

    def init_trackers(self, *args: Any, **options: Any) -> None:
        """A job's trackers begin with its loop over epochs, when it is known which worker is the main one."""
        begin = functools.partial(super().init_trackers, *args, **options)
        if self.loop is not None and self.loop.run is None:
            self._coming_trackers = begin
        else:
            begin()

    def log(self, *args: Any, **options: Any) -> None:
        if self.is_main_process or self.loop is None:
            super().log(*args, **options)

    def save_state(self, *args: Any, **options: Any) -> Any:
        """Save as Accelerate does. In a job the main process saves, and the others count it."""
        if self.loop is None or self.loop.run is None:
            return super().save_state(*args, **options)
        project, kept = self.project_configuration, self.loop.run.state
        project.iteration = number = kept.setdefault("save_iteration", project.iteration)
        kept["save_iteration"] = number + 1
        return super().save_state(*args, **options) if self.is_main_process else None


class ElasticOptimizer:
    """What a prepared optimizer is besides: it steps with the gradients of all workers."""

    def step(self: Any, closure: None = None) -> None:
        scale = self.scaler.get_scale() if self.scaler is not None else 1.0
        self.loop.begun.step(self.optimizer)
        self._is_overflow = self.scaler is not None and self.scaler.get_scale() < scale
        self.gradient_state._set_sync_gradients(self.loop.run.has_stepped)


class ElasticScheduler:
    """What a prepared scheduler is besides: it steps if the optimizer has, and once for all workers."""

    def step(self: Any, *args: Any, **options: Any) -> None:
        if self.gradient_state.sync_gradients and not any(each.step_was_skipped for each in self.optimizers):
            self.scheduler.step(*args, **options)


def adapt() -> None:
    """Have scripts that import Accelerate from now on get this one."""
    check_version("accelerate", accelerate.__version__, TRIED)
    accelerate.Accelerator = accelerate.accelerator.Accelerator = Accelerator
