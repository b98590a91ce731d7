"""Measurements as Pollux's artifact has them: a folder a model, with step times and training runs.

placements.csv        placement,local_bsz,step_time,sync_time     4 and 3 devices of two nodes are 34
scalability.csv       num_nodes,num_replicas,local_bsz,step_time,sync_time
validation-BATCH.csv  progress,iteration,metric,grad_sqr,grad_var     a row an epoch
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from swell.arrays import FloatArray
from swell.sim.profiles.curve import ProfileError, ThroughputCurve, UnknownProfile
from swell.sim.traces.entry import InvalidLine, TraceError
from swell.sim.traces.record import Source
from swell.sim.traces.table import Row, TableFormat, needed_column
from swell.sim.true_speed import BatchTruth, GradientStatistics, MeasuredRun

#: A local batch that is above a bound by rounding alone is within it.
ROUNDING = 1e-8
PLACEMENTS, SCALABILITY, VALIDATION = "placements.csv", "scalability.csv", "validation-"
PLACEMENT_COLUMNS = ("placement", "local_bsz", "step_time", "sync_time")
#: Of the nodes it was measured on.
DEVICES_PER_NODE = 4
#: A measured placement: devices -> samples of a pass -> (step, exchange) in seconds.
Points = dict[int, dict[float, tuple[float, float]]]


@dataclass(frozen=True, eq=False)
class PassTimes:
    """A pass and an exchange of gradients, of gangs on the same devices."""

    samples: FloatArray  #: (P,) of one device, ascending
    step_s: FloatArray  #: (P,) a step of one pass
    sync_s: FloatArray  #: (P,) of that, waiting for the exchange

    def at(self, samples: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both times (any shape), on a line between what was measured and level beyond it."""
        step_s: FloatArray = np.interp(samples, self.samples, self.step_s)
        sync_s: FloatArray = np.interp(samples, self.samples, self.sync_s)
        return step_s, sync_s


class StepTimes:
    """How long a step takes on as few nodes as can be.

    A share of the batch that is more than a device can hold is computed in equal passes, of which the last
    exchanges gradients. Numbers of workers between measured ones are on a line between their neighbours.

    Args:
        by_workers: what was measured.
        first_batch: one worker alone computes any larger batch in two passes or more, for the noise of its
            gradients is measured between passes.
        most_samples: of a pass; None: as many as were measured on the fewest devices.

    References: Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
        OSDI 2021, section 3.2 (gradient accumulation) and section 5.3 (simulator construction).
    """

    def __init__(
        self, by_workers: Mapping[int, PassTimes], first_batch: int, most_samples: float | None = None
    ) -> None:
        self._by_workers = {size: by_workers[size] for size in sorted(by_workers)}
        self._measured = np.array(list(self._by_workers), dtype=np.float64)
        self._first_batch = first_batch
        one = self._by_workers[min(self._by_workers)]
        self.least_samples = float(one.samples[0])
        self._most_samples = float(one.samples[-1]) if most_samples is None else most_samples

    @property
    def max_workers(self) -> int:
        return int(self._measured[-1])

    def most_workers(self, global_batch: int) -> int:
        """That each have enough samples for a pass as small as was measured; may be 0."""
        return min(self.max_workers, int(global_batch / self.least_samples + ROUNDING))

    def step_s(self, workers: int, global_batch: FloatArray) -> FloatArray:
        """(B,) seconds a step; inf where a worker would have fewer samples than were measured."""
        below, above = self._neighbours(workers)
        lower = self._times(self._by_workers[below], workers, global_batch)
        if below == above:
            return lower
        upper = self._times(self._by_workers[above], workers, global_batch)
        share = (workers - below) / (above - below)
        return (1.0 - share) * lower + share * upper

    def _times(self, times: PassTimes, workers: int, global_batch: FloatArray) -> FloatArray:
        local_batch = global_batch / workers
        most = min(self._most_samples, float(times.samples[-1]))
        passes = np.ceil(local_batch / most - ROUNDING)
        if workers == 1:
            passes = np.where(global_batch > self._first_batch, np.maximum(passes, 2.0), passes)
        step_s, sync_s = times.at(local_batch / passes)
        is_enough = local_batch >= self.least_samples - ROUNDING
        return np.where(is_enough, step_s + (passes - 1.0) * (step_s - sync_s), np.inf)

    def _neighbours(self, workers: int) -> tuple[int, int]:
        """Measured sizes around this one. Raises ValueError beyond them."""
        at = int(np.searchsorted(self._measured, workers))
        if workers < self._measured[0] or at == len(self._measured):
            raise ValueError(
                f"{workers} workers are beyond the {int(self._measured[0])} to {self.max_workers} measured"
            )
        above = int(self._measured[at])
        return (above, above) if above == workers else (int(self._measured[at - 1]), above)


