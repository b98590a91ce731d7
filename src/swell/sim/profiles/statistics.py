"""What a step is worth: how far training gets with steps of different batches, as it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swell.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Validation:
    """One training run at a fixed batch, a row an epoch."""

    global_batch: int
    progress: FloatArray  #: (E,) at the end of each, in steps of the smallest batch that are worth as much
    grad_sqr: FloatArray  #: (E,) squared norm of the true gradient
    grad_var: FloatArray  #: (E,) variance of the smallest batch's gradient


class GradientStatistics:
    """The gain of a step at each batch and epoch, from runs at several batches.

    A step at batch M gets as far as `gain(M)` steps at the smallest batch m, with the gradients' variance v
    and squared norm s at that epoch: `(v + s) / (v m / M + s)`. Between the batches of the runs v and s are
    on a line.

    References: Qiao et al., "Pollux", OSDI 2021, sections 3.1 and 5.3; Johnson et
        al., "AdaScale SGD", ICML 2020 (the gain).
    """

    def __init__(self, runs: Sequence[Validation]) -> None:
        runs = sorted(runs, key=lambda run: run.global_batch)
        num_epochs = min(len(run.progress) for run in runs)
        self.batches = tuple(run.global_batch for run in runs)
        self._sqr = np.array([run.grad_sqr[:num_epochs] for run in runs])
        self._var = np.array([run.grad_var[:num_epochs] for run in runs])
        self.progress: FloatArray = np.min([run.progress[:num_epochs] for run in runs], axis=0)
        self._gains: dict[float, FloatArray] = {}

    @property
    def least_batch(self) -> int:
        return self.batches[0]

    @property
    def most_batch(self) -> int:
        return self.batches[-1]

    @cached_property
    def epoch_progress(self) -> FloatArray:
        """(E,) of each epoch alone."""
        return np.diff(self.progress, prepend=0.0)

    def gain(self, global_batch: float) -> FloatArray:
        """(E,) steps of the smallest batch that one step at this batch is worth, in each epoch."""
        known = self._gains.get(global_batch)
        if known is None:
            sqr, var = self._at(global_batch)
            known = self._gains[global_batch] = _gain(sqr, var, self.least_batch / global_batch)
        return known

    def noise_scale(self, global_batch: float) -> FloatArray:
        """(E,) samples: the batch from which on more samples bring little; inf where nothing but noise is."""
        sqr, var = self._at(global_batch)
        is_some = sqr > 0.0
        return np.where(is_some, self.least_batch * var / np.where(is_some, sqr, 1.0), np.inf)

    def _at(self, global_batch: float) -> tuple[FloatArray, FloatArray]:
        """(E,) squared norm and variance."""
        above = int(np.clip(np.searchsorted(self.batches, global_batch), 1, max(len(self.batches) - 1, 1)))
        if len(self.batches) == 1:
            return self._sqr[0], self._var[0]
        low, high = self.batches[above - 1], self.batches[above]
        share = min(max((global_batch - low) / (high - low), 0.0), 1.0)
        sqr = (1.0 - share) * self._sqr[above - 1] + share * self._sqr[above]
        var = (1.0 - share) * self._var[above - 1] + share * self._var[above]
        return sqr, var


def _gain(sqr: FloatArray, var: FloatArray, least_share: float | FloatArray) -> FloatArray:
    """Args: least_share: the smallest batch over the batch that it is of."""
    least = var * least_share + sqr
    return np.where(least > 0.0, (var + sqr) / np.where(least > 0.0, least, 1.0), 1.0)
