"""Profile sets by what a user writes for them: laws, the jobs of Saxena et al., folders of measurements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from swell.arrays import FloatArray, IntArray, each
from swell.model.quantities import as_number
from swell.sim.profiles.curve import Curves, ProfileSet, ThroughputCurve, UnknownProfile, read_tables
from swell.sim.profiles.pollux import PolluxCurves, is_pollux
from swell.sim.true_speed import BatchTruth, GradientStatistics, MeasuredRun

#: Table II: samples of each of 2 devices -> scaling factor of a job of category 1.
TABLE_II = {8: 0.86, 11: 1.06, 16: 1.3, 22: 1.45, 32: 1.66}
#: Section IV-D: category 1 on 5 devices with 160 samples beside 2 devices with 32.
SPEED_UP_ON_5 = 1.6
#: Section IV-E: category 1 beside category 2, each at its smallest batch and best number of devices.
SPEED_UP_OF_CATEGORY_1 = 1.3
#: Devices of a machine (section IV): an all-reduce of more goes over the network.
DEVICES_PER_NODE = 2
#: Section IV-A, as the tables of section IV have it.
K_MAX = 10
#: Seconds of a step of one device with a full batch: a unit, nothing depends on it.
FULL_STEP_S = 0.1
#: Batches in equal steps that a trial run tries.
NUM_TRIED = 33

Number = TypeVar("Number", float, FloatArray)


@dataclass(frozen=True, slots=True)
class Category:
    """A row of Table I."""

    name: str
    parameters: int
    min_batch: int
    max_batch: int
    local_batch: int  #: samples that fit on a device
    minutes: float  #: on one device with a full batch (section IV-G)

    @property
    def is_elastic(self) -> bool:
        return self.min_batch < self.max_batch


#: Printed but for `local_batch`: of category 1 it is that of Table II, and the least power of two with which
#: the largest batch fits on `K_MAX` devices. By this rule are the others; the fourth runs on one device.
CATEGORIES = (
    Category("resnet50", 24_000_000, 32, 256, 32, 16.0),
    Category("alexnet", 58_000_000, 16, 256, 32, 21.0),
    Category("vgg11_bn", 10_000_000, 16, 1024, 128, 41.0),
    Category("alexnet-food101", 58_000_000, 128, 128, 128, 27.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingCurve:
    """Times of a step over those of one device with a full batch.

    Processing s samples of a full batch of B takes `overhead + (1 - overhead) s / B`. The all-reduce of n
    devices is a ring's, `2 (n - 1) / n` over that of two, and `network` times slower from three devices on,
    where it leaves the machine.
    """

    overhead_share: float
    pair_shares: tuple[float, ...]  #: by category: the all-reduce of two devices
    network: float

    def processing(self, share: Number) -> Number:
        """Time of processing this share of a full batch, in steps of one device with a full batch."""
        return self.overhead_share + (1.0 - self.overhead_share) * share

    def allreduce(self, category: int, devices: int | IntArray) -> FloatArray:
        """Time of an all-reduce, in the same unit."""
        ring = self.pair_shares[category] * 2.0 * (devices - 1) / devices
        return np.where(np.asarray(devices) > DEVICES_PER_NODE, ring * self.network, ring)

    def factor(self, category: int, devices: int, share: float) -> float:
        """Equation (1): devices with a share of a full batch each, over one device with a full one."""
        return devices * share / (self.processing(share) + float(self.allreduce(category, devices)))


def fitted() -> ScalingCurve:
    """The model of all that is printed: Table II by least squares, then sections IV-D and IV-E exactly.

    Category 3 is said to be between 1 and 2, so that its all-reduce is the geometric mean of theirs.
    """
    overhead, first = _fit_table_2()
    unknown = ScalingCurve(overhead_share=overhead, pair_shares=(first,) * 4, network=1.0)
    wanted = SPEED_UP_ON_5 * unknown.factor(0, 2, 0.5)
    network = (5.0 / wanted - 1.0) / float(unknown.allreduce(0, 5))
    best = max(1.0, unknown.factor(0, 2, 0.5))  # of category 1 at its smallest batch, on one or two devices
    smallest = CATEGORIES[1].min_batch / CATEGORIES[1].local_batch
    second = smallest * SPEED_UP_OF_CATEGORY_1 / best - unknown.processing(smallest / 2)
    third = math.sqrt(first * second)
    return ScalingCurve(overhead_share=overhead, pair_shares=(first, second, third, second), network=network)


def _fit_table_2() -> tuple[float, float]:
    """Overhead share and all-reduce of a pair: the two terms of `2 share / factor = processing + allreduce`.

    2 s / f = (o + p) + (1 - o) s is linear in s; each point counts by its relative error.
    """
    share = np.array(list(TABLE_II), dtype=np.float64) / CATEGORIES[0].local_batch
    time = 2.0 * share / np.array(list(TABLE_II.values()))
    terms = np.stack([np.ones_like(share), share], axis=1) / time[:, None]
    (constant, slope), *_ = np.linalg.lstsq(terms, np.ones_like(share), rcond=None)
    return 1.0 - float(slope), float(constant + slope) - 1.0


@dataclass(frozen=True, slots=True)
class CategoryTimes:
    """What is true of a job of one category: implements `true_speed.BatchTimes`.

    References: Saxena et al., MASCOTS 2020, sections III-B and III-C.
    Deviates: a way to run that is not possible takes for ever and has rate 0; the paper gives it "a large
        negative number", which sums over jobs can outweigh. A batch has a sample for each device at least.
    """

    model: ScalingCurve
    category: int

    @property
    def job(self) -> Category:
        return CATEGORIES[self.category]

    def step_s(self, workers: int | IntArray, global_batch: IntArray | FloatArray) -> FloatArray:
        """Seconds a step, t_j^iter(b, k), of shapes that broadcast; inf where it is not possible."""
        job, batch, devices = self.job, np.asarray(global_batch), np.asarray(workers)
        local_batch = -(-batch // devices)
        time_s = FULL_STEP_S * self.model.processing(local_batch / job.local_batch)
        time_s = time_s + FULL_STEP_S * self.model.allreduce(self.category, devices)
        is_allowed = (batch >= job.min_batch) & (batch <= job.max_batch) & (devices <= K_MAX)
        return np.where(is_allowed & (local_batch <= job.local_batch) & (batch >= devices), time_s, np.inf)

    def rate_per_s(self, workers: int | IntArray, global_batch: IntArray | FloatArray) -> FloatArray:
        """Samples a second, T_j(b, k); 0 where it is not possible."""
        rate: FloatArray = global_batch / self.step_s(workers, global_batch)
        return rate

    def most_workers(self, global_batch: int) -> int:
        return min(K_MAX, global_batch)

    def best_batch(self, devices: int) -> int:
        """Equation (2), b_j^opt(k), as a batch of all devices together; 0 if none is possible.

        Of batches with equal samples on the fullest device the largest is the fastest, so only full ones are
        compared, and the largest that is allowed.
        """
        most = min(self.job.max_batch, self.job.local_batch * devices)
        least = max(self.job.min_batch, devices)
        if most < least:
            return 0
        full = np.arange(-(-least // devices), most // devices + 1, dtype=np.int64) * devices
        batches = np.append(full, most)
        return int(batches[np.argmax(self.rate_per_s(devices, batches))])

    def tried_batches(self) -> IntArray:
        """(B,) ascending: the best one of each number of devices, and `NUM_TRIED` in equal steps."""
        even = np.linspace(self.job.min_batch, self.job.max_batch, NUM_TRIED).round().astype(np.int64)
        best = np.array([self.best_batch(size) for size in range(1, K_MAX + 1)], dtype=np.int64)
        return np.unique(np.concatenate([even, best[best > 0]]))


def saxena() -> Curves:
    """The jobs of Table I. A job's own batch is what fits on one device; a sample counts alike in any batch.

    References: Saxena et al., MASCOTS 2020, Tables I and II, sections IV-A, IV-D, IV-E and IV-G.
    """
    model = fitted()
    return Curves("saxena", [_curve(CategoryTimes(model, at)) for at in range(len(CATEGORIES))])


def _curve(times: CategoryTimes) -> ThroughputCurve:
    job = times.job
    sizes = np.arange(1, (K_MAX if job.is_elastic else 1) + 1, dtype=np.int64)
    rates = times.rate_per_s(sizes, np.full_like(sizes, job.local_batch)) / job.local_batch
    return ThroughputCurve(
        model=job.name,
        global_batch=job.local_batch,
        sizes=sizes,
        rate_per_s=rates,
        num_steps=round(60.0 * job.minutes / FULL_STEP_S),
        batches=_truth(times) if job.is_elastic else None,
    )


def _truth(times: CategoryTimes) -> BatchTruth:
    """Gradients are noise alone: twice the samples get training twice as far."""
    job = times.job
    steps = 60.0 * job.minutes / FULL_STEP_S * job.local_batch / job.min_batch
    runs = [
        MeasuredRun(global_batch=batch, progress=np.array([steps]), grad_sqr=np.zeros(1), grad_var=np.ones(1))
        for batch in (job.min_batch, job.max_batch)
    ]
    return BatchTruth(times, GradientStatistics(runs), job.local_batch, times.tried_batches())


#: Sizes go up to this many workers.
MAX_WORKERS = 4096
#: The batch of a job that tells none: large enough for every size.
GLOBAL_BATCH = 4096
MODEL = "any"
DEFAULT_EXPONENT = 0.8
LAW = "law:"


class PowerCurves:
    """n workers make n ** exponent steps a second, whatever the model. Implements `ProfileSet`.

    A step is what one worker does in a second, so a job's steps are its seconds on one worker. Sizes are the
    powers of two up to the global batch.
    """

    def __init__(self, exponent: float = DEFAULT_EXPONENT, name: str = "") -> None:
        self.exponent = exponent
        self.name = name or f"law:{exponent:g}"

    def models(self) -> tuple[str, ...]:
        return (MODEL,)

    def batches(self, model: str) -> tuple[int, ...]:
        return (GLOBAL_BATCH,)

    def curve(self, model: str, global_batch: int) -> ThroughputCurve:
        """Return the curve by this law of any model and any global batch >= 1."""
        num_sizes = int(math.log2(min(MAX_WORKERS, global_batch))) + 1
        sizes = 2 ** np.arange(num_sizes, dtype=np.int64)
        return ThroughputCurve(model, global_batch, sizes, each(lambda size: size**self.exponent, sizes))


def hu() -> PowerCurves:
    """Huawei ModelArts' jobs on average: the speed of n nodes is n * 0.8 ** log2(n).

    References: Hu et al., section 4.2, Equations 2 to 4 and Figure 6: "the actual training speed decreases
        by 20% on average when the number of nodes doubles".
    """
    return PowerCurves(exponent=1.0 + math.log2(0.8), name="hu")


BUILT_IN: dict[str, Callable[[], ProfileSet]] = {
    "hu": hu,
    "law": lambda: PowerCurves(DEFAULT_EXPONENT),
    "saxena": saxena,
}


def load(name: str) -> ProfileSet:
    """A built-in set (`hu`, `law`, `law:0.7`, `saxena`), or a folder of tables or of measurements.

    Raises:
        UnknownProfile: it is neither.
        ProfileError: a table of the folder cannot be used.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if name.startswith(LAW):
        return PowerCurves(_exponent(name.removeprefix(LAW)))
    if not Path(name).is_dir():
        raise UnknownProfile(
            f"there are no profiles {name!r}; name a folder of MODEL.csv, or one of {', '.join(BUILT_IN)}, "
            f"{LAW}EXPONENT"
        )
    folder = Path(name)
    return PolluxCurves(folder) if is_pollux(folder) else read_tables(folder)


def _exponent(text: str) -> float:
    exponent = as_number(text)
    if not 0.0 <= exponent <= 1.0:
        raise UnknownProfile(f"{LAW}{text} is no law; write an exponent from 0 to 1, as {LAW}0.8")
    return exponent
