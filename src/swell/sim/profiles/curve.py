"""Training speed of one model at one global batch, by number of workers; and sets of such curves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from swell.arrays import FloatArray, IntArray, each
from swell.model.errors import InvalidInput
from swell.model.job import Profile
from swell.sim.profiles.batch_truth import BatchTruth
from swell.throughput.curve import Crossing


@dataclass(frozen=True, eq=False)
class ThroughputCurve:
    """Steps a second. Below the first size the model does not fit, beyond the last nothing was measured.

    A curve may fall: it is for a policy to stop at the peak.
    """

    model: str
    global_batch: int  #: samples of a step, divided among the workers
    sizes: IntArray  #: (K,) workers, ascending, >= 1, none above the global batch
    rate_per_s: FloatArray  #: (K,) steps/s, > 0
    num_steps: int | None = None  #: until a model is as good as it can be, where that was measured
    #: Hosts -> workers -> seconds that a step takes longer than on one host, where that was measured.
    crossing_s: Crossing = field(default_factory=dict)
    batches: BatchTruth | None = None  #: other batches that a job may have, where they were measured

    @property
    def min_workers(self) -> int:
        return int(self.sizes[0])

    @property
    def max_workers(self) -> int:
        return int(self.sizes[-1])

    def rates_at(self, workers: IntArray) -> FloatArray:
        """Steps/s at each (any shape): on a line in logarithms between sizes, 0 below and beyond them."""
        log_rate = np.interp(
            each(math.log, np.maximum(workers, 1)),
            each(math.log, self.sizes),
            each(math.log, self.rate_per_s),
        )
        is_allowed = (workers >= self.sizes[0]) & (workers <= self.sizes[-1])
        return np.where(is_allowed, each(math.exp, log_rate), 0.0)

    def rate_at(self, workers: int) -> float:
        """Steps/s; exactly the table's at its sizes."""
        at = int(np.searchsorted(self.sizes, workers))
        if at < len(self.sizes) and self.sizes[at] == workers:
            return float(self.rate_per_s[at])
        return float(self.rates_at(np.array([workers]))[0])

    def profile(self, device_kind: str) -> Profile:
        """What a trial run would have reported, so that the head believes in this curve.

        For a job with this global batch, `min_workers` and `max_workers`, `throughput.curve.Curve` gives
        1 / rate at every size of the table, also where the curve falls. The step's time goes by the samples
        of a worker, ceil(global_batch / workers); where two sizes have as many, what one takes longer is
        told as its all-reduce.
        """
        compute_s: dict[int, float] = {}
        step_s = {
            int(size): 1.0 / float(rate) for size, rate in zip(self.sizes, self.rate_per_s, strict=True)
        }
        for size, time_s in step_s.items():
            local_batch = -(-self.global_batch // size)
            compute_s[local_batch] = min(time_s, compute_s.get(local_batch, time_s))
        allreduce_s = {
            size: time_s - compute_s[-(-self.global_batch // size)]
            for size, time_s in step_s.items()
            if size > 1
        }
        has_shared = any(allreduce_s.values())
        return Profile(
            device_kind=device_kind,
            compute_s=compute_s,
            allreduce_s=allreduce_s if has_shared else {},
            crossing_s={num_hosts: dict(by_workers) for num_hosts, by_workers in self.crossing_s.items()},
            grad_bytes=0,
            state_bytes=0,
            samples_per_epoch=0,
            start_s=0.0,
            # A bound of the own batch alone: a larger one may have more workers.
            num_shards=None if self.batches is None else self.max_workers,
            batches=None if self.batches is None else self.batches.profile(),
        )


def curve_of(model: str, global_batch: int, measured: dict[int, float]) -> ThroughputCurve:
    """Make the curve of measured rates (workers -> steps/s), of which none is missing or 0."""
    sizes = sorted(size for size in measured if size <= global_batch)
    return ThroughputCurve(
        model=model,
        global_batch=global_batch,
        sizes=np.array(sizes, dtype=np.int64),
        rate_per_s=np.array([measured[size] for size in sizes], dtype=np.float64),
    )


class ProfileError(InvalidInput):
    """A table cannot be used; the text names the place, the rule and the remedy."""


class UnknownProfile(InvalidInput):
    """No such set, model or global batch; the text names those there are."""


class ProfileSet(Protocol):
    """Curves by model and global batch."""

    @property
    def name(self) -> str: ...

    def models(self) -> tuple[str, ...]:
        """Return the names of the models, in alphabetical order."""

    def batches(self, model: str) -> tuple[int, ...]:
        """Ascending. Raises UnknownProfile."""

    def curve(self, model: str, global_batch: int) -> ThroughputCurve:
        """Raises UnknownProfile that names what there is."""


class Curves:
    """A set that is a list of curves. Implements `ProfileSet`."""

    def __init__(self, name: str, curves: Iterable[ThroughputCurve]) -> None:
        self.name = name
        self._curves = {(curve.model, curve.global_batch): curve for curve in curves}

    def models(self) -> tuple[str, ...]:
        return tuple(sorted({model for model, _ in self._curves}))

    def batches(self, model: str) -> tuple[int, ...]:
        batches = tuple(sorted(batch for name, batch in self._curves if name == model))
        if not batches:
            raise UnknownProfile(
                f"profiles {self.name!r} have no model {model!r}; they have {', '.join(self.models())}"
            )
        return batches

    def curve(self, model: str, global_batch: int) -> ThroughputCurve:
        found = self._curves.get((model, global_batch))
        if found is None:
            known = ", ".join(map(str, self.batches(model)))
            raise UnknownProfile(
                f"profiles {self.name!r} have no global batch {global_batch} of model {model!r}; "
                f"they have {known}"
            )
        return found


def pairs(profiles: ProfileSet) -> tuple[tuple[str, int], ...]:
    """Every (model, global batch) of a set, in a fixed order."""
    return tuple((model, batch) for model in profiles.models() for batch in profiles.batches(model))
