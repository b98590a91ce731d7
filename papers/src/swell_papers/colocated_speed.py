"""What the steps of jobs that share cores cost, alone and beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from swell.arrays import FloatArray
from swell.sim.contention import slowdown
from swell_papers.colocated_run import ColocatedJobRecord, ColocatedRun

#: A job is looked at in pieces of about so many seconds.
PIECE_S = 4.0
#: Of a piece: jobs that used less tell too little.
LEAST_CPU_S = 0.1
MOST_INTERFERENCE_SHARE = 2.0
#: Weight of the interference beside the mean squared error: where nothing tells of it, there is none.
IN_DOUBT_NONE = 1e-5

#: A job of a run: repetition, label of the policy, name.
JobKey = tuple[int, str, str]


class StepCosts(NamedTuple):
    """CPU costs of steps, estimated from runs of jobs that share cores."""

    interference_share: float  #: as in `slowdown`
    alone_cpu_s: Mapping[JobKey, float]  #: of a step without neighbours


def key_of(run: ColocatedRun, job: ColocatedJobRecord) -> JobKey:
    return run.repetition, run.label, job.job.name


class _Piece(NamedTuple):
    """What one job did in some seconds of a run."""

    job: JobKey
    steps: float
    cpu_s: float
    part: float  #: of the CPU time of all jobs


def step_costs(runs: Sequence[ColocatedRun]) -> StepCosts:
    """The interference under which the steps of each job cost most nearly the same all the time.

    Least squares of the logarithm of CPU seconds for each step, one cost alone for each job and one
    interference for all. Runs that tell nothing of a job leave it out.
    """
    pieces = [piece for run in runs for piece in _pieces(run)]
    if not pieces:
        return StepCosts(0.0, {})

    def unexplained(interference_share: float) -> float:
        costs = _alone(pieces, interference_share)
        errors = [np.log(_alone_of(piece, interference_share) / costs[piece.job]) for piece in pieces]
        return float(np.square(errors).mean()) + IN_DOUBT_NONE * interference_share

    found = minimize_scalar(unexplained, bounds=(0.0, MOST_INTERFERENCE_SHARE), method="bounded")
    return StepCosts(float(found.x), _alone(pieces, float(found.x)))


def _alone(pieces: Sequence[_Piece], interference_share: float) -> dict[JobKey, float]:
    """CPU seconds of a step of each job without neighbours: the geometric mean of its pieces."""
    logs: dict[JobKey, list[float]] = {}
    for piece in pieces:
        logs.setdefault(piece.job, []).append(float(np.log(_alone_of(piece, interference_share))))
    return {job: float(np.exp(np.mean(one))) for job, one in logs.items()}


def _alone_of(piece: _Piece, interference_share: float) -> float:
    return piece.cpu_s / piece.steps * slowdown(piece.part, interference_share)


def _pieces(run: ColocatedRun) -> list[_Piece]:
    told = [told_usage(job) for job in run.jobs]
    return [piece for row, job in enumerate(run.jobs) for piece in _pieces_of(key_of(run, job), told, row)]


def _pieces_of(key: JobKey, told: Sequence[ToldUsage], row: int) -> Iterator[_Piece]:
    """Yield the pieces of the job in this row, from its first report to its last."""
    first_s, last_s = told[row].at_s[0], told[row].at_s[-1]
    edges_s = np.linspace(first_s, last_s, max(round((last_s - first_s) / PIECE_S), 1) + 1)
    steps = np.diff(np.interp(edges_s, told[row].at_s, told[row].steps))
    cpu_s = np.array([np.diff(np.interp(edges_s, one.at_s, one.cpu_s)) for one in told])
    for made, own_s, all_s in zip(steps, cpu_s[row], cpu_s.sum(axis=0), strict=True):
        if made >= 1.0 and own_s >= LEAST_CPU_S:
            yield _Piece(key, float(made), float(own_s), float(own_s / all_s))


class ToldUsage(NamedTuple):
    """The reports of a job that have its CPU time, in order."""

    at_s: FloatArray
    steps: FloatArray
    cpu_s: FloatArray


def told_usage(job: ColocatedJobRecord) -> ToldUsage:
    known = [(sample.at_s, sample.steps, sample.cpu_s) for sample in job.samples if sample.cpu_s is not None]
    return ToldUsage(*np.array(known, dtype=np.float64).reshape(-1, 3).T)
