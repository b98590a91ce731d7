"""A live run again, simulated: the same head, submissions and profiles, and changes that cost as much."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from swell.core import loop
from swell.core.platform_core import PlatformCore
from swell.core.record import JobRecord
from swell.core.saved_kinds import read_one_kind
from swell.model.event import JobSubmitted
from swell.model.view import JobView
from swell.scheduler import new_core
from swell.settings import Settings
from swell.sim.change_cost import AsMeasured
from swell.sim.gangs import GangTimings
from swell.sim.job import SimJob
from swell.sim.occurrence import EventArrives, Occurrence
from swell.sim.platform_state import PlatformState, sim_job
from swell.sim.recorder import TurnRecorder
from swell.sim.resumed import ResumedWorld
from swell.throughput.belief import FittedBelief
from swell.throughput.curve import Curve
from swell_papers.live_run import LiveJob, LiveRun

#: A gang says so often how far it is, as in the live world.
REPORT_S = 1.0


def simulate(
    run: LiveRun,
    cost: AsMeasured,
    timings: GangTimings,
    listen: Callable[[PlatformCore], None] = lambda core: None,
    noise_share: float = 0.0,
    seed: int = 0,
    nodes: Sequence[tuple[float, Occurrence]] = (),
    settings: Settings | None = None,
    note: Callable[[float, Sequence[JobView]], None] | None = None,
) -> dict[str, JobView]:
    """What becomes of each job, by id, if it goes as fast as its trial run has measured.

    Args:
        listen: called after each turn of the head.
        noise_share: of speeds, standard deviation of their logarithm; 0: exactly so fast.
        nodes: when which of them joins and fails, in head time.
        settings: of the platform.
        note: called after each turn, with its time and all jobs.
    """
    generator = np.random.default_rng(seed)
    standing = PlatformState(now_s=run.begun_s, saved=read_one_kind(run.head.encode()), jobs={})
    num_devices = sum(len(node.devices) for node in run.nodes)
    jobs = [_sim_job(job, num_devices, noise_share, generator) for job in run.jobs]
    core = new_core(run.policy, settings)
    core.load(run.head.encode())
    recorder = TurnRecorder(core)

    def end_turn(now_s: float) -> None:
        recorder.end_turn(now_s, world.tally, world.version)
        listen(core)
        if note is not None:
            note(now_s, (*core.views(), *recorder.ended.values()))

    submissions: list[tuple[float, Occurrence]] = [
        (job.submit_s, EventArrives(JobSubmitted(at_s=job.submit_s, job_id=job.id, spec=job.spec)))
        for job in jobs
    ]
    world = ResumedWorld(standing, core.under_way(), cost, jobs, [*submissions, *nodes], end_turn, timings)
    loop.run(world, recorder, core)
    return {**{view.id: view for view in core.views()}, **recorder.ended}


def _sim_job(job: LiveJob, num_devices: int, noise_share: float, generator: np.random.Generator) -> SimJob:
    record = JobRecord(id=job.view.id, spec=job.spec, submitted_s=job.view.submitted_s)
    record.learn_length(job.profile)
    belief = FittedBelief()
    belief.learn_profile(record.id, record.spec, job.profile)
    if job.view.noise_scale is not None:
        belief.learn_noise(record.id, job.view.noise_scale)
    return sim_job(record, belief, num_devices, noise_share, generator)


def measured_cost(run: LiveRun) -> AsMeasured:
    """What starts and pauses took in a live run: order and crowding by least squares, the mean of pauses."""
    starts = [start for job in run.jobs for start in launches(job)]
    beside_s = [(num - 1) * alone_s for num, _, alone_s in starts]
    order_s, crowding_share = _line(beside_s, [took_s - alone_s for _, took_s, alone_s in starts])
    pauses_s = [
        resize.cost_s for job in run.jobs for resize in job.view.resize_history if resize.cost_s is not None
    ]
    return AsMeasured(
        pause_s=float(np.mean(pauses_s)) if pauses_s else 0.0,
        order_s=order_s,
        crowding_share=crowding_share,
    )


def launches(job: LiveJob) -> Iterator[tuple[int, float, float]]:
    """(workers, seconds from the order to the first step, seconds that the script takes alone) of each."""
    decided_s = None
    for story in job.stories:
        if story.code == "decided":
            decided_s = story.at_s
        elif story.code == "started" and decided_s is not None:
            sizes = [workers for at_s, workers in job.view.sizes if at_s <= story.at_s]
            yield sizes[-1], story.at_s - decided_s, job.profile.start_s


def measured_timings(run: LiveRun) -> GangTimings:
    """What ends took in a live run, exits by least squares over trials. A gang changes between two steps."""
    exits = [found for job in run.trials if (found := _exit(job)) is not None]
    saves_s = [taken_s for job in run.jobs for taken_s in saves(job)]
    exit_s, more_s = _line([num - 1 for num, _ in exits], [taken_s for _, taken_s in exits])
    return GangTimings(
        report_s=REPORT_S,
        exit_s=exit_s,
        exit_more_s=more_s,
        save_s=float(np.mean(saves_s)) if saves_s else 0.0,
        grain_steps=1.0,
    )


def _line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Intercept and slope, neither below 0, of the line closest to these points; 0 where there are none."""
    if not x:
        return 0.0, 0.0
    across, up = np.array(x, dtype=np.float64), np.array(y, dtype=np.float64)
    unknowns = np.column_stack([np.ones(len(x)), across])
    (intercept, slope), *_ = np.linalg.lstsq(unknowns, up, rcond=None)
    if slope < 0.0:
        return max(0.0, float(up.mean())), 0.0
    if intercept < 0.0:
        return 0.0, max(0.0, float(across @ up / (across @ across)))
    return float(intercept), float(slope)


def _exit(job: LiveJob) -> tuple[int, float] | None:
    """(workers, seconds from the last step to the end of the processes) of a job that kept its size.

    What its first step took longer than others is in it too.
    """
    view = job.view
    sizes = [workers for _, workers in view.sizes if workers]
    if view.started_s is None or view.finished_s is None or len(sizes) != 1 or not view.total_steps:
        return None
    num_steps = view.total_steps * job.spec.global_batch / _batch(job)
    trained_s = num_steps * _step_s(job, sizes[0])
    return sizes[0], max(0.0, view.finished_s - view.started_s - trained_s)


def _batch(job: LiveJob) -> int:
    """Samples of a step, at the end."""
    return job.view.batch or job.spec.global_batch


def _step_s(job: LiveJob, workers: int) -> float:
    """Seconds of such a step, by the trial run."""
    sizes, batches = np.array([workers], dtype=np.int64), np.array([_batch(job)], dtype=np.int64)
    return float(Curve.of(job.spec, job.profile).step_s(sizes, batches)[0])


def saves(job: LiveJob) -> Iterator[float]:
    """Seconds from each order to leave to the devices being free, less the rest of the step under way.

    That is half a step on average.
    """
    decided_s = None
    for story in job.stories:
        if story.code == "decided":
            decided_s = story.at_s
        elif story.code == "suspended" and decided_s is not None:
            (*_, workers) = [workers for at_s, workers in job.view.sizes if at_s < story.at_s and workers]
            yield max(0.0, story.at_s - decided_s - _step_s(job, workers) / 2.0)