def is_pollux(folder: Path) -> bool:
    """Whether the folder holds such measurements."""
    return any(folder.glob(f"*/{PLACEMENTS}"))


class PolluxCurves:
    """Implements `ProfileSet`: a curve for any global batch between the smallest and the largest run's.

    A job's steps are those that Pollux's simulator lets it do: all epochs of the runs, each as long as it is
    at the job's batch by the statistics of its gradients.

    References: Qiao et al., "Pollux", OSDI 2021, section 5.3 (simulator construction).
    Deviates: gangs are taken to be on as few nodes as can be, all but one of them whole, so a curve has one
        time for each number of workers; beyond 16 devices, where single placements were not measured, times
        are on a line between measured numbers of full nodes (in the published simulator, of any nodes); a
        worker's samples may be a fraction.
    """

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self._folders = {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{PLACEMENTS}"))}
        self._times = cache(lambda model: _step_times(self._folders[model], self._statistics(model)))
        self._statistics = cache(lambda model: GradientStatistics(_runs(self._folders[model])))
        self._curves: dict[tuple[str, int], ThroughputCurve] = {}

    def models(self) -> tuple[str, ...]:
        return tuple(self._folders)

    def batches(self, model: str) -> tuple[int, ...]:
        """Those of the runs; see `ProfileSet`."""
        if model not in self._folders:
            known = ", ".join(self.models())
            raise UnknownProfile(f"profiles {self.name!r} have no model {model!r}; they have {known}")
        return self._statistics(model).batches

    def curve(self, model: str, global_batch: int) -> ThroughputCurve:
        """Return the curve at any batch from the smallest to the largest measured one; see `ProfileSet`."""
        known = self._curves.get((model, global_batch))
        if known is None:
            batches = self.batches(model)
            if not batches[0] <= global_batch <= batches[-1]:
                raise UnknownProfile(
                    f"profiles {self.name!r} have no global batch {global_batch} of model {model!r}; "
                    f"it was measured from {batches[0]} to {batches[-1]}"
                )
            known = self._curves[model, global_batch] = self._made(model, global_batch)
        return known

    def _made(self, model: str, global_batch: int) -> ThroughputCurve:
        times, statistics = self._times(model), self._statistics(model)
        sizes = np.arange(1, times.most_workers(global_batch) + 1, dtype=np.int64)
        if len(sizes) == 0:
            raise ProfileError(
                f"{self._folders[model] / PLACEMENTS}: no pass as small as a global batch of {global_batch} "
                f"was measured, the smallest has {times.least_samples:g} samples; measure smaller ones"
            )
        batch = np.array([global_batch], dtype=np.float64)
        step_s = [float(times.step_s(size, batch)[0]) for size in sizes.tolist()]
        truth = BatchTruth(times, statistics, global_batch)
        return ThroughputCurve(
            model=model,
            global_batch=global_batch,
            sizes=sizes,
            rate_per_s=1.0 / np.array(step_s),
            num_steps=truth.num_steps,
            batches=truth,
        )


def _step_times(folder: Path, statistics: GradientStatistics) -> StepTimes:
    points: Points = {}
    for row in _rows(folder / PLACEMENTS, PLACEMENT_COLUMNS):
        digits = [int(digit) for digit in str(int(row["placement"]))]
        is_compact = len(digits) == -(-sum(digits) // DEVICES_PER_NODE)
        if is_compact and digits[1:] == [DEVICES_PER_NODE] * (len(digits) - 1):
            _add(points, sum(digits), row)
    if 1 not in points:
        raise ProfileError(
            f"{folder / PLACEMENTS}: nothing was measured on one device; a placement 1 is needed"
        )
    most_samples = max(points[1])
    if (folder / SCALABILITY).is_file():
        rows = _rows(
            folder / SCALABILITY, ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
        )
        most_samples = _most_samples(points[1], rows, statistics.most_batch)
        most_placed = max(points)
        for row in rows:
            devices = int(row["num_replicas"])
            if devices > most_placed and devices == int(row["num_nodes"]) * DEVICES_PER_NODE:
                _add(points, devices, row)
    times = {size: _pass_times(at) for size, at in points.items()}
    return StepTimes(times, statistics.least_batch, most_samples)


def _most_samples(alone: Iterable[float], rows: list[dict[str, float]], most_batch: int) -> float:
    """The most samples that a pass of one device can have.

    It is the largest size that one device was measured with. Sizes beyond those of gangs count only where the
    smallest gang would have exceeded `most_batch` with them.
    """
    had = [(row["local_bsz"], row["num_replicas"]) for row in rows]
    if not had:
        return max(alone)
    most, devices = max(samples for samples, _ in had), min(devices for _, devices in had)
    return max(samples for samples in alone if samples <= most or samples * devices > most_batch)


def _add(points: Points, devices: int, row: Mapping[str, float]) -> None:
    points.setdefault(devices, {})[row["local_bsz"]] = (row["step_time"], row["sync_time"])


def _pass_times(at: Mapping[float, tuple[float, float]]) -> PassTimes:
    samples = sorted(at)
    step_s, sync_s = np.array([at[batch] for batch in samples]).T
    return PassTimes(np.array(samples), step_s, sync_s)


def _runs(folder: Path) -> list[MeasuredRun]:
    runs = []
    for path in sorted(folder.glob(f"{VALIDATION}*.csv")):
        batch = path.stem.removeprefix(VALIDATION)
        if not batch.isdecimal() or int(batch) < 1:
            raise ProfileError(
                f"{path} names no batch; it is to be {VALIDATION}BATCH.csv, as {VALIDATION}128.csv"
            )
        rows = _rows(path, ("progress", "grad_sqr", "grad_var"))
        columns = [_column(rows, name) for name in ("progress", "grad_sqr", "grad_var")]
        if not rows or (np.diff(columns[0], prepend=0.0) <= 0.0).any():
            raise ProfileError(f"{path}: progress must grow from epoch to epoch, beginning above 0")
        runs.append(MeasuredRun(int(batch), *columns))
    if not runs:
        raise ProfileError(f"{folder} has no training run; add {VALIDATION}BATCH.csv")
    return runs


def _column(rows: list[dict[str, float]], name: str) -> FloatArray:
    return np.array([row[name] for row in rows], dtype=np.float64)


def _rows(path: Path, needed: tuple[str, ...]) -> list[dict[str, float]]:
    """Raises ProfileError that names the line and the rule."""
    columns = {name: needed_column(name, parse=float) for name in needed}
    table = TableFormat(name="Pollux", title="Pollux", columns=columns)
    try:
        return [row for _, row in table.rows(Source(path), _measured)]
    except TraceError as error:
        raise ProfileError(str(error)) from error


def _measured(row: Row) -> Row:
    for name, value in row.items():
        if value is None or not 0.0 <= value < math.inf:
            raise InvalidLine(f"{name} is no number >= 0")
    return row
