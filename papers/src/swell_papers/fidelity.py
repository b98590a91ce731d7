"""Does a simulated run come out as a live one does? The same jobs on real processes and simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
from scipy.optimize import nnls

from swell.api.client import Client
from swell.core import loop
from swell.core.kinds import read_platform
from swell.core.platform_core import PlatformCore
from swell.core.record import JobRecord
from swell.model.errors import InvalidInput
from swell.model.event import AnyEvent, JobSubmitted
from swell.model.job import JobClass, Phase
from swell.model.target import ShareKind
from swell.model.view import JobView
from swell.policies.registry import POLICIES
from swell.scheduler import new_core
from swell.settings import make_settings
from swell.sim.change_cost import MeasuredCost
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob
from swell.sim.simulate import TurnLog
from swell.sim.what_if import PlatformState, PlatformWorld, sim_job
from swell.sim.world import Scenario
from swell.throughput.belief import FittedBelief
from swell_papers.experiment import Claim, Context, Key, Measure, Paper, Results, Study
from swell_papers.findings import Cell, Table, table
from swell_papers.live_run import LiveJob, LiveRun, PlannedJob, Player, played

#: A gang says so often how far it is, as in the live world.
REPORT_S = 1.0
#: From the last step of a job to the end of its processes: 0.1 to 0.5 s were measured.
EXIT_S = 0.2


class Twin(NamedTuple):
    """A job of a live run, and of its simulation."""

    live: LiveJob
    simulated: JobView

    @property
    def times_s(self) -> tuple[float, float] | None:
        """Seconds from submission to end, live and simulated; None for a job that did not succeed in both."""
        live_s, simulated_s = completion_s(self.live.view), completion_s(self.simulated)
        return None if live_s is None or simulated_s is None else (live_s, simulated_s)


class Rerun(NamedTuple):
    """A live run with its simulation."""

    run: LiveRun
    twins: tuple[Twin, ...]

    @property
    def mean_error(self) -> float:
        """Mean absolute error of completion times, as a share of the live ones; not a number: none ended."""
        errors = [abs(times[1] / times[0] - 1.0) for twin in self.twins if (times := twin.times_s)]
        return float(np.mean(errors)) if errors else float("nan")

    @property
    def error_together(self) -> float:
        """How far the mean completion time is from the live one, as a share of that."""
        times = np.array([twin.times_s for twin in self.twins if twin.times_s]).reshape(-1, 2).sum(axis=0)
        return float(times[1] / times[0] - 1.0) if times[0] else float("nan")

    @property
    def failed(self) -> list[str]:
        """Names of the jobs that failed in the live run."""
        return [job.part.name for job in self.run.jobs if job.view.phase is Phase.FAILED]


def completion_s(view: JobView) -> float | None:
    """Seconds from submission to end; None for a job that did not succeed."""
    if view.phase is not Phase.SUCCEEDED or view.finished_s is None:
        return None
    return view.finished_s - view.submitted_s


def rerun(
    run: LiveRun,
    jobs: Sequence[SimJob],
    cost: MeasuredCost,
    timings: GangTimes,
    nodes: Sequence[AnyEvent] = (),
    cpu_shares: ShareKind = ShareKind.WEIGHT,
    listen: Callable[[PlatformCore], None] = lambda core: None,
) -> Rerun:
    """Simulate the same submissions from the state in which the live head was.

    Args:
        jobs: what is true of them.
        nodes: when which of them joins and fails, in head time.
        listen: called after each turn of the head.
    """
    head = run.head.encode()
    (only,) = read_platform(head).kinds
    standing = PlatformState(now_s=run.begun_s, saved=only.saved, jobs={})
    core = new_core(run.policy, make_settings(run.settings))
    core.load(head)
    recorder = TurnLog(core)

    def end_turn(now_s: float) -> None:
        recorder.end_turn(now_s, world)
        listen(core)

    submissions: list[AnyEvent] = [
        JobSubmitted(at_s=job.submit_s, job_id=job.id, spec=job.spec) for job in jobs
    ]
    scenario = Scenario(
        nodes=standing.saved.cluster.nodes,
        jobs=jobs,
        cost=cost,
        timings=timings,
        others=[*submissions, *nodes],
        cpu_shares=cpu_shares,
    )
    world = PlatformWorld(standing, core.under_way(), scenario, end_turn)
    loop.run(world, recorder, core)
    views = {**{view.id: view for view in core.views()}, **recorder.ended}
    return Rerun(run, tuple(Twin(job, views[job.view.id]) for job in run.jobs))


def measured_jobs(run: LiveRun) -> list[SimJob]:
    """Return the jobs, each as fast as its trial run has measured. Raises InvalidInput if it has none."""
    num_devices = sum(len(node.devices) for node in run.nodes)
    jobs = []
    for job in run.jobs:
        if job.profile is None:
            raise InvalidInput(f"no trial run of job {job.view.id!r} is known; play the run again")
        record = JobRecord(id=job.view.id, spec=job.spec, submitted_s=job.view.submitted_s)
        record.learn_length(job.profile)
        belief = FittedBelief()
        belief.learn_profile(record.id, record.spec, job.profile)
        if job.view.noise_scale is not None:
            belief.of(record.id).learn_noise(job.view.noise_scale)
        jobs.append(sim_job(record, belief, num_devices))
    return jobs


def measured_cost(run: LiveRun) -> MeasuredCost:
    """What starts and pauses took in a live run: order and crowding by least squares, the mean of pauses."""
    starts = [start for job in run.jobs for start in _launches(job)]
    order_s, crowding_share = 0.0, 0.0
    if starts:
        beside_s = [(1.0, (num - 1) * alone_s) for num, _, alone_s in starts]
        fitted, _ = nnls(np.array(beside_s), np.array([took_s - alone_s for _, took_s, alone_s in starts]))
        order_s, crowding_share = fitted.tolist()
    resizes = (resize for job in run.jobs for resize in job.view.resize_history)
    return MeasuredCost(
        pause_s=_mean(resize.cost_s for resize in resizes),
        order_s=order_s,
        crowding_share=crowding_share,
    )


def _launches(job: LiveJob) -> Iterator[tuple[int, float, float]]:
    """(workers, seconds from the order to the first step, seconds that the script takes alone) of each."""
    decided_s = None
    for story in job.stories:
        if story.code == "decided":
            decided_s = story.at_s
        elif story.code == "started" and decided_s is not None and job.profile is not None:
            sizes = [workers for at_s, workers in job.view.sizes if at_s <= story.at_s]
            yield sizes[-1], story.at_s - decided_s, job.profile.start_s


def measured_timings(run: LiveRun) -> GangTimes:
    """What ends and checkpoints take, these on average of a live run. A gang changes between two steps."""
    return GangTimes(
        report_s=REPORT_S,
        exit_s=EXIT_S,
        save_s=_mean(job.view.save_s for job in run.jobs),
        grain_steps=1.0,
    )


def _mean(values: Iterable[float | None]) -> float:
    """The mean of what there is; 0 for nothing."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else 0.0


