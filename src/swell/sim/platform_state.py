"""State of a live platform as its head sees it: jobs and gangs for a world that goes on from there."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.core.record import JobRecord
from swell.core.state import Saved, job_sizes
from swell.core.table import LEAST_REMAINING_SHARE, LEAST_REMAINING_STEPS
from swell.model.job import Elasticity, Profile
from swell.model.options import Sizes
from swell.model.share_mode import ShareMode
from swell.sim.gang import Training
from swell.sim.job import SimJob
from swell.sim.shared_cores import SharedCores
from swell.sim.true_speed import TrueSpeed
from swell.throughput.belief import FittedBelief
from swell.throughput.crossing import NO_CROSSING, Crossing

#: What is believed of gangs on more hosts is taken to be as of so many.
MOST_HOSTS = 8
#: Workers. Policies may choose any size; of larger gangs those between two powers of two are interpolated.
EVERY_UP_TO = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformState:
    """State of a head, and what is taken for true of its jobs: what the head believes of them."""

    now_s: float
    saved: Saved
    jobs: dict[str, SimJob]  #: by id, one for each record

    def gang(self, record: JobRecord) -> Training:
        """The job's workers, or what its next ones will go on from."""
        job = self.jobs[record.id]
        gang = record.gang
        target = gang.goal if gang.is_launching else gang.members
        node_of = self.saved.cluster.node_of
        training = Training(job, gang.generation, target.devices, as_of_s=self.now_s, node_of=node_of)
        training.configuration = target.configuration
        training.steps = training.saved_steps = _steps(record, self.now_s)
        training.formed_s = self.now_s
        training.known_sets = {frozenset(training.devices)}
        if record.phase.holds_devices and record.progress.rate_per_s > 0.0:
            training.rate_per_s = training.true_rate_per_s
        return training


def undisturbed(standing: PlatformState) -> PlatformState:
    """The same with jobs as fast as they would be alone: what gangs have reported is their speed beside those
    with which they share cores.
    """
    cores = SharedCores(ShareMode.WEIGHT)
    for node in standing.saved.cluster.nodes:
        if node.cores is not None:
            cores.add(node, node.cores)
    for record in standing.saved.records:
        cores.note(standing.gang(record))
    paces = {gang.job.id: pace for gang, pace in cores.settle(standing.now_s)}
    jobs = dict(standing.jobs)
    for record in standing.saved.records:
        if record.id in paces and record.progress.reported is not None:
            speed = jobs[record.id].speed.times(1.0 / paces[record.id])
            jobs[record.id] = replace(jobs[record.id], speed=speed)
    return replace(standing, jobs=jobs)


@dataclass(frozen=True, slots=True)
class BelievedBatches:
    """See `sim.job.TrueBatches`: an open batch, as it is believed of a live job."""

    job_id: str
    belief: FittedBelief

    def rate_per_s(self, workers: int, global_batch: int, steps: float) -> float:
        return self.belief.rate_at_batch(self.job_id, workers, global_batch)

    def noise_scale(self, global_batch: int, steps: float) -> float:
        """It stays what gangs have measured so far."""
        known = self.belief.noise_scale(self.job_id)
        return math.inf if known is None else known

    def epoch_end(self, steps: float) -> float:
        return math.inf


def sim_job(record: JobRecord, belief: FittedBelief, num_devices: int) -> SimJob:
    """The job as it is believed to be, on a cluster of so many devices at most.

    Raises:
        ValueError: nothing is believed of it: it has not been measured, or it has no size on this cluster.
    """
    sizes = _told_sizes(job_sizes(record.spec, num_devices, Sizes.EVERY, least=record.least_workers))
    rate_per_s = belief.rates_per_s(record.id, sizes)
    sizes, rate_per_s = sizes[rate_per_s > 0.0], rate_per_s[rate_per_s > 0.0]
    if record.progress.total_steps is None or not sizes.size:
        raise ValueError(f"of job {record.id!r} it is not known how long it is, or how fast it would go")
    return SimJob(
        id=record.id,
        submit_s=record.submitted_s,
        spec=record.spec,
        profile=record.profile or _no_profile(),
        speed=TrueSpeed(sizes, rate_per_s, crossing=_crossing(record, belief, sizes, rate_per_s)),
        batches=None if record.spec.max_batch is None else BelievedBatches(record.id, belief),
        num_steps=max(1, math.ceil(record.progress.total_steps)),
        model=record.spec.name,
    )


def _told_sizes(sizes: IntArray) -> IntArray:
    """Every size of small gangs; of large ones the powers of two and the largest, with lines between them."""
    is_told = (sizes <= EVERY_UP_TO) | ((sizes & (sizes - 1)) == 0)
    is_told[-1:] = True
    told: IntArray = sizes[is_told]
    return told


def _crossing(record: JobRecord, belief: FittedBelief, sizes: IntArray, rate_per_s: FloatArray) -> Crossing:
    """What is believed of its gangs on several hosts."""
    if not belief.depends_on_hosts(record.id):
        return NO_CROSSING
    believed: dict[int, dict[int, float]] = {}
    for num_hosts in range(2, MOST_HOSTS + 1):
        crossing_per_s = belief.rates_per_s(record.id, sizes, np.full_like(sizes, num_hosts))
        extra_s = np.maximum(1.0 / crossing_per_s - 1.0 / rate_per_s, 0.0)
        believed[num_hosts] = dict(zip(sizes.tolist(), extra_s.tolist(), strict=True))
    return believed


def asked_s(record: JobRecord, now_s: float) -> float:
    """Since when the workers of a launch or a resize that is under way have been starting."""
    is_coming = not record.gang.is_ending and record.gang.state in ("launching", "changing")
    return min(record.commanded.asked_s, now_s) if is_coming else now_s


def _steps(record: JobRecord, now_s: float) -> float:
    """Done by now as far as is believed; what should have ended by now is about to."""
    progress = record.progress
    total = progress.total_steps or 0.0
    is_counted = record.spec.elasticity is Elasticity.LIVE
    least = LEAST_REMAINING_STEPS if is_counted else LEAST_REMAINING_SHARE * total
    return max(progress.counted_steps, min(progress.believed_steps(now_s), total - least))


def _no_profile() -> Profile:
    """Return the empty profile of a job that Swell cannot see into."""
    return Profile(
        device_kind="",
        compute_s={},
        allreduce_s={},
        grad_bytes=0,
        state_bytes=0,
        samples_per_epoch=0,
        start_s=0.0,
    )
