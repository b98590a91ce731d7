"""`transformers.Trainer` in a Swell job: its loop over epochs and batches, on workers that come and go."""

from __future__ import annotations

import functools
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import transformers
import transformers.trainer
from torch.optim.lr_scheduler import ReduceLROnPlateau
from transformers.trainer_callback import PrinterCallback, ProgressCallback, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from swell.train import accelerate
from swell.train.libraries import RESTART, check_version, refuse
from swell.train.prepared_loop import leave_to_leader
from swell.train.runtime.run import Run
from swell.train.state.script_values import plain_attributes
from swell.wire import environ

#: The version with which this was tried.
TRIED = "5.24"
_Library: Any = transformers.trainer.Trainer
#: What `TrainerState` counts and keeps while it trains.
_KEPT = (
    "epoch", "num_input_tokens_seen", "total_flos", "log_history", "best_metric", "best_global_step",
    "best_model_checkpoint",
)  # fmt: skip
#: Callbacks of these packages hold what only their own process has, such as an open file.
_WITHOUT_STATE = ("swell.", "transformers.integrations.", "transformers.utils.notebook", "trl.")


class TrainerProgress:
    """What a Trainer and its callbacks count and keep, which each worker of the job must have."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.saved_step = -1  #: after which the main process has begun to save last

    def state_dict(self) -> dict[str, Any]:
        trainer = self._trainer
        numbers = {key: each for key, each in vars(trainer).items() if type(each) in (int, float)}
        return {
            "state": {key: getattr(trainer.state, key) for key in _KEPT},
            "numbers": {**numbers, "_tr_loss": float(trainer._tr_loss)},
            "callbacks": [plain_attributes(callback) for callback in self._callbacks()],
            "stops": trainer.control.should_training_stop,
            "saved_step": self.saved_step,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        trainer, numbers = self._trainer, dict(state["numbers"])
        trainer._tr_loss.fill_(numbers.pop("_tr_loss"))
        callbacks = zip(self._callbacks(), state["callbacks"], strict=True)
        for thing, values in ((trainer.state, state["state"]), (trainer, numbers), *callbacks):
            for key, value in values.items():
                setattr(thing, key, value)
        trainer.control.should_training_stop, self.saved_step = state["stops"], state["saved_step"]

    def _callbacks(self) -> list[Any]:
        known = self._trainer.callback_handler.callbacks
        return [each for each in known if not type(each).__module__.startswith(_WITHOUT_STATE)]


class ElasticLoop(TrainerCallback):  # type: ignore[misc]
    """The training loop of a Trainer, in place of its own `_inner_training_loop`."""

    def __init__(self, trainer: Any, ignore_keys: list[str] | None) -> None:
        self._trainer, self._ignore_keys = trainer, ignore_keys
        self._start_s = time.time()
        trainer.accelerator.free_memory()
        if trainer.pop_callback(ProgressCallback) is not None:  # a job's output is no terminal
            trainer.add_callback(PrinterCallback)
        trainer.add_callback(self)
        loader = trainer.get_train_dataloader()
        epochs, self._num_steps, num_examples, self._num_samples, batch, self._num_batches, steps = (
            trainer.set_initial_training_values(trainer.args, loader)
        )
        trainer._init_training_state(steps, self._num_steps, epochs, None, None)
        trainer._tr_loss = torch.tensor(0.0, device=trainer.args.device)
        trainer._initial_num_input_tokens_seen = trainer._initial_global_step = 0
        trainer._total_loss_scalar, trainer._globalstep_last_logged = 0.0, 0
        self._model, _ = trainer._prepare_for_training(steps, loader, None)
        self._progress = TrainerProgress(trainer)
        self._run, self._joined = self._begin(loader, steps), trainer.args.gradient_accumulation_steps
        if self._run.own_batch != batch:
            self._num_steps = self._num_batches = math.ceil(num_examples / self._run.own_batch)
            self._joined = 1
        if not self._run.steps:
            self._check_folder(trainer.asked_checkpoint)
        if self._run.is_leader and not self._run.steps:
            parts = "per_device_train_batch_size x gradient_accumulation_steps"
            why = parts if self._run.own_batch == batch else f"as the job was submitted, in place of {batch}"
            sys.stderr.write(f"a step has {self._run.own_batch} samples on all workers together: {why}\n")
        self._was_leader, self._is_new_step = self._run.is_leader, True
        self._grad_norm = self._learning_rate = None

    def _begin(self, loader: Any, steps: int) -> Run:
        trainer, args, scheduler = self._trainer, self._trainer.args, self._trainer.lr_scheduler
        state: dict[str, Any] = {"trainer": self._progress}
        if isinstance(scheduler, ReduceLROnPlateau | transformers.trainer.GreedyLR):  # it steps on a metric
            state["scheduler"], scheduler = scheduler, None
        has_epochs = args.max_steps <= 0 and float(args.num_train_epochs).is_integer()
        end = {"epochs": int(args.num_train_epochs)} if has_epochs else {"steps": steps}
        begin, num_batches = trainer.accelerator.loop.begin, args.gradient_accumulation_steps
        parts = self._model, trainer.optimizer.optimizer, loader.plain, num_batches
        return begin(*parts, scheduler=scheduler, state=state, **end)  # type: ignore[no-any-return]

    def _check_folder(self, checkpoint: str | None) -> None:
        """The job begins. Raises ValueError where it is to go on from a checkpoint of another run."""
        own, job = Path(self._trainer.args.output_dir, "swell-job"), os.environ.get(environ.JOB_ID, "")
        known = own.read_text() if own.is_file() else None
        if checkpoint and job != known:
            raise ValueError(
                f"Trainer.train(resume_from_checkpoint={checkpoint!r}): a Swell job begins with step 0, and "
                "that checkpoint is of another run; take another output_dir, give the checkpoint to "
                f"from_pretrained() to begin with its weights, {RESTART}"
            )
        if self._run.is_leader and job != known:
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_text(job)

    def train(self) -> Any:
        trainer, run = self._trainer, self._run
        trainer._save_checkpoint = self._saving(trainer._save_checkpoint)
        self._note_rank()
        if run.total_steps is not None:
            trainer.state.max_steps = run.total_steps
        self._model.zero_grad()
        is_stopping = trainer.control.should_training_stop
        self._call("on_train_begin")  # which forgets that it stops
        trainer.control.should_training_stop = is_stopping
        if trainer.args.eval_on_start and not run.steps:
            trainer._evaluate(None, self._ignore_keys, skip_scheduler=True)
        for epoch in run.epochs():
            if not trainer.control.should_training_stop:  # it may have been restored
                self._train_epoch(epoch)
            if trainer.control.should_training_stop and not run.should_stop():
                break
        trainer.accelerator.loop.trained = None
        leave_to_leader(run)
        return trainer._finalize_training(None, self._num_samples, self._start_s)

    def _train_epoch(self, epoch: int) -> None:
        trainer = self._trainer
        self._call("on_epoch_begin")
        for inputs in trainer.accelerator.loop.batches():
            self._note_rank()
            self._make_pass(epoch, inputs)
            is_stopping = trainer.control.should_training_stop and not self._run.should_stop()
            if is_stopping or trainer.control.should_epoch_stop:
                break
        self._call("on_epoch_end")
        self._log_save_evaluate(epoch)

    def _make_pass(self, epoch: int, inputs: Any) -> None:
        """One pass of a step, and what follows if it was the last."""
        trainer, run, args = self._trainer, self._run, self._trainer.args
        if self._is_new_step:
            self._call("on_step_begin")
        accelerator, share, trainer.current_gradient_accumulation_steps = trainer.accelerator, run.share, 1
        _, num_items = trainer.get_batch_samples(iter([inputs]), 1, args.device)
        accelerator.weight = num_items
        trainer.training_step(self._model, inputs, num_items)
        if accelerator.sync_gradients:
            most = args.max_grad_norm if args.max_grad_norm and args.max_grad_norm > 0 else math.inf
            self._grad_norm = accelerator.clip_grad_norm_(self._model.parameters(), most)
            self._call("on_pre_optimizer_step")
        self._learning_rate = trainer._get_learning_rate()
        trainer.optimizer.step()
        self._is_new_step = run.has_stepped
        if not run.has_stepped:
            self._call("on_substep_end")
            return
        self._call("on_optimizer_step")
        self._model.zero_grad()
        trainer.state.global_step = run.steps
        num_batches = self._joined * (run.steps - epoch * self._num_steps)
        trainer.state.epoch = epoch + min(1.0, num_batches / self._num_batches)
        self._count(accelerator.loop.step_loss, inputs, share)
        self._call("on_step_end")
        self._log_save_evaluate(epoch)

    def _count(self, loss: torch.Tensor, inputs: Any, share: Any) -> None:
        """Count the loss of the step that was made, and what this worker's last pass tells of its size."""
        trainer = self._trainer
        is_odd = trainer.args.logging_nan_inf_filter and not torch.isfinite(loss)
        num_steps = 1 + trainer.state.global_step - trainer._globalstep_last_logged
        trainer._tr_loss += trainer._tr_loss / num_steps if is_odd else loss
        factor = share.num_global / max(1, share.passes[-1].num_local)
        trainer.current_flos += factor * float(trainer.floating_point_ops(inputs))
        state, before = trainer.state, trainer.state.num_input_tokens_seen
        trainer._track_num_input_tokens(inputs)
        state.num_input_tokens_seen = before + round(factor * (state.num_input_tokens_seen - before))

    def _log_save_evaluate(self, epoch: int) -> None:
        trainer = self._trainer
        told = trainer._tr_loss, self._grad_norm, self._model, None, epoch, self._ignore_keys, self._start_s
        trainer._maybe_log_save_evaluate(*told, learning_rate=self._learning_rate)

    def on_evaluate(self, *_: Any, metrics: dict[str, Any], **others: Any) -> None:
        """Tell the job's owner what an evaluation has measured, which is the same on all workers."""
        told: dict[str, Any] = {key: each for key, each in metrics.items() if isinstance(each, int | float)}
        own = "epoch", "_runtime", "_per_second", "_time"  # of this worker, or no measurement
        self._run.report(**{key: each for key, each in told.items() if not key.endswith(own)})

    def _call(self, event: str) -> None:
        trainer = self._trainer
        call = getattr(trainer.callback_handler, event)
        trainer.control = call(trainer.args, trainer.state, trainer.control)

    def _note_rank(self) -> None:
        state, is_leader = self._trainer.state, self._run.is_leader
        state.global_step = self._run.steps
        state.is_local_process_zero = state.is_world_process_zero = is_leader
        if is_leader and not self._was_leader and self._progress.saved_step == self._run.steps:
            folder = os.path.join(self._trainer.args.output_dir, f"checkpoint-{self._run.steps}")
            if not os.path.isfile(os.path.join(folder, "trainer_state.json")):  # the last one died meanwhile
                self._trainer._save_checkpoint(self._model, None)
        self._was_leader = is_leader

    def _saving(self, save: Any) -> Any:
        """Have the main process save, and the others note it as that does."""

        def save_once(model: Any, trial: None) -> None:
            state = self._trainer.state
            self._progress.saved_step = state.global_step
            if self._run.is_leader:
                save(model, trial)
                return
            self._trainer.store_flos()
            best = os.path.join(self._trainer.args.output_dir, f"checkpoint-{state.best_global_step}")
            if state.best_global_step == state.global_step or os.path.exists(best):
                state.best_model_checkpoint = best

        return save_once


