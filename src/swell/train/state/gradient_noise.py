"""The gradient noise scale of a training run, measured now and then while it trains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from swell.train.collective.pieces import as_real

#: Two steps in a row of so many are measured, and each of the first so many with the one before.
NOISE_INTERVAL = 16
#: Measurements that averages are made of, the latest ones most.
NUM_AVERAGED = 64
#: With fewer measurements than these the noise scale is not told.
LEAST_MEASURED = 8
#: Samples; told where gradients are nothing but noise.
MOST_SAMPLES = 1e12


class GradientNoise:
    """Averages of the variance and the squared norm of the gradient, and their ratio in samples.

    Two steps in a row are taken for the parts of one, and measured by how far their gradients lie apart. All
    workers have the same averages, which are part of the training state.

    References: McCandlish et al., "An Empirical Model of Large-Batch Training", 2018, arXiv:1812.06162,
        section 2.2 (the simple noise scale) and appendix A.1; Qiao et al., "Pollux", OSDI 2021, section 3.1
        (the gradient noise scale, from consecutive gradients as there with one replica); AdaScale SGD
        (Johnson et al., ICML 2020, arXiv:2007.05105), appendix B.3 (estimates without bias from parts of one
        batch, and their running averages).
    Deviates: one step in `NOISE_INTERVAL` is measured, and every one of the first so many. The two parts may
        have any sizes: with n samples in all and s^2 the variance of a sample's gradient, part i of n_i
        samples has E|g_i|^2 = mu^2 + s^2 / n_i, so the weighted mean over two parts has mu^2 + 2 s^2 / n, and
        their mean gradient mu^2 + s^2 / n.
    """

    def __init__(self, own_batch: int) -> None:
        self._own_batch = own_batch
        #: Running averages of sigma^2 and mu^2 of a gradient of the own batch; the latter may be below 0.
        self._variance = self._squared_norm = 0.0
        self.num_measured = 0
        #: Number, samples, gradients and their squared norm of the step to compare with; it is not saved.
        self._kept: tuple[int, int, list[torch.Tensor], float] | None = None
        self._has_room = True  # for another copy of the gradients

    @property
    def noise_scale(self) -> float | None:
        """The noise scale in samples; None: too little was measured."""
        if self.num_measured < LEAST_MEASURED:
            return None
        variance, signal = max(0.0, self._variance), max(0.0, self._squared_norm)
        if variance == 0.0:
            return 0.0
        return min(self._own_batch * (variance / signal), MOST_SAMPLES) if signal else MOST_SAMPLES

    def observe(
        self, step: int, num_samples: int, parameters: Sequence[nn.Parameter], scale: float = 1.0
    ) -> None:
        """Measure a step whose sum of gradients is in the parameters, if it is one to be measured.

        Args:
            step: its number, the same on all workers.
            num_samples: of the step.
            scale: the factor of a GradScaler that is on the gradients.
        """
        kept, self._kept = self._kept, None
        is_wanted = step < NOISE_INTERVAL or step % NOISE_INTERVAL == 0
        follows = kept is not None and kept[0] == step - 1
        if not follows and not is_wanted:
            return
        gradients = [as_real(parameter.grad) for parameter in parameters if parameter.grad is not None]
        norms = torch._foreach_norm(gradients) if gradients else [torch.zeros(())]
        own = float(torch.stack([*norms]).double().square().sum()) / scale**2
        if scale != 1.0:
            gradients = [gradient / scale for gradient in gradients]
        if kept is not None and follows:
            self._compare(kept, gradients, own, num_samples)
        if is_wanted:
            self._keep(step, num_samples, gradients, own)

    def forget_step(self) -> None:
        """The workers change: newcomers have no step to compare with, and all are to measure the same."""
        self._kept = None

    def _compare(
        self,
        kept: tuple[int, int, list[torch.Tensor], float],
        gradients: list[torch.Tensor],
        own: float,
        num: int,
    ) -> None:
        """Mix what two steps in a row show into the averages."""
        _, num_before, before, norm_before = kept
        if [tensor.shape for tensor in before] != [tensor.shape for tensor in gradients]:
            return
        total = num_before + num
        first, second = num_before / total, num / total
        products = [torch.dot(a.flatten(), b.flatten()) for a, b in zip(before, gradients, strict=True)]
        product = float(torch.stack(products).double().sum()) if products else 0.0
        mean_norm = first**2 * norm_before + second**2 * own + 2.0 * first * second * product
        scatter = max(0.0, first * norm_before + second * own - mean_norm)  # of the two about their mean
        scale = total / self._own_batch
        self._mix(scale * scatter, mean_norm - scatter)

    def _keep(self, step: int, num_samples: int, gradients: list[torch.Tensor], own: float) -> None:
        if not self._has_room or not all(gradient.layout == torch.strided for gradient in gradients):
            return
        try:
            self._kept = step, num_samples, [gradient.detach().clone() for gradient in gradients], own
        except torch.OutOfMemoryError:  # training has what there is, and goes on without being measured
            self._has_room = False

    def _mix(self, variance: float, squared_norm: float) -> None:
        """The averages are plain means at first, later mostly of the latest steps."""
        if not (math.isfinite(variance) and math.isfinite(squared_norm)):
            return
        self.num_measured += 1
        newest_share = 1.0 / min(self.num_measured, NUM_AVERAGED)
        self._variance += newest_share * (variance - self._variance)
        self._squared_norm += newest_share * (squared_norm - self._squared_norm)

    def state_dict(self) -> dict[str, Any]:
        """Return the averages, with the batch that they are of."""
        return {
            "own_batch": self._own_batch,
            "variance": self._variance,
            "squared_norm": self._squared_norm,
            "num_seen": self.num_measured,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the averages, also those of a run that had another batch of its own."""
        self._variance = state["variance"] * state["own_batch"] / self._own_batch
        self._squared_norm, self.num_measured = state["squared_norm"], state["num_seen"]
        self.forget_step()
