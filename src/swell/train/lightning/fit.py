"""The loop of a Lightning Trainer that trains on workers which come and go, in place of Lightning's own.

Lightning's loops make the hooks, validation, checkpoints and logs of each batch. Swell decides which epoch
and batches these are, sums the gradients, and steps. A batch is all that Lightning computes between two
updates: those that it accumulates, on all devices that the script names. A worker gets its part of these
samples in passes of the loader's batch size, all but the last of which compute gradients alone.
"""

from __future__ import annotations

import copy
import math
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from swell.train.elastic import elastic
from swell.train.libraries import refuse
from swell.train.lightning.logs import StepLogs, keep_earlier_rows
from swell.train.prepared_loop import joined, leave_to_leader
from swell.train.runtime.run import Run
from swell.train.state.script_values import plain_attributes


class StepLost(Exception):
    """The step comes again, for a worker was lost: what follows a step in Lightning's loops is left out."""


class ElasticFit:
    """What a Trainer in a Swell job does otherwise. To Lightning's loop it is what fetches batches."""

    run: Run

    def __init__(self, trainer: Any, package: str, num_devices: int) -> None:
        self.trainer, self._package, self._num_devices = trainer, package, num_devices
        self.loop, self.batch_loop = trainer.fit_loop, trainer.fit_loop.epoch_loop
        self._loader: Any = None  # of the script
        self._batches: Iterator[Any] = iter(())
        self.done = False  #: the epoch's last batch is out
        self._has_batch = self._is_lost = False  # a step is under way; it comes again
        self._is_open = False  # a batch of several optimizers, which does not count yet
        self._is_leader = False
        self.logs = StepLogs(trainer)
        self.state = TrainerState(trainer, self.logs.log_now)
        progress, strategy = self.batch_loop.batch_progress, trainer.strategy
        replace_method(self.loop, "run", self._fit)
        self._setup_data = replace_method(self.loop, "setup_data", self._setup_loader)
        self._train_manually = replace_method(self.batch_loop.manual_optimization, "run", self._run_manual)
        self._log = replace_method(trainer._logger_connector, "log_metrics", self._log_and_report)
        self._save = replace_method(strategy, "save_checkpoint", self._save_checkpoint)
        replace_method(strategy, "backward", self._backward)
        replace_method(strategy, "optimizer_step", self._optimizer_step)
        replace_method(self.batch_loop, "_num_ready_batches_reached", lambda: progress.is_last_batch)
        replace_method(trainer._signal_connector, "register_signal_handlers", lambda: None)  # Swell's stay

    # ------------------------------------------------------------------ before the loop
    def _setup_loader(self) -> None:
        """Have Lightning know how many batches the script's epoch has, and load none."""
        if self._loader is not None:
            return
        source = self.loop._data_source
        self._loader = loader = source.dataloader()
        if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
            refuse("Trainer.fit", "training data that are no DataLoader of a dataset with a length")
        shown, length = copy.copy(loader), -(-len(loader) // self._num_devices)
        own = {"__iter__": lambda each: iter(()), "__len__": lambda each: length}
        shown.__class__ = type(type(loader).__name__, (type(loader),), own)
        source.instance, source.name = shown, ""
        self._setup_data()

    def _begin(self) -> None:
        """Join the job, and take over its state."""
        trainer, module, loader = self.trainer, self.trainer.lightning_module, self._loader
        self._refuse()
        for each in module.modules():
            if hasattr(each, "sync_on_compute"):  # a metric, which all workers compute alike
                each.sync_on_compute = False
        self.state.begin()
        precision, is_automatic = trainer.strategy.precision_plugin, module.automatic_optimization
        self._scaler, precision.scaler = getattr(precision, "scaler", None), None  # Swell scales
        num = trainer.accumulate_grad_batches * self._num_devices
        several, optimizers = joined(loader, num), trainer.optimizers
        batches: Any = several.batch_sampler
        options: dict[str, Any] = {"state": {"lightning": self.state}, **self._end(len(batches))}
        if is_automatic and num > 1:
            options["max_local_batch"] = loader.batch_size
        self.run = elastic(
            {"module": module, "logs": self.logs.carrier_of(module)},
            optimizers[0] if is_automatic else {str(place): each for place, each in enumerate(optimizers)},
            several,
            seed=int(os.environ.get("PL_GLOBAL_SEED", 0)),  # of `seed_everything`
            **options,
        )
        own = self.run.own_batch
        if type(batches) is BatchSampler:
            batches = BatchSampler(batches.sampler, own, batches.drop_last)
        is_whole = trainer.check_val_every_n_epoch and trainer.val_check_batch >= self.loop.max_batches
        between = max(1, trainer.val_check_batch // trainer.accumulate_grad_batches)
        trainer.val_check_batch = math.inf if is_whole else between  # after an epoch, whatever batches it has
        self.loop.max_batches = len(batches)
        several_named = f"accumulate_grad_batches {trainer.accumulate_grad_batches} x {self._num_devices}"
        trainer.accumulate_grad_batches = 1  # from here on
        self._follow()
        if self.run.is_leader and not self.run.updates:
            told = f"a step has {own} samples on all workers: batch_size {loader.batch_size}"
            sys.stderr.write(f"{told} x {several_named} devices\n")

    def _refuse(self) -> None:
        """Raises ValueError for what workers would not do alike, or Swell does in its place."""
        for each in self.trainer.callbacks:
            if type(each).__name__ == "GradientAccumulationScheduler":
                refuse("Trainer.fit", "the callback GradientAccumulationScheduler")
            if getattr(each, "_train_time_interval", None):
                refuse("Trainer.fit", "ModelCheckpoint(train_time_interval=...)")
        if getattr(self.trainer, "_val_check_time_interval", None) is not None:
            refuse("Trainer.fit", "val_check_interval as a time")
        if "backward" in vars(type(self.trainer.lightning_module)):
            refuse("Trainer.fit", "a backward of the module's own")

    def _end(self, num_batches: int) -> dict[str, int]:
        """After how many epochs or steps the script's own training ends."""
        steps, epochs = self.trainer.max_steps, self.loop.max_epochs
        if steps == -1:
            return {} if epochs in (None, -1) else {"epochs": epochs}
        if not self.trainer.lightning_module.automatic_optimization:  # those of all optimizers are counted
            steps = -(-steps // len(self.trainer.optimizers))
        return {"steps": steps if epochs in (None, -1) else min(steps, epochs * num_batches)}

    def _follow(self) -> None:
        """Know the rank that this worker has by now."""
        self.trainer.strategy.set_rank(self.run.rank)
        if self.run.is_leader and not self._is_leader:
            keep_earlier_rows(self.trainer.loggers, self.batch_loop._batches_that_stepped)
            if self.trainer.enable_autolog_hparams:
                import_module(f"{self._package}.loggers.utilities")._log_hyperparams(self.trainer)
        self._is_leader = self.run.is_leader

    # ------------------------------------------------------------------ the loop
    def _fit(self) -> None:
        """Train, in place of the fit loop's `run`."""
        loop = self.loop
        loop.setup_data()
        if loop.skip:
            return
        loop.reset()
        loop.on_run_start()
        self._begin()
        for _ in self.run.epochs():
            loop.on_advance_start()
            self._train_epoch()
            loop.on_advance_end()
            loop.on_iteration_done()
            if self._stops:
                break
        leave_to_leader(self.run)
        loop.epoch_progress.current.completed = loop.epoch_progress.current.processed
        loop.on_run_end()

    @property
    def _stops(self) -> bool:
        return bool(self.trainer.should_stop and self.loop._can_stop_early)

    def _train_epoch(self) -> None:
        """Go through an epoch's batches, in place of the training epoch loop's `run`."""
        loop = self.batch_loop
        loop.reset()
        self._batches, self.done = self.run.batches(), False
        while not (self.done or self.run.should_stop() or self._stops):
            try:
                loop.advance(self)
            except StepLost:
                self.trainer.lightning_module._current_fx_name = None
                continue
            except StopIteration:
                if self._has_batch:  # the script leaves the epoch
                    return
                self.done = loop.batch_progress.is_last_batch = True
                loop.update_lr_schedulers("epoch", update_plateau_schedulers=False)
            if self.done:
                next(self._batches, None)
                self._is_open = False
            loop.on_advance_end(self)
            loop.on_iteration_done()

    def __next__(self) -> tuple[Any, int, int]:
        """The batch of the last pass of a step; the passes before it are computed."""
        self.state.step_began_with = None
        self._is_open = self._is_lost = self._has_batch = False
        batch = next(self._batches)
        self._has_batch, self._epoch = True, self.run.epoch
        self._follow()
        self.state.step_began_with = self.loop.state_dict()
        self._is_open = not self.trainer.lightning_module.automatic_optimization
        for _ in self.logs.begin_step(self.run.share):
            self._compute(batch)
            batch = next(self._batches)
        return batch, 0, 0

    def _compute(self, batch: Any) -> None:
        """Compute the gradients of a pass that is not the step's last, as the batch loop's `advance` does."""
        trainer, loop = self.trainer, self.batch_loop
        batch = trainer.precision_plugin.convert_input(batch)
        batch = trainer.lightning_module._on_before_batch_transfer(batch, dataloader_idx=0)
        batch = trainer.strategy.batch_to_device(batch, dataloader_idx=0)
        kwargs = loop._build_kwargs(OrderedDict(), batch, loop.batch_idx + 1)
        loop.automatic_optimization._make_closure(kwargs, trainer.optimizers[0], loop.batch_idx + 1)()

    # ------------------------------------------------------------------ the step
    def _backward(self, loss: torch.Tensor, optimizer: Any, *args: Any, **options: Any) -> torch.Tensor:
        """Sum the gradients over the workers, in place of the strategy's `backward`."""
        precision, module = self.trainer.strategy.precision_plugin, self.trainer.lightning_module
        loss = precision.pre_backward(loss, module)
        if module.automatic_optimization:
            self.logs.write()
        told = self.run.backward(loss, scaler=self._scaler, **options)
        precision.post_backward(loss, module)
        return told

    def _optimizer_step(self, optimizer: Any, closure: Any, model: Any = None, **options: Any) -> Any:
        """Step with the gradients of all workers, in place of the strategy's `optimizer_step`."""
        module, result = self.trainer.lightning_module, closure()
        if module.automatic_optimization:
            self.logs.read()
        if self._scaler is not None:
            self._scaler.unscale_(optimizer)
        self.trainer.strategy.precision_plugin._after_closure(module, optimizer)  # its hooks, and clipping
        self.run.step(optimizer)
        self._is_lost |= not self.run.has_stepped
        if module.automatic_optimization:
            self._end_step(self.run.epoch != self._epoch)
        return result

    def _run_manual(self, kwargs: Any) -> Any:
        """Run a training step that steps by itself, and sum what it has logged."""
        output = self._train_manually(kwargs)
        if self.logs.values:
            self.logs.write()
            self.run.backward(torch.zeros((), device=self.run.device))
            self.logs.read()
        self._end_step((self.run.steps + 1) % self.loop.max_batches == 0)
        return output

    def _end_step(self, is_last: bool) -> None:
        """A training step, which is the epoch's last or not, has come to its end. Raises StepLost."""
        if self._is_lost:
            raise StepLost
        self.done = self.batch_loop.batch_progress.is_last_batch = is_last
        self.logs.log()

    # ------------------------------------------------------------------ what is told and written
    def _log_and_report(self, metrics: dict[str, Any], step: int | None = None) -> None:
        """Log, and show the same numbers as curves of the job."""
        self._log(metrics, step)
        if step is None and hasattr(self, "run"):
            numbers: dict[str, Any] = {name: float(value) for name, value in metrics.items()}
            self.run.report(step=self.run.steps + self._is_open, **numbers)

    def _save_checkpoint(self, checkpoint: Any, filepath: Any, *args: Any, **options: Any) -> None:
        self.state.written.append(str(filepath))
        self._save(checkpoint, filepath, *args, **options)


def replace_method(of: Any, name: str, function: Callable[..., Any]) -> Any:
    """Have a method of one object be another function; return the method."""
    method = getattr(of, name)
    setattr(of, name, function)
    return method


#: Of what Lightning's results keep, and of its connector to loggers.
_OPTIONS = ("fx", "name", "prog_bar", "logger", "on_step", "on_epoch", "enable_graph", "add_dataloader_idx")
_LOGGED = ("_progress_bar_metrics", "_logged_metrics", "_callback_metrics", "_first_loop_iter", "_current_fx")
#: Parts of a checkpoint of Lightning's that are saved otherwise, or are the script's own.
_OTHERS = {"state_dict", "loops", "optimizer_states"}


class TrainerState:
    """What of a Trainer is state of its job, besides model and optimizers: an entry of `run.state`.

    It has a checkpoint of Lightning's, and what that lacks amid an epoch.
    """

    def __init__(self, trainer: Any, log_now: Any) -> None:
        self._trainer, self._log_now = trainer, log_now
        self.written: list[str] = []  # checkpoints, as all workers know them
        #: Progress before the step under way, for Lightning counts a batch before it is known if it counts.
        self.step_began_with: dict[str, Any] | None = None

    def begin(self) -> None:
        """Know files by what the job has written, not by what another worker may be writing."""
        for each in self._trainer.callbacks:
            if hasattr(each, "file_exists"):
                folder = each.dirpath or ""
                names = os.listdir(folder) if os.path.isdir(folder) else []
                self.written += [os.path.join(folder, name) for name in names]
                each.file_exists = lambda path, trainer: str(path) in self.written
        for logger in self._trainer.loggers:
            _ = logger.version

    def state_dict(self) -> dict[str, Any]:
        trainer, connector = self._trainer, self._trainer._logger_connector
        saved = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        saved = {
            name: saved[name]
            for name in saved.keys() - _OTHERS
            if "hparams" not in name and "hyper" not in name
        }
        results = trainer.fit_loop.epoch_loop._results.values()
        return {
            "checkpoint": saved,
            "loops": self.step_began_with or trainer.fit_loop.state_dict(),
            "results": [_packed(each) for each in results if each.is_tensor and not each.has_reset],
            "logged": {name: copy.copy(getattr(connector, name)) for name in _LOGGED},
            "callbacks": [_plain(each) for each in trainer.callbacks],
            "loggers": [getattr(each, "_version", None) for each in trainer.loggers],
            "should_stop": trainer.should_stop,
            "written": [*self.written],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        trainer = self._trainer
        self.step_began_with, self.written[:] = None, state["written"]
        trainer.should_stop = state["should_stop"]
        vars(trainer._logger_connector).update(state["logged"])
        for logger, version in zip(trainer.loggers, state["loggers"], strict=True):
            if version is not None:
                logger._version = version
        for callback, values in zip(trainer.callbacks, state["callbacks"], strict=True):
            vars(callback).update(values)
        connector = trainer._checkpoint_connector
        model = {"state_dict": trainer.lightning_module.state_dict()}
        connector._loaded_checkpoint = {**state["checkpoint"], **model}
        connector.restore_datamodule()
        trainer.lightning_module.on_load_checkpoint(connector._loaded_checkpoint)
        connector.restore_callbacks()
        connector.restore_lr_schedulers()
        connector._loaded_checkpoint = {}
        fit = trainer.fit_loop
        fit.load_state_dict(state["loops"])
        for loop in (fit, *vars(fit).values(), *vars(fit.epoch_loop).values()):
            if hasattr(loop, "on_iteration_done"):  # it goes on where it was saved, and does not begin again
                loop.on_iteration_done()
        fit.epoch_loop._results.clear()
        for options, value, num in state["results"]:
            value = value.to(trainer.lightning_module.device)
            self._log_now(**options, value=value, batch_size=num, sync_dist_fn=trainer.strategy.reduce)


def _packed(result: Any) -> tuple[dict[str, Any], Any, int]:
    """How to log once what was logged in an epoch so far."""
    options = {name: getattr(result.meta, name) for name in _OPTIONS}
    num = int(getattr(result, "cumulated_batch_size", 1)) or 1
    return {**options, "reduce_fx": result.meta.reduce_fx.__name__}, result.value.detach() / num, num


def _plain(callback: Any) -> dict[str, Any]:
    """Values that a callback counts and keeps, but for times of this process."""
    return {name: value for name, value in plain_attributes(callback).items() if "time" not in name}
