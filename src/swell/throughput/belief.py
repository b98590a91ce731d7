"""What the head believes about speed, what it was made from, and by how much it has been too hopeful."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.coding import decoder, encode
from swell.model.job import JobSpec, Profile
from swell.model.throughput import CheckedEstimate, EstimateSource, ThroughputPoint
from swell.throughput.batches import is_possible
from swell.throughput.curve import Curve
from swell.throughput.estimate_margins import (
    OTHER_SIZES,
    SAME_SIZE,
    TRIAL,
    EstimateMargins,
    SizeError,
    class_of,
    kind_of,
)
from swell.throughput.learnt import UNPROFILED, Learnt, Measured

#: A step that became slower or faster by less than this is as it was.
LEAST_CHANGE = 0.002
#: Batches over the range of an open batch, in equal ratios, that each number of workers is shown with.
NUM_BATCHES = 6
#: From the strongest to the weakest.
_ORDER = tuple(EstimateSource)


class BeliefState(msgspec.Struct, kw_only=True):
    """State of a `FittedBelief`, in the form in which it is saved."""

    jobs: dict[str, Learnt] = {}
    errors: list[SizeError] = []  #: oldest first, of each basis the oldest first


_decode: Callable[[bytes], BeliefState] = decoder(BeliefState).decode


class FittedBelief:
    """Curves from profiles, corrected by reports.

    A size past the peak of its curve keeps its lower rate: it is for the policy to stop at the peak.

    Args:
        errors: what margins are learnt from; without any that were noted yet.

    References: ElasticFlow, section 5, "Throughput profiling".
    Deviates: also learns how far its own predictions were off, which the paper leaves out; a promise
        is planned with that margin.
    """

    def __init__(self, errors: EstimateMargins | None = None) -> None:
        self._state = BeliefState()
        self._errors = errors or EstimateMargins()
        #: By what they say: many jobs train the same model, and a curve remembers what it was asked.
        self._curves: WeakValueDictionary[bytes, Curve] = WeakValueDictionary()

    def of(self, job_id: str) -> Learnt:
        """What is believed of a job; of one without a profile nothing can be learnt."""
        return self._state.jobs.get(job_id, UNPROFILED)

    def learn_profile(self, job_id: str, spec: JobSpec, profile: Profile) -> None:
        """A later profile replaces the curve; what running taught stays."""
        curve, batches = (
            self._shared(Curve.of(spec, profile)),
            profile.batches if spec.max_batch is not None else None,
        )
        known = self._state.jobs.get(job_id) or Learnt(curve=curve)
        self._state.jobs[job_id] = msgspec.structs.replace(
            known,
            curve=curve,
            batches=batches,
            noise_scale=known.noise_scale if batches is None else batches.noise_scale,
            kind=kind_of(spec.entry),
            carried_share=self._errors.carried_share,
            doubt_s={},
        )

    def learn_estimate(self, job_id: str, spec: JobSpec, estimate_s: float) -> None:
        """A job that counts its steps, and has no trial run, should take so long on one worker."""
        curve = self._shared(Curve.guessed(spec, estimate_s / (spec.end.steps or 1)))
        self._state.jobs[job_id] = Learnt(curve=curve, kind=kind_of(spec.entry))

    def _shared(self, curve: Curve) -> Curve:
        """The one of all jobs with such a curve."""
        return self._curves.setdefault(msgspec.msgpack.encode(curve), curve)

    def learn_rate(
        self,
        job_id: str,
        num_workers: int,
        step_s: float,
        num_steps: int,
        global_batch: int | None = None,
        num_hosts: int = 1,
    ) -> CheckedEstimate | None:
        """A running job's mean seconds a step over its last steps at this size, all that it did beside
        them included but for the time between epochs: corrects the curve and the margins.

        Steps are of the own batch. They were made with `global_batch` samples; None: the own batch.
        A gang on several hosts says nothing about one that is on fewer. Returns how good the estimate was,
        once, as soon as that is known; None of a profile that does not tell what it was made from, and of a
        job without a profile, of which there is nothing to correct.
        """
        job = self._state.jobs.get(job_id)
        if job is None:
            return None
        batch = job.curve.global_batch if global_batch is None else global_batch
        own_steps = 1.0 if batch == job.curve.global_batch else float(job.worth(np.array([batch]))[0])
        job.carried_share = 1.0 if job.curve.is_guess else self._errors.carried_share
        measured = job.learn(num_workers, batch, step_s * own_steps, num_steps / own_steps, num_hosts)
        if measured is None or not measured.is_settled:
            return None
        source = None
        if measured.settled_s is None and job.curve.allreduce_sizes is not None:
            source = source_of(job, num_workers, batch, num_hosts)
        error = self._note_error(job_id, job, num_workers, num_hosts, measured)
        if source is None:
            return None
        margin = float(self.margins[class_of(job.kind, SAME_SIZE)])
        step_s = measured.measured_s
        return CheckedEstimate(source=source, step_s=step_s, error=math.expm1(error), margin=margin)

    def _note_error(
        self, job_id: str, job: Learnt, num_workers: int, num_hosts: int, measured: Measured
    ) -> float:
        """How wrong the estimate was once it is known; from then on, how much slower the size becomes.

        Returns log(measured / estimated), without a correction by the job's other sizes.
        """
        basis, others, before_s = SAME_SIZE, 0.0, measured.settled_s
        if before_s is None:
            measured.settled_s = measured.measured_s
            basis = TRIAL if measured.others is None else OTHER_SIZES
            others = measured.others or 0.0
            before_s = measured.predicted_s / math.exp(job.carried_share * others)
        error = math.log(measured.measured_s / before_s)
        known = self._errors.error_of(job_id, num_workers, num_hosts, basis)
        if job.curve.is_guess and basis != SAME_SIZE:
            return error  # says nothing of estimates of trial runs
        if known is None or abs(known - error) > LEAST_CHANGE:
            self._errors.note(SizeError(job_id, num_workers, error, num_hosts, basis, job.kind, others))
        return error

    @property
    def margins(self) -> FloatArray:
        """Margins to plan with, by class: how much longer work may take than rates say, as a share >= 0.

        A prediction that was too slow never breaks a promise. It is the same array object until something is
        learnt.
        """
        return self._errors.margins

    def throughput(self, job_id: str, sizes: IntArray, hosts: IntArray) -> tuple[ThroughputPoint, ...]:
        """Rates at each size and batch, for people to look at; empty of a job without a profile.

        Args:
            hosts: (K,) that a gang of each size is on.
        """
        job = self._state.jobs.get(job_id)
        return () if job is None or job.curve.is_guess else points_of(job, self.margins, sizes, hosts)

    def forget(self, job_id: str) -> None:
        """Drop the job's curve. Its errors stay: they speak of the belief, not of the job."""
        self._state.jobs.pop(job_id, None)

    def state(self) -> bytes:
        """The state as JSON; `restore` reads it back."""
        self._state.errors = self._errors.errors
        return encode(self._state)

    def restore(self, state: bytes) -> None:
        """Raises msgspec.ValidationError if this is no state of a belief."""
        self._state = _decode(state)
        for job in self._state.jobs.values():
            job.share(self._shared(job.curve))
        self._errors.restore(self._state.errors)