# What is told of it


def twin_table(name: str, found: Mapping[Key, Rerun]) -> Table:
    """A row for each job of each run, by the first word of its key: times and worker counts."""
    heading = ("run", "job", "live", "simulated", ("live s", 1), ("sim. s", 1), ("error %", 1))
    return table(
        name,
        "job by job, live and simulated",
        (*heading, "sizes", "sim. sizes", "last batch", "sim. last batch"),
        ((key[0], *_cells(twin)) for key, one in found.items() for twin in one.twins),
    )


def _cells(twin: Twin) -> Iterator[Cell]:
    live, simulated = twin.live.view, twin.simulated
    yield from (twin.live.part.name, _ending(live), _ending(simulated))
    yield from (completion_s(live), completion_s(simulated))
    yield 100.0 * (twin.times_s[1] / twin.times_s[0] - 1.0) if twin.times_s else None
    yield from ("-".join(str(workers) for _, workers in view.sizes) for view in (live, simulated))
    yield from (live.batch or None, simulated.batch or None)


def _ending(view: JobView) -> str:
    if view.phase is not Phase.SUCCEEDED:
        return "refused" if view.phase is Phase.REJECTED else str(view.phase)
    return {True: "kept", False: "missed", None: "done"}[view.kept]


def conditions(run: LiveRun) -> str:
    """What a run was made with, in a line."""
    return (
        f"{len(run.jobs)} real PyTorch jobs on {run.devices}, {run.num_cores} cores; load of the machine "
        f"{run.load_before:.1f} before, {run.load_after:.1f} at the end"
    )


ERROR = Measure[Rerun]("mean error of completion times, %", lambda one: 100.0 * one.mean_error, 1)
FAILED = Measure[Rerun]("failed", lambda one: len(one.failed), 0)


