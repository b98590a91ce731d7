"""Does a simulated run come out as a live one does? The same jobs on real processes and simulated."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from swell.api.client import Client
from swell.model.job import JobClass, Phase
from swell.policies.registry import POLICIES
from swell_papers.experiment import Context, Measure, Results
from swell_papers.live_run import LiveRun, PlannedJob, Player, played
from swell_papers.simulated_rerun import (
    ERROR,
    FAILED,
    Rerun,
    conditions,
    measured_cost,
    measured_jobs,
    measured_timings,
    rerun,
    rerun_paper,
)

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