def points_of(
    learnt: Learnt, margins: FloatArray, sizes: IntArray, hosts: IntArray
) -> tuple[ThroughputPoint, ...]:
    """Points at (K,) numbers of workers, each with the batches that it can have.

    Args:
        margins: by class; see `EstimateMargins`.
        hosts: (K,) that so many workers are on.

    References: Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads", MASCOTS 2020, section
        III-B, T_j(b, k) and b_j^opt(k).
    """
    best = _best_batches(learnt, sizes, hosts)
    margin = margins[learnt.margin_classes(sizes, hosts)].tolist()
    points = []
    for place, size in enumerate(sizes.tolist()):
        one, on = sizes[place : place + 1], hosts[place : place + 1]
        for batch in _batches(learnt, size, best[place]):
            batches = np.array([[batch]], dtype=np.int64)
            step_s = float(learnt.step_s(one, batches, on)[0, 0])
            point = ThroughputPoint(
                workers=size,
                nodes=int(on[0]),
                batch=batch,
                step_s=step_s,
                samples_per_s=batch / step_s,
                source=source_of(learnt, size, batch, int(on[0])),
                margin=margin[place],
                is_best=batch == best[place],
            )
            points.append(point)
    return tuple(points)


def _best_batches(learnt: Learnt, sizes: IntArray, hosts: IntArray) -> list[int]:
    """(K,) the best batch of each size, b_j^opt(k); 0 where none is possible."""
    curve = learnt.curve
    best = learnt.best_batches(sizes, curve.global_batch, hosts)
    if best is not None:
        return [int(each) for each in best[1]]
    allowed = curve.allows(sizes)
    return [
        curve.standing_batch(size) if fits else 0
        for size, fits in zip(sizes.tolist(), allowed.tolist(), strict=True)
    ]


def _batches(learnt: Learnt, size: int, best: int) -> list[int]:
    """Batches to show at a size, ascending, the best among them."""
    if not best:
        return []
    curve = learnt.curve
    if curve.range_of_batches is None:
        return [best]
    least, most = curve.range_of_batches
    even = np.geomspace(least, most, NUM_BATCHES).round().astype(np.int64).tolist()
    wanted = np.array(sorted({*even, curve.global_batch, best}), dtype=np.int64)[:, None]
    possible = is_possible(curve, np.array([size], dtype=np.int64), wanted)
    return [int(batch) for batch in wanted[possible]]


def source_of(learnt: Learnt, workers: int, batch: int, num_hosts: int = 1) -> EstimateSource:
    """The weakest of what the estimate needs: the step of a worker, and the all-reduce of all."""
    measured = learnt.at(workers, batch, num_hosts)
    if measured is not None and measured.settled_s is not None:  # the time of a step is known well
        return EstimateSource.RUN
    curve = learnt.curve
    compute = _within(-(-batch // workers), curve.compute_s)
    if num_hosts > 1:
        known = workers in curve.crossing_s.get(num_hosts, {})
        shared = EstimateSource.PARTS if known else EstimateSource.EXTRAPOLATED
        return max(compute, shared, key=_ORDER.index)
    if workers == 1:
        return compute
    is_standing = batch == curve.standing_batch(workers)
    if workers in curve.group_sizes and is_standing:
        return EstimateSource.TRIAL
    sizes = curve.allreduce_s if curve.allreduce_sizes is None else curve.allreduce_sizes
    shared = _within(workers, {1, *sizes, *curve.group_sizes})
    return max(compute, shared, EstimateSource.PARTS, key=_ORDER.index)


def _within(wanted: int, measured: Collection[int]) -> EstimateSource:
    if wanted in measured:
        return EstimateSource.TRIAL
    known = sorted(measured)
    return (
        EstimateSource.INTERPOLATED
        if 0 < bisect_left(known, wanted) < len(known)
        else EstimateSource.EXTRAPOLATED
    )
