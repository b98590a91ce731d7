"""The job scalability analyzer: how fast a job trains with any batch on any number of devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from swell.arrays import FloatArray, IntArray

#: A time may fall by this share although there is more to do: measurements are noisy.
NOISE_SHARE = 0.05


class InvalidScalability(ValueError):
    """Measurements or a range from which no speed follows; the text names the rule and the remedy."""


@dataclass(frozen=True, eq=False)
class ProcessingTime:
    """Time of a step without communication, by samples of one device (section III-B, t_j^proc)."""

    samples: IntArray  #: (P,) ascending, >= 1
    time_s: FloatArray  #: (P,) > 0, not falling

    @classmethod
    def of(cls, measured: Mapping[int, float]) -> ProcessingTime:
        """Raises InvalidScalability: nothing was measured, a time is none, or times fall."""
        if not measured:
            raise InvalidScalability("no step time was measured; run the job with at least one batch")
        samples = np.array(sorted(measured), dtype=np.int64)
        time_s = np.array([measured[each] for each in samples.tolist()], dtype=np.float64)
        if samples[0] < 1:
            raise InvalidScalability(f"a batch of {samples[0]} samples was measured; it must be at least 1")
        _check_times(time_s, [f"{each} samples" for each in samples.tolist()])
        return cls(samples, np.maximum.accumulate(time_s))

    def at(self, samples: IntArray) -> FloatArray:
        """Seconds (any shape): on a line between measured points, and beyond them on the nearest line.

        Below the first point the line does not go under 0 at no samples: its intercept is what a step costs
        however small it is.
        """
        points, times_s = self.samples.astype(np.float64), self.time_s
        slopes = np.diff(times_s) / np.diff(points) if len(points) > 1 else times_s / points
        below = min(float(slopes[0]), float(times_s[0] / points[0]))
        wanted = samples.astype(np.float64)
        time_s: FloatArray = (
            np.interp(wanted, points, times_s)
            + below * np.minimum(wanted - points[0], 0.0)
            + float(slopes[-1]) * np.maximum(wanted - points[-1], 0.0)
        )
        return time_s


@dataclass(frozen=True, eq=False)
class AllReduceTime:
    """Time of an all-reduce by parameters and devices, measured once a cluster (section III-B, t^comm)."""

    parameters: FloatArray  #: (P,) ascending, > 0
    devices: IntArray  #: (K,) ascending, the first is 1
    time_s: FloatArray  #: (P, K) 0 on one device

    @classmethod
    def of(cls, measured: Mapping[int, Mapping[int, float]]) -> AllReduceTime:
        """Args: `measured` is parameters -> devices -> seconds; one device needs no entry.

        Raises:
            InvalidScalability: nothing was measured, the table has a hole, a time is none, or it falls with
                more parameters.
        """
        parameters = sorted(measured)
        sizes = sorted({1}.union(*measured.values()))
        if not parameters or parameters[0] < 1 or sizes[0] < 1:
            raise InvalidScalability("all-reduce times need at least one number of parameters, all >= 1")
        for number in parameters:
            for size in sizes[1:]:
                if size not in measured[number]:
                    raise InvalidScalability(
                        f"the all-reduce of {number:,} parameters was not measured on {size} devices; "
                        "measure each number of parameters on the same devices"
                    )
        table = [[0.0, *(measured[number][size] for size in sizes[1:])] for number in parameters]
        time_s = np.array(table, dtype=np.float64)
        for column, size in enumerate(sizes[1:], start=1):
            names = [f"{number:,} parameters on {size} devices" for number in parameters]
            _check_times(time_s[:, column], names)
        return cls(np.array(parameters, dtype=np.float64), np.array(sizes, dtype=np.int64), time_s)

    def at(self, num_parameters: int, devices: IntArray) -> FloatArray:
        """Seconds (any shape of `devices`); inf on more devices than were measured.

        On a line between measured points; with fewer parameters in proportion, with more on the last line.
        """
        points = np.concatenate([[0.0], self.parameters])
        known = np.vstack([np.zeros(len(self.devices)), self.time_s])
        above = int(np.clip(np.searchsorted(points, num_parameters), 1, len(points) - 1))
        share = (num_parameters - points[above - 1]) / (points[above] - points[above - 1])
        by_devices = (1.0 - share) * known[above - 1] + share * known[above]
        time_s = np.interp(devices, self.devices, by_devices)
        return np.where(devices <= self.devices[-1], time_s, np.inf)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scalability:
    """What the scheduler can know of a job whose batch may be anything from `min_batch` to `max_batch`.

    References: Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads", MASCOTS 2020, sections
        III-B and III-C.
    Deviates: a way to run that is not possible takes for ever and has rate 0; the paper gives it "a large
        negative number", which sums over jobs can outweigh. A batch has a sample for each device at least.
    """

    processing: ProcessingTime
    allreduce: AllReduceTime
    num_parameters: int  #: p_j
    min_batch: int
    max_batch: int
    max_local_batch: int  #: samples that fit on one device: b_j^max

    def __post_init__(self) -> None:
        if not 1 <= self.min_batch <= self.max_batch:
            raise InvalidScalability(
                f"batches from {self.min_batch} to {self.max_batch} are none; "
                "the smallest must be at least 1 and no larger than the largest"
            )
        if self.max_local_batch < 1 or self.num_parameters < 1:
            raise InvalidScalability(
                f"a job of {self.num_parameters} parameters with {self.max_local_batch} samples on a device "
                "cannot run; both must be at least 1"
            )

    def step_s(self, devices: IntArray, global_batch: IntArray) -> FloatArray:
        """Seconds a step, t_j^iter(b, k), of shapes that broadcast; inf where it is not possible."""
        local_batch = -(-global_batch // devices)
        time_s = self.processing.at(local_batch) + self.allreduce.at(self.num_parameters, devices)
        is_allowed = (global_batch >= self.min_batch) & (global_batch <= self.max_batch)
        is_possible = is_allowed & (local_batch <= self.max_local_batch) & (global_batch >= devices)
        return np.where(is_possible, time_s, np.inf)

    def rate_per_s(self, devices: IntArray, global_batch: IntArray) -> FloatArray:
        """Samples a second, T_j(b, k); 0 where it is not possible."""
        rate: FloatArray = global_batch / self.step_s(devices, global_batch)
        return rate

    @property
    def base_rate_per_s(self) -> float:
        """Samples a second of one device with as many samples as it can hold, T_j(b_j^max, 1)."""
        samples = np.array(self.max_local_batch, dtype=np.int64)
        return self.max_local_batch / float(self.processing.at(samples))

    def best_batch(self, devices: int) -> int:
        """Equation (2), b_j^opt(k), as a batch of all devices together; 0 if none is possible.

        Of batches with equal samples on the fullest device the largest is the fastest, so only full ones are
        compared, and the largest that is allowed.
        """
        most = min(self.max_batch, self.max_local_batch * devices)
        least = max(self.min_batch, devices)
        if most < least:
            return 0
        full = np.arange(-(-least // devices), most // devices + 1, dtype=np.int64) * devices
        batches = np.append(full, most)
        return int(batches[np.argmax(self.rate_per_s(np.array(devices), batches))])

    @property
    def max_devices(self) -> int:
        """The most that all-reduces were measured on."""
        return int(self.allreduce.devices[-1])

    def known_batches(self, num_even: int) -> IntArray:
        """(B,) ascending: the best one of each number of devices, and `num_even` in equal steps."""
        even = np.linspace(self.min_batch, self.max_batch, num_even).round().astype(np.int64)
        best = np.array([self.best_batch(size) for size in range(1, self.max_devices + 1)], dtype=np.int64)
        return np.unique(np.concatenate([even, best[best > 0]]))


def _check_times(time_s: FloatArray, names: list[str]) -> None:
    """Raises InvalidScalability for a time that is no time, and for times that fall by more than noise."""
    for name, each in zip(names, time_s.tolist(), strict=True):
        if not 0.0 < each < np.inf:
            raise InvalidScalability(f"the time of {name} is {each:g} s; a time is finite and above 0")
    for at in range(1, len(time_s)):
        if time_s[at] < (1.0 - NOISE_SHARE) * time_s[:at].max():
            raise InvalidScalability(
                f"the time of {names[at]} is {time_s[at]:g} s, and that of fewer up to "
                f"{time_s[:at].max():g} s; more cannot take less time: measure again"
            )
