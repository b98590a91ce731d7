"""A script that is not managed: one process, no group."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from swell.tally import Reduction
from swell.train.collective.gradients import StepTotals, StepVote
from swell.train.collective.group import Group
from swell.train.data.sample_schedule import Share
from swell.train.data.stream_schedule import AnyCourse
from swell.train.runtime.host import Task
from swell.train.runtime.not_finite import LossNotFinite, keep, not_finite, say
from swell.train.state.background_save import BackgroundSave
from swell.train.state.checkpoint import Checkpoints, SaveError


class StandaloneWorker:
    """`python train.py`."""

    edition = 0
    is_amid_epoch = True

    def __init__(
        self,
        device: torch.device,
        seed: int,
        max_local_batch: int | None,
        checkpoints: Checkpoints | None,
    ) -> None:
        self.device = device
        self.seed = seed
        self.max_local_batch = max_local_batch
        self._checkpoints = checkpoints
        self._background_save = None if checkpoints is None else BackgroundSave(checkpoints, _warn_of_slow)
        self._is_unsaved = False  # a step is done since a checkpoint was thought of
        self._group = Group(device)  # of one, never formed

    @property
    def rank(self) -> int:
        return self._group.rank

    @property
    def num_workers(self) -> int:
        return self._group.num_workers

    def global_batch(self, own: int) -> int:
        return own

    def adapt(self, course: AnyCourse) -> AnyCourse:
        return course

    def total_steps(self, own: int | None) -> int:
        if own is None:
            raise ValueError(
                "elastic() needs epochs=..., passes over the data, or steps=..., outside of a Swell job"
            )
        return own

    def end_epoch(self, own: int | None) -> int | None:
        return own

    @property
    def measures_noise(self) -> bool:
        return False

    def stops_on_nan(self, own: bool) -> bool:
        return own

    def enter(self, task: Task) -> None:
        self._task = task
        task.state.losses.tell_odd = say
        if self._checkpoints is not None:
            self._checkpoints.load_newest(task.state)

    def reach_boundary(self) -> None:
        self._save_if_due()

    def leave_batches(self, is_over: bool) -> None:
        if not is_over:  # it need not come back
            self._save_if_due()

    def share(self, step: int) -> Share:
        return self._task.course.share(step, self.rank, self.num_workers, self.max_local_batch)

    def reduce(self, share: Share, loss: torch.Tensor, stop: bool) -> StepTotals:
        return self._task.gradients.reduce(share, loss, StepVote(stop=stop), self._group)

    def finish_step(self, tally: StepTotals) -> None:
        self._is_unsaved = True

    def give_up(self, loss: torch.Tensor) -> LossNotFinite:
        folder, kept_steps = keep_if_asked(self._checkpoints, self._task)
        return not_finite(float(loss), self._task.state, folder, kept_steps)

    def keep(self, is_end: bool) -> None:
        """It is not started again."""

    def report(self, metrics: dict[str, float], step: int | None, reduction: Reduction) -> bool:
        return False

    def finish(self, is_early: bool) -> None:
        if self._background_save is not None:
            _warn_of_failed(self._background_save.wait)
        self._save_if_due(is_end=True)
        self._task.state.losses.read()

    def _save_if_due(self, is_end: bool = False) -> None:
        """A script that asked for checkpoints is warned when one cannot be written, and trains on."""
        is_unsaved, self._is_unsaved = self._is_unsaved and self.rank == 0, False
        save = self._background_save
        if self._checkpoints is None or save is None:
            return
        if not save.is_idle:
            _warn_of_failed(save.take)
        if is_unsaved and save.is_idle and self._checkpoints.is_due():
            begin = self._checkpoints.save if is_end else save.begin
            _warn_of_failed(lambda: begin(self._task.state))


def _warn_of_failed(save: Callable[[], object]) -> None:
    try:
        save()
    except SaveError as error:
        warnings.warn(str(error), stacklevel=3)


def _warn_of_slow(steps: int, message: str) -> None:
    warnings.warn(message, stacklevel=3)


def keep_if_asked(checkpoints: Checkpoints | None, task: Task) -> tuple[Path | None, int | None]:
    """The folder and the steps of the newest checkpoint, after an attempt to write one."""
    return (None, None) if checkpoints is None else (checkpoints.folder, keep(checkpoints, task.state))
