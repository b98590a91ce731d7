"""Which samples each step sees and which worker computes them: a function of the step alone.

The order of samples depends on seed and epoch, never on the number of workers. Step `s` takes the next
`global_batch` samples of that order, and the workers cut them into contiguous, nearly equal slices.
So a job sees the same batches whatever sizes it goes through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch


@dataclass(frozen=True, slots=True)
class Share:
    """One worker's part of one step's batch."""

    indices: list[int]  #: samples to compute, never empty: see `Course.share`
    num_local: int  #: samples that count; 0 when the one in `indices` is borrowed
    num_global: int  #: samples of this step on all workers

    @property
    def weight_share(self) -> float:
        """This worker's weight in the mean over the step's samples."""
        return self.num_local / self.num_global


@dataclass(frozen=True)
class Course:
    """The batches of a whole training run, in order."""

    num_samples: int  #: in the dataset
    global_batch: int  #: samples a step
    is_shuffled: bool
    drops_last: bool  #: leave out the short batch at the end of an epoch, as the loader asked
    seed: int = 0
    steps_per_epoch: int = field(init=False)

    def __post_init__(self) -> None:
        whole, rest = divmod(self.num_samples, self.global_batch)
        num_steps = whole if self.drops_last or not rest else whole + 1
        if num_steps == 0:
            raise ValueError(
                f"the dataset has {self.num_samples} samples and a batch takes {self.global_batch}, so "
                "an epoch has no batch; make the batch smaller, or turn off the loader's drop_last"
            )
        object.__setattr__(self, "steps_per_epoch", num_steps)

    @property
    def samples_per_epoch(self) -> int:
        """Samples that are trained on in an epoch."""
        return min(self.num_samples, self.steps_per_epoch * self.global_batch)

    def share(self, step: int, rank: int, num_workers: int) -> Share:
        """What worker `rank` of `num_workers` computes in step `step`, counted from 0.

        Counts of the workers differ by at most one. A worker with nothing to do computes one borrowed
        sample that counts for nothing, so that its model runs and its all-reduce takes part.
        """
        epoch, step_of_epoch = divmod(step, self.steps_per_epoch)
        first = step_of_epoch * self.global_batch
        num_global = min(self.global_batch, self.num_samples - first)
        low = first + rank * num_global // num_workers
        high = first + (rank + 1) * num_global // num_workers
        order = self._order(epoch)
        return Share(list(order[low : max(high, low + 1)]), high - low, num_global)

    def _order(self, epoch: int) -> Sequence[int]:
        return _shuffled(self.num_samples, self.seed, epoch) if self.is_shuffled else range(self.num_samples)


@lru_cache(maxsize=2)  # prefetching looks one epoch ahead
def _shuffled(num_samples: int, seed: int, epoch: int) -> list[int]:
    generator = torch.Generator().manual_seed(mix(seed, epoch))
    order: list[int] = torch.randperm(num_samples, generator=generator).tolist()
    return order


def mix(*parts: int) -> int:
    """One 63-bit seed of several numbers, with no simple relation between neighbours (SplitMix64's steps)."""
    state = 0
    for part in parts:
        state = (state ^ (part & 0xFFFFFFFFFFFFFFFF)) + 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 31
    return state >> 1
