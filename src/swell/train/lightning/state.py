"""What of a Lightning Trainer belongs to the state of its job, besides model and optimizers."""

from __future__ import annotations

import copy
import os
from typing import Any

from swell.train.state.script_values import plain_attributes

#: Of what Lightning's results keep, and of its connector to loggers.
_OPTIONS = ("fx", "name", "prog_bar", "logger", "on_step", "on_epoch", "enable_graph", "add_dataloader_idx")
_LOGGED = ("_progress_bar_metrics", "_logged_metrics", "_callback_metrics", "_first_loop_iter", "_current_fx")
#: Parts of a checkpoint of Lightning's that are saved otherwise, or are the script's own.
_OTHERS = {"state_dict", "loops", "optimizer_states"}


class TrainerState:
    """An entry of `run.state`: a checkpoint of Lightning's, and what that lacks amid an epoch."""

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
