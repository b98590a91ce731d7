"""One call of each loop, from which its types are learnt: every policy leads small crowds of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from swell.compiled import replaced
from swell.core.platform_core import PlatformCore
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure, SuspendGang
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    Opened,
    Outcome,
    QuotasSet,
    StepsReported,
)
from swell.model.job import EndCondition, JobClass, JobSpec, Profile
from swell.model.node import Node
from swell.model.quota import Quota
from swell.policies.registry import POLICIES, keeps_quotas
from swell.scheduler import new_core
from swell.settings import Settings

#: Jobs of a crowd, and turns of the head.
NUM_JOBS = 16
NUM_TURNS = 16
PERIOD_S = 40.0
DEVICES = tuple(f"n{index}" for index in range(23))
CLASSES = (JobClass.STRICT, JobClass.SOFT, JobClass.BEST_EFFORT)
TENANTS = ("a", "b", "c")
#: In the second half of the turns.
QUOTAS = {"a": Quota(devices=9), "b": Quota(share=0.5)}

Calls = dict[Callable[..., Any], Sequence[object]]


def calls_of_all_loops() -> Calls:
    """Loops that a crowd of jobs leads to under some policy, with the arguments of the first call."""
    calls: Calls = {}

    def note(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: object) -> Any:
            calls.setdefault(kernel, arguments)
            return kernel(*arguments)

        return run

    with replaced(note):
        for policy in POLICIES:
            lead_crowd(policy)
    return calls


def lead_crowd(policy: str, settings: Settings | None = None) -> None:
    """Turns of a head with a crowd of jobs."""
    crowd = _Crowd(new_core(policy, settings))
    for turn in range(NUM_TURNS):
        if turn == NUM_TURNS // 2 and keeps_quotas(POLICIES[policy]):
            crowd.limit()
        crowd.turn(PERIOD_S * turn)


class _Crowd:
    """Jobs of all classes on one node, and machines that answer each command in the next turn."""

    def __init__(self, core: PlatformCore) -> None:
        self._core = core
        node = Node(name="n", devices=DEVICES, kind="cpu")
        self._events: list[AnyEvent] = [Opened(at_s=0.0), NodeJoined(at_s=0.0, node=node)]
        self._num_jobs = 0

    def limit(self) -> None:
        """Give tenants quotas from the next turn on."""
        self._events.append(QuotasSet(at_s=0.0, quotas=QUOTAS))

    def turn(self, at_s: float) -> None:
        self._arrive(at_s, NUM_JOBS if self._num_jobs == 0 else 2)
        commands = self._core.handle(self._events)
        self._core.ended_views()
        self._core.views()
        self._events = [event for command in commands for event in _answers(command, at_s + PERIOD_S)]

    def _arrive(self, at_s: float, num_jobs: int) -> None:
        for number in range(self._num_jobs, self._num_jobs + num_jobs):
            job_id = f"job-{number}"
            self._events.append(JobSubmitted(at_s=at_s, job_id=job_id, spec=_spec(number, at_s)))
        self._num_jobs += num_jobs


def _answers(command: AnyCommand, at_s: float) -> Sequence[AnyEvent]:
    """Every second gang ends after its first report."""
    if isinstance(command, ProfileJob):
        return [JobProfiled(at_s=at_s, job_id=command.job_id, profile=_profile())]
    if isinstance(command, SuspendGang):
        return [GangSuspended(at_s=at_s, job_id=command.job_id, generation=command.generation, steps=10)]
    if not isinstance(command, LaunchGang | Reconfigure):
        return []
    kind = GangStarted if isinstance(command, LaunchGang) else GangResized
    job_id, generation, pids = command.job_id, command.generation, tuple(range(len(command.target.devices)))
    begun = kind(at_s=at_s, job_id=job_id, generation=generation, steps=5, pids=pids)
    report = StepsReported(
        at_s=at_s, job_id=job_id, generation=generation, steps=10, num_workers=len(pids), step_s=0.1
    )
    end = GangEnded(at_s=at_s, job_id=job_id, generation=generation, outcome=Outcome.SUCCEEDED, steps=10)
    return [begun, report, end] if generation % 2 == 0 else [begun, report]


def _spec(number: int, now_s: float) -> JobSpec:
    job_class = CLASSES[number % len(CLASSES)]
    return JobSpec(
        name="job",
        entry="job.py",
        workdir="/",
        global_batch=64,
        tenant=TENANTS[number % len(TENANTS)],
        end=EndCondition(steps=500 + 300 * number),
        job_class=job_class,
        deadline_s=None if job_class is JobClass.BEST_EFFORT else now_s + 60.0 * (number + 1),
    )


def _profile() -> Profile:
    return Profile(
        device_kind="cpu",
        compute_s={batch: 0.001 * batch for batch in (8, 16, 32, 64)},
        allreduce_s={1: 0.0, 2: 0.001, 4: 0.002, 8: 0.003},
        grad_bytes=1000,
        state_bytes=1000,
        samples_per_epoch=1000,
        start_s=0.5,
    )