def _inner_training_loop(
    self: Any, *args: Any, trial: Any = None, ignore_keys_for_eval: Any = None, **options: Any
) -> Any:
    if not hasattr(self, "_prepare_for_training"):
        raise RuntimeError(f"transformers {transformers.__version__}: install transformers>=5, {RESTART}")
    if trial is not None:
        refuse("Trainer", "hyperparameter_search()")
    if self.args.auto_find_batch_size:
        refuse("Trainer", "auto_find_batch_size")
    return ElasticLoop(self, ignore_keys_for_eval).train()


_train = _Library.train


@functools.wraps(_train)
def _train_where_the_job_is(self: Any, resume_from_checkpoint: Any = None, *args: Any, **options: Any) -> Any:
    """Train from where the job is. A checkpoint of its Trainer is not read, and another run's refused."""
    found = get_last_checkpoint(self.args.output_dir) if resume_from_checkpoint is True else None
    self.asked_checkpoint = found or resume_from_checkpoint
    return _train(self, None, *args, **options)


def adapt() -> None:
    """Have each Trainer of this process train in an elastic loop."""
    check_version("transformers", transformers.__version__, TRIED)
    accelerate.adapt()
    transformers.trainer.Accelerator = accelerate.Accelerator
    _Library._inner_training_loop, _Library.train = _inner_training_loop, _train_where_the_job_is
