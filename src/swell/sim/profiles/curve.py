"""Training speed of one model at one global batch, by number of workers; sets of such curves, and tables."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from swell.arrays import FloatArray, IntArray, each
from swell.model.errors import InvalidInput
from swell.model.job import Profile
from swell.model.quantities import as_number
from swell.sim.true_speed import BatchTruth
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


FIRST_CELL = "global_batch_size"
UNMEASURED = frozenset({"", "nan", "0", "0.0", "-", "none"})


@dataclass(frozen=True)
class ThroughputTable:
    """One file: the model, its sizes and the rows (line, global batch, cells)."""

    path: Path
    sizes: list[int]
    spread: list[tuple[int, int]]  #: (workers, nodes) of the columns after these
    rows: list[tuple[int, list[str]]]

    def where(self, line: int) -> str:
        return f"{self.path}, line {line}"


def read_tables(folder: Path) -> Curves:
    """Throughput tables as ElasticFlow's artifact has them: every `MODEL.csv` of a folder.

        global_batch_size,1,2,4,8
        64,6.03,8.64,10.36,11.06
        128,,5.68,,9.99

    Cells are steps/s. A blank, `nan` or 0 is a size that was not measured. Between measured sizes such a hole
    is filled on a line in logarithms of size and rate; below the first the model does not fit, and beyond the
    last the job may not go. Curves may fall and are kept as they are.

    After the sizes there may be columns `4@2`: 4 workers on 2 nodes. What they take longer than 4 on one node
    is what crossing costs. Without such columns a gang is as fast on any number of nodes.

    Raises:
        ProfileError: there is none, or one cannot be used.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".csv")
    except OSError as error:
        raise ProfileError(f"cannot read profiles {folder}: {error.strerror}") from error
    if not paths:
        folders = ", ".join(sorted(path.name for path in folder.iterdir() if path.is_dir()))
        inside = f"; it has folders {folders}: name one" if folders else ""
        raise ProfileError(f"folder {folder} has no table MODEL.csv{inside}")
    curves = [curve for path in paths for curve in read_table(path)]
    return Curves(folder.name, curves)


def read_table(path: Path) -> list[ThroughputCurve]:
    """A curve for each global batch of one model.

    Raises:
        ProfileError: names the line and the rule.
    """
    table = _parse(path)
    curves = [_curve(table, line, cells) for line, cells in table.rows]
    if not curves:
        raise ProfileError(f"{path} has no row; a row is a global batch and steps/s at each size")
    batches = [curve.global_batch for curve in curves]
    for at, batch in enumerate(batches):
        if batch in batches[:at]:
            raise ProfileError(f"{table.where(table.rows[at][0])}: global batch {batch} has a row already")
    return curves


def _parse(path: Path) -> ThroughputTable:
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise ProfileError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path} is no throughput table, nor text at all (byte {error.start})") from error
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    rows = [(number, [cell.strip() for cell in next(csv.reader([line]))]) for number, line in lines]
    if not rows or rows[0][1][0].lower() != FIRST_CELL:
        raise ProfileError(f"{path} is no throughput table; its first line must be `{FIRST_CELL},1,2,4,...`")
    heads = rows[0][1][1:]
    plain = [head for head in heads if "@" not in head]
    sizes = _sizes(path, plain)
    return ThroughputTable(path, sizes, _spread(path, sizes, heads[len(plain) :]), rows[1:])


def _spread(path: Path, sizes: list[int], heads: list[str]) -> list[tuple[int, int]]:
    found = []
    for head in heads:
        workers, _, nodes = head.partition("@")
        is_number = workers.isdecimal() and nodes.isdecimal()
        if not is_number or not (2 <= int(nodes) <= int(workers) and int(workers) in sizes):
            raise ProfileError(
                f"{path}: column {head!r} must come after the sizes and be WORKERS@NODES, with 2 or more "
                f"nodes, a worker on each, and one of the sizes {', '.join(map(str, sizes))}"
            )
        found.append((int(workers), int(nodes)))
    return found


def _sizes(path: Path, cells: list[str]) -> list[int]:
    sizes = [int(cell) if cell.isdecimal() else 0 for cell in cells]
    if not sizes or any(size < 1 for size in sizes) or sizes != sorted(set(sizes)):
        raise ProfileError(
            f"{path}: sizes must be whole numbers >= 1, ascending; they are {', '.join(cells)}"
        )
    return sizes


def _curve(table: ThroughputTable, line: int, cells: list[str]) -> ThroughputCurve:
    num_cells = 1 + len(table.sizes) + len(table.spread)
    if len(cells) != num_cells:
        raise ProfileError(f"{table.where(line)}: {len(cells)} cells instead of {num_cells}")
    if not cells[0].isdecimal() or int(cells[0]) < 1:
        raise ProfileError(f"{table.where(line)}: global batch {cells[0]!r} is no whole number >= 1")
    global_batch = int(cells[0])
    rates = [_rate(table, line, size, cell) for size, cell in zip(table.sizes, cells[1:], strict=False)]
    measured = {
        size: rate
        for size, rate in zip(table.sizes, rates, strict=True)
        if rate is not None and size <= global_batch
    }
    if not measured:
        raise ProfileError(
            f"{table.where(line)}: no size was measured that has a sample for each worker; fill a cell, or "
            "leave the row out"
        )
    curve = _filled(table, global_batch, measured)
    return replace(curve, crossing_s=_crossing_s(table, line, curve, cells[1 + len(table.sizes) :]))


def _crossing_s(
    table: ThroughputTable, line: int, curve: ThroughputCurve, cells: list[str]
) -> dict[int, dict[int, float]]:
    crossing_s: dict[int, dict[int, float]] = {}
    for (workers, nodes), cell in zip(table.spread, cells, strict=True):
        rate = _rate(table, line, workers, cell)
        if rate is not None and curve.min_workers <= workers <= curve.max_workers:
            extra_s = max(0.0, 1.0 / rate - 1.0 / curve.rate_at(workers))
            crossing_s.setdefault(nodes, {})[workers] = extra_s
    return crossing_s


def _rate(table: ThroughputTable, line: int, size: int, cell: str) -> float | None:
    """None if it was not measured."""
    if cell.lower() in UNMEASURED:
        return None
    rate = as_number(cell)
    if not math.isfinite(rate) or rate < 0:
        raise ProfileError(
            f"{table.where(line)}, size {size}: {cell!r} is no rate; write steps/s > 0, or leave it blank"
        )
    return rate or None


def _filled(table: ThroughputTable, global_batch: int, measured: dict[int, float]) -> ThroughputCurve:
    sizes = [size for size in table.sizes if min(measured) <= size <= max(measured)]
    known = np.array(sorted(measured), dtype=np.float64)
    logs = np.interp(
        each(math.log, np.array(sizes)),
        each(math.log, known),
        each(math.log, np.array([measured[int(size)] for size in known])),
    )
    rates = [measured.get(size, math.exp(log)) for size, log in zip(sizes, logs, strict=True)]
    return ThroughputCurve(
        model=table.path.stem,
        global_batch=global_batch,
        sizes=np.array(sizes, dtype=np.int64),
        rate_per_s=np.array(rates, dtype=np.float64),
    )
