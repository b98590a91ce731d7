"""What the head believes about speed, and by how much it has been too hopeful."""

from __future__ import annotations

import math
from collections.abc import Callable
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray, each
from swell.model.coding import decoder, encode
from swell.model.job import BatchProfile, JobSpec, Profile
from swell.model.throughput import CheckedEstimate, ThroughputPoint
from swell.script_facts import BetweenSteps
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
from swell.throughput.learnt import Learnt, Measured
from swell.throughput.points import points_of, source_of

#: Speed of a job without a profile: w workers do w ** 0.8 seconds of one-worker work a second.
SCALING_EXPONENT = 0.8

#: A step that became slower or faster by less than this is as it was.
LEAST_CHANGE = 0.002


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

    def learn_profile(self, job_id: str, spec: JobSpec, profile: Profile) -> None:
        """A later profile replaces the curve; what running taught stays."""
        known = self._state.jobs.get(job_id)
        batches = profile.batches if spec.max_batch is not None else None
        self._state.jobs[job_id] = Learnt(
            curve=self._shared(Curve.of(spec, profile)),
            measured=known.measured if known else {},
            at_batch=known.at_batch if known else {},
            crossing=known.crossing if known else {},
            batches=batches,
            noise_scale=_noise_scale(batches, known),
            seen_between=known.seen_between if known else None,
            kind=kind_of(spec.entry),
            carried_share=self._errors.carried_share,
        )

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
        if job_id not in self._state.jobs:
            return None
        job = self._state.jobs[job_id]
        batch = job.curve.global_batch if global_batch is None else global_batch
        own_steps = 1.0 if batch == job.curve.global_batch else float(job.worth(np.array([batch]))[0])
        job.carried_share = self._errors.carried_share
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

    def doubt_larger(
        self, job_id: str, num_workers: int, elapsed_s: float, global_batch: int | None, num_hosts: int
    ) -> tuple[int, ...]:
        """A running job has trained for so long as `learn_rate` has it: larger sizes that were measured to be
        no faster are believed so only for a time, for no policy would let them run and be measured again.

        Returns sizes of which nothing that was measured is believed any more.
        """
        job = self._state.jobs.get(job_id)
        if job is None:
            return ()
        batch = job.curve.global_batch if global_batch is None else global_batch
        return job.doubt_larger(num_workers, batch, num_hosts, elapsed_s)

    def learn_between(self, job_id: str, seen: BetweenSteps) -> None:
        """Epochs of a running job have ended: what followed them takes the place of what its trial showed."""
        if job_id in self._state.jobs:
            self._state.jobs[job_id].learn_between(seen)

    def between(self, job_id: str) -> BetweenSteps | None:
        """Time between two epochs, which every rate has its part of; None: not known."""
        job = self._state.jobs.get(job_id)
        return None if job is None else job.between

    def learn_noise(self, job_id: str, noise_scale: float) -> None:
        """The job's gradients have this noise scale from now on."""
        if job_id in self._state.jobs:
            self._state.jobs[job_id].learn_noise(noise_scale)

    def noise_scale(self, job_id: str) -> float | None:
        """What was learnt of it, in samples; None: nothing."""
        job = self._state.jobs.get(job_id)
        return None if job is None or math.isinf(job.noise_scale) else job.noise_scale

    def efficiencies(self, job_id: str, batches: IntArray) -> FloatArray:
        """(K,) of `Options.efficiency`, at these global batches; 0 is the own one."""
        job = self._state.jobs.get(job_id)
        return np.ones(batches.shape) if job is None else job.efficiency(batches)

    def depends_on_hosts(self, job_id: str) -> bool:
        """Whether anything is known of the job's gangs on several hosts; else rates are those of one."""
        job = self._state.jobs.get(job_id)
        return job is not None and job.depends_on_hosts

    def best_batches(
        self,
        job_id: str,
        sizes: IntArray,
        kept: int,
        hosts: IntArray | None = None,
        by_goodput: bool = False,
    ) -> tuple[FloatArray, IntArray] | None:
        """(K,) rates and the global batches that they are of; None if nothing is known but the own one's.

        Rates are in steps of the own batch; 0 where no batch has so many workers. `kept` is the batch that
        the job has now: another one must be better by more than what is known of either.

        Args:
            by_goodput: the best one has the highest rate times efficiency, else the highest rate.
        """
        job = self._state.jobs.get(job_id)
        if job is None or job.curve.range_of_batches is None:
            return None
        if job.batches is None:
            return job.best_batches(sizes, kept, hosts, by_goodput)
        return job.best_of_table(sizes, hosts)

    def changes_worth(self, job_id: str) -> bool:
        """Whether rates of `best_batches` count what a sample is worth, which changes as training goes on."""
        job = self._state.jobs.get(job_id)
        return job is not None and job.batches is not None and not math.isinf(job.noise_scale)

    def rates_at_batch(
        self, job_id: str, sizes: IntArray, global_batch: int, hosts: IntArray | None = None
    ) -> FloatArray | None:
        """(K,) rates with this global batch; None if nothing is known but the own one's.

        In steps of the own batch; 0 where so many workers cannot have it.
        """
        job = self._state.jobs.get(job_id)
        if job is None or job.curve.range_of_batches is None:
            return None
        if job.table is not None:
            return job.table.rates_at(sizes, global_batch, job.noise_scale) / job.slowdown(sizes, hosts)
        return job.rates_at_batch(sizes, global_batch, hosts)

    def rate_at_batch(self, job_id: str, num_workers: int, global_batch: int, num_hosts: int = 1) -> float:
        """Steps/s at one size and batch, in steps of the own batch. Only of jobs whose batch may change."""
        job = self._state.jobs.get(job_id)
        sizes, hosts = np.array([num_workers], dtype=np.int64), np.array([num_hosts], dtype=np.int64)
        if job is not None and job.table is not None:
            rate_per_s = job.table.rate_per_s(num_workers, global_batch, job.noise_scale)
            return rate_per_s / float(job.slowdown(sizes, hosts)[0])
        if job is not None and job.curve.may_change_batch:
            return job.rate_at_batch(num_workers, global_batch, num_hosts)
        return float(self.rates_per_s(job_id, sizes, hosts)[0])

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
        if known is None or abs(known - error) > LEAST_CHANGE:
            self._errors.note(SizeError(job_id, num_workers, error, num_hosts, basis, job.kind, others))
        return error

    def rates_per_s(self, job_id: str, sizes: IntArray, hosts: IntArray | None = None) -> FloatArray:
        """(K,) steps/s at each size and its standing batch; 0 where the job may not have that size.

        A job without a profile is one whose script Swell cannot see into (a restart job): its work is
        counted in seconds on one worker, of which `w` workers do `w ** 0.8` a second.
        """
        if job_id not in self._state.jobs:
            return each(lambda size: size**SCALING_EXPONENT, sizes)
        return self._state.jobs[job_id].rates_per_s(sizes, hosts)

    def margin_classes(self, job_id: str, sizes: IntArray, hosts: IntArray | None = None) -> IntArray:
        """(K,) which of `margins` hold for the job's rates at these sizes, until it learns again."""
        job = self._state.jobs.get(job_id)
        if job is None:
            return np.zeros(sizes.shape, dtype=np.int64)
        return class_of(job.kind, job.bases(sizes, hosts))

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
        return () if job is None else points_of(job, self.margins, sizes, hosts)

    def slowdown_share(self, job_id: str) -> float:
        """Share by which the job's steps take longer than was believed before they were measured, >= 0.

        It is the slowdown at the size where it is largest.
        """
        job = self._state.jobs.get(job_id)
        return 0.0 if job is None else job.slowdown_share

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


def _noise_scale(batches: BatchProfile | None, known: Learnt | None) -> float:
    """What a trial run tells, or else what running taught before it was repeated."""
    if batches is not None:
        return batches.noise_scale
    return math.inf if known is None else known.noise_scale
