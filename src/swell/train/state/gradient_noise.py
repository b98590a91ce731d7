"""The gradient noise scale of a training run, measured now and then while it trains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from swell.train.collective.packing import squared_norm
from swell.train.collective.real_numbers import as_real
from swell.train.scaling import (
    NOISE_INTERVAL,
    GradientMoments,
    MovingMoments,
    PartNorms,
    moments_of_parts,
    shows_parts,
)

#: Measurements that averages are made of, the latest ones most.
NUM_AVERAGED = 64
#: With fewer measurements than these the noise scale is not told.
LEAST_MEASURED = 8
#: Samples; told where gradients are nothing but noise.
MOST_SAMPLES = 1e12


class GradientNoise:
    """Averages of the variance and the squared norm of the gradient, and their ratio in samples.

    A step in several parts, on several workers or in several passes, is measured by how far the gradients of
    its parts lie apart. A step in one part is compared with the one that follows it. All workers have the
    same averages, which are part of the training state.

    References: McCandlish et al., "An Empirical Model of Large-Batch Training", 2018, arXiv:1812.06162,
        section 2.2 (the simple noise scale) and appendix A.1; Qiao et al., "Pollux", OSDI 2021, section 3.1
        (the gradient noise scale, and consecutive gradients where there is one part).
    Deviates: one step in `NOISE_INTERVAL` is measured, and every one of the first so many.
    """

    def __init__(self, own_batch: int) -> None:
        self._own_batch = own_batch
        self._moments = MovingMoments()
        #: Of a step in one part: its number, samples, gradients and their squared norm. It is no state.
        self._kept: tuple[int, int, list[torch.Tensor], float] | None = None
        self._has_room = True  # for another copy of the gradients

    @property
    def noise_scale(self) -> float | None:
        """The noise scale in samples; None: too little was measured."""
        seen = self._moments
        if seen.num_seen < LEAST_MEASURED:
            return None
        variance, signal = max(0.0, seen.variance), max(0.0, seen.squared_norm)
        if variance == 0.0:
            return 0.0
        return min(self._own_batch * (variance / signal), MOST_SAMPLES) if signal else MOST_SAMPLES

    @property
    def num_measured(self) -> int:
        return self._moments.num_seen

    def observe(self, step: int, parts: PartNorms, parameters: Sequence[nn.Parameter], factor: float) -> None:
        """Measure a step whose sum of gradients is in the parameters, if it is one to be measured.

        Args:
            step: its number, the same on all workers.
            parts: of the gradients while a scaler's `factor` was on them.
        """
        kept, self._kept = self._kept, None
        if parts.num_parts > 1:
            self._note(parts, parts.squared_norm / factor**2, float(squared_norm(parameters)))
            return
        follows = kept is not None and kept[0] == step - 1
        if not follows and not shows_parts(step, NOISE_INTERVAL):
            return
        gradients = [as_real(parameter.grad) for parameter in parameters if parameter.grad is not None]
        own = float(squared_norm(parameters))
        if kept is not None and follows:
            self._compare(kept, gradients, own, parts.num_samples)
        if parts.num_samples and shows_parts(step, NOISE_INTERVAL):
            self._keep(step, parts.num_samples, gradients, own)

    def _compare(
        self,
        kept: tuple[int, int, list[torch.Tensor], float],
        gradients: list[torch.Tensor],
        own: float,
        num: int,
    ) -> None:
        """Two steps in a row are taken for the parts of one."""
        _, num_before, before, norm_before = kept
        if [tensor.shape for tensor in before] != [tensor.shape for tensor in gradients]:
            return
        total = num_before + num
        first, second = num_before / total, num / total
        products = [torch.dot(a.flatten(), b.flatten()) for a, b in zip(before, gradients, strict=True)]
        product = float(torch.stack(products).double().sum()) if products else 0.0
        mean_norm = first**2 * norm_before + second**2 * own + 2.0 * first * second * product
        self._note(PartNorms(0.0, 2, total), first * norm_before + second * own, mean_norm)

    def _keep(self, step: int, num_samples: int, gradients: list[torch.Tensor], own: float) -> None:
        if not self._has_room or not all(gradient.layout == torch.strided for gradient in gradients):
            return
        try:
            self._kept = step, num_samples, [gradient.detach().clone() for gradient in gradients], own
        except torch.OutOfMemoryError:  # training has what there is, and goes on without being measured
            self._has_room = False

    def _note(self, parts: PartNorms, part_norm: float, mean_norm: float) -> None:
        scale = parts.num_samples / self._own_batch
        seen: GradientMoments = moments_of_parts(part_norm, parts.num_parts, mean_norm, scale)
        if math.isfinite(seen.variance) and math.isfinite(seen.squared_norm):
            self._moments.mix(seen, 1.0 / NUM_AVERAGED)

    def state_dict(self) -> dict[str, Any]:
        """Return the averages, with the batch that they are of."""
        self._kept = None  # a worker that takes this state over has none, and all are to measure the same
        return {"own_batch": self._own_batch, **asdict(self._moments)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the averages, also those of a run that had another batch of its own."""
        moments = {name: value for name, value in state.items() if name != "own_batch"}
        self._moments = MovingMoments(**moments)
        self._moments.variance *= state["own_batch"] / self._own_batch
        self._kept = None
