"""Records of live runs that went exactly as they are simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
from tests.store.views import job_view

from swell.api.submission import parse
from swell.model.event import AnyEvent, NodeJoined, Opened
from swell.model.job import Profile
from swell.model.node import Node
from swell.scheduler import new_core
from swell.settings import make_settings
from swell.sim.change_cost import MeasuredCost
from swell.sim.gangs import GangTimes
from swell.sim.simulate import EventLog
from swell_papers.fidelity import EXIT_S, measured_jobs, rerun
from swell_papers.live_run import LiveJob, LiveRun, PlannedJob

BEGUN_S = 1_800_000_000.0
#: A step of 64 samples takes a second; one of 16 has a part that the batch does not change.
PROFILE = Profile(
    device_kind="paced@64",
    compute_s={size: size / 64 for size in (11, 13, 16, 22, 32, 64)},
    allreduce_s={2: 0.002, 4: 0.004},
    grad_bytes=1000,
    state_bytes=3000,
    samples_per_epoch=512,
    start_s=0.8,
)
OPEN_PROFILE = msgspec.structs.replace(
    PROFILE, compute_s={size: 0.008 + size / 64 for size in (1, 4, 16, 64, 256)}
)
COST = MeasuredCost(pause_s=0.04, order_s=0.2, crowding_share=0.4)
TIMINGS = GangTimes(report_s=1.0, grain_steps=1.0, exit_s=EXIT_S)


def submitted(part: PlannedJob, **view: Any) -> LiveJob:
    """A job of which nothing has become yet."""
    at_s = BEGUN_S + 1.0 + part.at_s
    plain = {"id": f"{part.name}-1", "name": part.name, "submitted_s": at_s, "metrics": {}, "kept": None}
    return LiveJob(
        part=part,
        spec=parse(part.fields(at_s)).to_spec(at_s),
        profile=OPEN_PROFILE if "batch" in part.further else PROFILE,
        view=job_view(**(plain | view)),
        stories=(),
    )


def run_of(
    policy: str,
    jobs: Sequence[LiveJob],
    nodes: Sequence[Node],
    num_first: int,
    settings: dict[str, float] | None = None,
) -> LiveRun:
    """A run before its first submission, when the first nodes have joined."""
    core = new_core(policy, make_settings(settings or {}))
    joined = [NodeJoined(at_s=BEGUN_S, node=node) for node in nodes[:num_first]]
    core.handle([Opened(at_s=BEGUN_S, policy=policy), *joined])
    return LiveRun(
        policy=policy,
        settings=settings or {},
        devices="paced:1x4@64",
        begun_s=BEGUN_S,
        head=core.save().decode(),
        nodes=tuple(nodes),
        jobs=tuple(jobs),
        num_cores=2,
        load_before=0.1,
        load_after=0.5,
    )


def as_simulated(run: LiveRun, changes: Sequence[AnyEvent] = (), **timings: Any) -> LiveRun:
    """The run, with what becomes of its jobs in a simulation."""
    diary = EventLog()
    one = rerun(run, measured_jobs(run), COST, replace(TIMINGS, **timings), changes, listen=diary.listen)
    jobs = []
    for twin in one.twins:
        stories = tuple(story for job_id, story in diary.stories if job_id == twin.simulated.id)
        jobs.append(msgspec.structs.replace(twin.live, view=twin.simulated, stories=stories))
    return msgspec.structs.replace(run, jobs=tuple(jobs))
