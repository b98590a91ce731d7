"""Events out of nowhere, and plain answers to commands."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tests.core.fakes import node, profile, spec, strict

from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang, WakeAt
from swell.model.event import (
    AnyEvent,
    CancelRequested,
    ClockStepped,
    DrainRequested,
    GangEnded,
    GangFound,
    GangResized,
    GangStarted,
    GangSuspended,
    HoldRequested,
    HostRuledOut,
    JobLinked,
    JobProfiled,
    JobSubmitted,
    JobWarned,
    NodeCleared,
    NodeJoined,
    NodeLost,
    NodeWarned,
    Opened,
    Outcome,
    PredecessorsSucceeded,
    ProfilingFailed,
    QuotasSet,
    ResizeFailed,
    ResumeRequested,
    ScriptDistributed,
    ScriptVerified,
    StepsReported,
    SuspendFailed,
    Woke,
    WorkersLost,
)
from swell.model.job import Elasticity, JobClass
from swell.model.quota import Quota
from swell.script_facts import ScriptFinding

JOBS = st.sampled_from(["a", "b", "c"])
GENERATIONS = st.integers(0, 8)
ATTEMPTS = st.integers(0, 2)
STEPS = st.integers(0, 200)
DEVICES = st.lists(st.sampled_from([f"n{n}.{i}" for n in (0, 1) for i in range(4)]), unique=True).map(tuple)
COUNTED = spec(60, elasticity=Elasticity.RESTART, job_class=JobClass.STRICT, deadline_s=500.0)
SMALL = spec(None, elasticity=Elasticity.RESTART, estimate_s=5.0, grows_when_distributed=True)
FOUND = st.sampled_from([(), (ScriptFinding(name="other-step", text="it differs"),)])
SPECS = st.sampled_from(
    [
        spec(50),
        COUNTED,
        spec(50, after=("a",)),
        spec(100, min_workers=2),
        spec(50, devices_per_worker=2),
        strict(9.0),
        SMALL,
    ]
)


def _of(kind: type, **fields: Any) -> st.SearchStrategy[Any]:
    return st.builds(kind, at_s=st.just(0.0), **fields)


def _of_gang(kind: type, **fields: Any) -> st.SearchStrategy[Any]:
    return _of(kind, job_id=JOBS, generation=GENERATIONS, **fields)


#: By tenant; those of some jobs here are among them.
QUOTAS = st.dictionaries(
    st.sampled_from(["", "a", "b", "c"]),
    st.builds(Quota, devices=st.none() | st.integers(0, 9), share=st.none() | st.floats(0.05, 1.0)),
    max_size=3,
)
ANYTHING = st.one_of(
    _of(JobSubmitted, job_id=JOBS, spec=SPECS),
    _of(JobProfiled, job_id=JOBS, profile=st.just(profile()), attempt=ATTEMPTS),
    _of(
        ProfilingFailed,
        job_id=JOBS,
        message=st.just("no"),
        outcome=st.sampled_from([Outcome.FAILED, Outcome.LOST]),
        attempt=ATTEMPTS,
    ),
    _of(CancelRequested, job_id=JOBS),
    _of(HoldRequested, job_id=JOBS),
    _of(ResumeRequested, job_id=JOBS),
    _of(PredecessorsSucceeded, job_id=JOBS),
    _of(ScriptDistributed, job_id=JOBS),
    _of(ScriptVerified, job_id=JOBS, steps=st.none() | STEPS, findings=FOUND),
    _of(JobWarned, job_id=JOBS, message=st.sampled_from(["hm", ""]), about=st.sampled_from(["", "output"])),
    _of(JobLinked, job_id=JOBS, name=st.sampled_from(["a", "b"]), url=st.just("https://a.org")),
    _of(HostRuledOut, job_id=JOBS, devices=DEVICES, message=st.just("no data")),
    _of_gang(GangStarted, steps=STEPS, pids=st.just((1, 2))),
    _of_gang(GangResized, steps=STEPS, pids=st.just((2, 3))),
    _of_gang(ResizeFailed, message=st.just("no")),
    _of_gang(
        StepsReported,
        steps=STEPS,
        num_workers=st.sampled_from([0, 1, 2, 3, 4]),
        step_s=st.none() | st.floats(0.01, 1.0),
        loss=st.none() | st.floats(),
        metrics=st.dictionaries(st.sampled_from(["x", "y"]), st.floats()),
        pause_s=st.none() | st.floats(0.0, 1.0),
    ),
    _of_gang(WorkersLost, devices=DEVICES, message=st.just("-9")),
    _of_gang(SuspendFailed, message=st.just("full")),
    _of_gang(GangSuspended, steps=STEPS),
    _of_gang(GangEnded, outcome=st.sampled_from(list(Outcome)), steps=STEPS, is_over_memory=st.booleans()),
    _of_gang(GangFound, devices=DEVICES, steps=STEPS),
    _of(NodeJoined, node=st.sampled_from([node("n0"), node("n1")])),
    _of(NodeLost, name=st.sampled_from(["n0", "n1"]), cause=st.sampled_from(["", "gone"])),
    _of(NodeWarned, name=st.sampled_from(["n0", "n1"]), until_s=st.sampled_from([None, 60.0])),
    _of(NodeCleared, name=st.sampled_from(["n0", "n1"])),
    _of(Woke),
    _of(DrainRequested),
    _of(Opened),
    _of(Opened, boot_id=st.sampled_from(["", "b"]), calendar_offset_s=st.sampled_from([None, 0.0, 60.0])),
    _of(ClockStepped, calendar_offset_s=st.sampled_from([0.0, 0.5, -3600.0])),
    _of(QuotasSet, quotas=QUOTAS),
)


def joined(at_s: float) -> AnyEvent:
    return NodeJoined(at_s=at_s, node=node("n0"))


def answer_to(command: AnyCommand, at_s: float, outcome: Outcome) -> AnyEvent | None:
    """What a machine that does as it is told would say."""
    match command:
        case ProfileJob(job_id=job_id, attempt=attempt):
            return JobProfiled(at_s=at_s, job_id=job_id, profile=profile(), attempt=attempt)
        case LaunchGang(job_id=job_id, generation=generation):
            return GangStarted(at_s=at_s, job_id=job_id, generation=generation, steps=0, pids=(1,))
        case Reconfigure(job_id=job_id, generation=generation):
            return GangResized(at_s=at_s, job_id=job_id, generation=generation, steps=0, pids=(1,))
        case SuspendGang(job_id=job_id, generation=generation):
            return GangSuspended(at_s=at_s, job_id=job_id, generation=generation, steps=0)
        case StopGang(job_id=job_id, generation=generation):
            return GangEnded(at_s=at_s, job_id=job_id, generation=generation, outcome=outcome, steps=0)
        case WakeAt():
            return None