def rerun_paper(
    name: str,
    title: str,
    truth: Callable[[Context, Results[Rerun]], Iterable[str]],
    cases: Callable[[Context], Mapping[Key, Callable[[], Rerun]]],
    wanted: Mapping[Measure[Rerun], float],
) -> Paper:
    """Return the evaluation of live runs, by policy, and their simulation.

    Args:
        wanted: what each measure of every run is at most to be.
    """
    study = Study(
        name=name,
        title=title,
        truth=truth,
        cases=cases,
        keys=("policy",),
        measures=list(wanted),
        claims=[
            Claim(text=measure.name, figure=limit, of=partial(_most, measure), way="<=", is_target=True)
            for measure, limit in wanted.items()
        ],
        tell=lambda context, found: [twin_table(f"{name}-jobs", found)],
    )
    return Paper.with_page(name, title, "", study)


def _most(measure: Measure[Rerun], found: Results[Rerun]) -> float:
    return max(measure.of(one) or 0.0 for one in found.values())


#: Devices that train for real and take their time; few, so that a machine with two cores carries them.
DEVICES = "paced:1x4@64"
#: Those that are compared unless others are named.
COMPARED = ("elasticflow", "srtf", "fifo")

#: A step of 64 samples takes one such device a second. What a script does between two epochs is measured by
#: trial runs, but not paced: of these jobs only those whose evaluation is quick reach the end of an epoch. Of
#: 70 workloads drawn this is one whose outcome hangs little on chance, by simulation alone. With jobs of
#: perfect elasticity on few devices it does, for which job is to shrink is decided between equals.
WORKLOAD = tuple(
    PlannedJob(
        at_s=at_s,
        name=name,
        script=f"{name.partition('-')[0]}.py",
        steps=steps,
        workers=workers,
        job_class=JobClass(job_class),
        deadline_after_s=after_s,
    )
    for at_s, name, steps, workers, job_class, after_s in (
        (0, "vae-a", 28, "1:", "best_effort", None),
        (9.1, "cnn-b", 25, "2", "strict", 50),
        (16.2, "gru-c", 31, "2", "soft", 57),
        (24.5, "transformer-d", 16, "1:2", "best_effort", None),
        (33.6, "cnn-e", 30, "1:", "strict", 5),  # four devices need 7.5 s and a start: in vain
        (42.7, "gru-f", 23, "1", "strict", 71),
        (49.8, "vae-g", 35, "2:4", "best_effort", None),
        (56, "transformer-h", 32, "2:", "strict", 50),
        (62.2, "cnn-i", 11, "1", "soft", 40),
        (69.3, "gru-j", 26, "1:", "strict", 72),
        (78.4, "vae-k", 41, "2:4", "best_effort", None),
        (84.6, "cnn-l", 53, "2:", "strict", 74),
    )
)
#: The same jobs for a policy that chooses batches: a small batch of their own, and a range above it. On four
#: devices a step of the own one takes a sixteenth of a second, of which all-reduce and update are a part that
#: counts; on one device they are none, so the best batch hangs on the size.
OPEN_BATCH, OPEN_RANGE = 16, "16:256"


def workload_of(policy: str) -> tuple[PlannedJob, ...]:
    """Return the twelve jobs, of which each has as many samples under every policy."""
    if not POLICIES[policy].domain.opens_batches:
        return WORKLOAD
    return tuple(
        msgspec.structs.replace(
            job,
            steps=job.steps * job.global_batch // OPEN_BATCH,
            global_batch=OPEN_BATCH,
            further={"batch": OPEN_RANGE},
        )
        for job in WORKLOAD
    )


def compare(run: LiveRun) -> Rerun:
    """Simulate a live run with changes that cost what they did in it on average."""
    return rerun(run, measured_jobs(run), measured_cost(run), measured_timings(run))


def _compared(context: Context, policy: str) -> Rerun:
    def play(client: Client) -> LiveRun:
        return Player(client, DEVICES).measure_and_play(workload_of(policy))

    return compare(played(context, f"live-{policy}", play, policy, {}, "--devices", DEVICES))


def _num_odd(one: Rerun) -> int:
    """Jobs that were admitted live and refused in the simulation, or the other way."""
    pairs = ((twin.live.view.phase, twin.simulated.phase) for twin in one.twins)
    return sum((live is Phase.REJECTED) != (simulated is Phase.REJECTED) for live, simulated in pairs)


def _truth(context: Context, found: Results[Rerun]) -> Iterator[str]:
    yield "simulated speed: each job's own trial run, nothing of its later training"
    yield from (f"{policy}: {conditions(one.run)}" for (policy,), one in found.items())


PAPER = rerun_paper(
    "fidelity",
    "Live and simulated: completion times and admissions of the same jobs",
    _truth,
    lambda context: {
        (policy,): partial(_compared, context, policy) for policy in sorted(context.policies or COMPARED)
    },
    {ERROR: 3.0, Measure[Rerun]("admitted in one of the two only", _num_odd, 0): 0.0, FAILED: 0.0},
)
