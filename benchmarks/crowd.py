"""A crowd of training jobs, and machines that do what the head says: the world of `decisions`."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang, WakeAt
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangEvent,
    GangResized,
    GangStarted,
    GangSuspended,
    JobProfiled,
    JobSubmitted,
    Outcome,
    Woke,
)
from swell.model.job import EndCondition, JobClass, JobSpec, Profile
from swell.model.node import Node
from swell.throughput.belief import FittedBelief
from swell.throughput.learnt import UNPROFILED, Learnt, Unprofiled

NODE_DEVICES = 8
RACK_DEVICES = 16 * NODE_DEVICES
LARGEST = 64  #: workers that a job is drawn with, at most
PROFILE_S, START_S, PAUSE_S = 1.0, 20.0, 2.0
SHORTEST_S, MEDIAN_S, SPREAD = 600.0, 3600.0, 1.0  #: of the jobs' lengths: log-normal, beyond the shortest
SLACK = (1.15, 2.5)  #: from submission to deadline, in times of the length
SLACK_ASKED = (0.25, 2.5)  #: the same of those who come later: some ask for too much

#: Seconds a step of w workers: compute / w + fixed + doubling * log2(w) + each * w. Of the kind measured on
#: A100s for models from BERT to VGG: the best size is somewhere between 8 and 64, larger ones are slower.
CURVES = (
    (0.120, 0.035, 0.004, 0.0008),
    (0.270, 0.012, 0.002, 0.0006),
    (0.490, 0.020, 0.004, 0.0003),
    (0.130, 0.008, 0.003, 0.0002),
    (0.650, 0.030, 0.006, 0.0003),
    (0.200, 0.030, 0.004, 0.0010),
    (0.950, 0.050, 0.008, 0.0004),
)
PROFILE = Profile(
    device_kind="gpu",
    compute_s={256: 0.1},
    allreduce_s={1: 0.0},
    grad_bytes=100_000_000,
    state_bytes=300_000_000,
    samples_per_epoch=50_000,
    start_s=START_S,
)


@dataclass(frozen=True)
class Mix:
    """What kinds of jobs there are; the rest is best-effort."""

    strict_share: float = 0.5
    soft_share: float = 0.2
    load_share: float = 0.95  #: of the devices, that the first jobs were drawn with
    num_tenants: int = 0  #: to whom jobs belong in turn; 0: to none


@dataclass
class Member:
    """A job of the crowd."""

    spec: JobSpec
    curve: int
    workers: int  #: that it is drawn with: its deadline can be met with so many
    generation: int = 0
    has: int = 0  #: workers that train
    since_s: float = 0.0
    done: float = 0.0  #: steps, at `since_s`

    def settle(self, now_s: float, workers: int) -> None:
        """It has trained until now, and goes on with so many."""
        if self.has:
            self.done += (now_s - self.since_s) * _rate_per_s(self.curve, self.has)
        self.has, self.since_s = workers, now_s

    @property
    def end_s(self) -> float:
        if not self.has or self.spec.end.steps is None:
            return math.inf
        return self.since_s + (self.spec.end.steps - self.done) / _rate_per_s(self.curve, self.has)


def _rate_per_s(curve: int, workers: int) -> float:
    compute_s, fixed_s, doubling_s, each_s = CURVES[curve]
    return 1.0 / (compute_s / workers + fixed_s + doubling_s * math.log2(workers) + each_s * workers)


class TrueSpeed(Unprofiled, kw_only=True):
    """What is true of a member."""

    number: int  #: of its curve

    def rates_per_s(self, workers: IntArray, hosts: IntArray | None = None) -> FloatArray:
        return np.array([_rate_per_s(self.number, size) for size in workers.tolist()])

    def rate_per_s(self, num_workers: int, num_hosts: int = 1) -> float:
        return _rate_per_s(self.number, num_workers)


class TableBelief(FittedBelief):
    """Believes what is true."""

    margins = np.full(1, 0.05)

    def __init__(self, members: dict[str, Member]) -> None:
        super().__init__()
        self._members = members
        self._speeds = [TrueSpeed(curve=UNPROFILED.curve, number=number) for number in range(len(CURVES))]

    def of(self, job_id: str) -> Learnt:
        member = self._members.get(job_id)
        return UNPROFILED if member is None else self._speeds[member.curve]

    def learn_profile(self, job_id: str, spec: JobSpec, profile: Profile) -> None:
        pass

    def learn_rate(
        self,
        job_id: str,
        num_workers: int,
        step_s: float,
        num_steps: int,
        global_batch: int | None = None,
        num_hosts: int = 1,
    ) -> None:
        pass


class Crowd:
    """Members, the time, and the answers that the machines have yet to give."""

    def __init__(self, mix: Mix, seed: int) -> None:
        self.now_s = 1000.0
        self.members: dict[str, Member] = {}
        self._mix = mix
        self._random = random.Random(seed)
        self._numbers = itertools.count()
        self._answers: list[tuple[float, int, AnyEvent, int]] = []
        self._wake_s = math.inf

    # ------------------------------------------------------------ who comes
    def newcomers(self, num_jobs: int, num_devices: int) -> list[JobSubmitted]:
        """So many jobs, drawn with powers of two that fill the devices as far as the mix says."""
        sizes = [1] * num_jobs
        left = int(self._mix.load_share * num_devices) - num_jobs
        while left > 0:
            job = self._random.randrange(num_jobs)
            if sizes[job] <= min(left, LARGEST // 2):
                left -= sizes[job]
                sizes[job] *= 2
        return [self._submission(size, SLACK) for size in sizes]

    def newcomer(self) -> JobSubmitted:
        """A job that is submitted now, drawn with as many workers as some job before it."""
        return self._submission(self._random.choice(list(self.members.values())).workers, SLACK_ASKED)

    def _submission(self, workers: int, slack: tuple[float, float]) -> JobSubmitted:
        number = next(self._numbers)
        job_id, num_tenants = f"job{number:06d}", self._mix.num_tenants
        curve, job_class = self._random.randrange(len(CURVES)), self._job_class()
        lasts_s = SHORTEST_S + self._random.lognormvariate(math.log(MEDIAN_S), SPREAD)
        deadline_s = self.now_s + 3 * START_S + lasts_s * self._random.uniform(*slack)
        spec = JobSpec(
            name=job_id,
            entry="/train.py",
            workdir="/",
            global_batch=256,
            end=EndCondition(steps=int(lasts_s * _rate_per_s(curve, workers))),
            job_class=job_class,
            deadline_s=None if job_class is JobClass.BEST_EFFORT else deadline_s,
            tenant=tenant_name(number % num_tenants) if num_tenants else "",
        )
        self.members[job_id] = Member(spec, curve, workers)
        return JobSubmitted(at_s=self.now_s, job_id=job_id, spec=spec)

    def _job_class(self) -> JobClass:
        share = self._random.random()
        if share < self._mix.strict_share:
            return JobClass.STRICT
        is_soft = share < self._mix.strict_share + self._mix.soft_share
        return JobClass.SOFT if is_soft else JobClass.BEST_EFFORT

    # ------------------------------------------------------------ what happens
    @property
    def has_answers(self) -> bool:
        return bool(self._answers)

    def next_events(self) -> list[AnyEvent]:
        """What comes first: answers of the machines, the timer, or the end of a job."""
        ending = min(self.members.values(), key=lambda member: member.end_s)
        answer_s = self._answers[0][0] if self._answers else math.inf
        self.now_s = max(self.now_s, min(answer_s, self._wake_s, ending.end_s))
        if self._wake_s <= self.now_s:
            self._wake_s = math.inf
            return [Woke(at_s=self.now_s)]
        if answer_s <= self.now_s:
            return self._due_answers()
        return [self._end(ending)]

    def _due_answers(self) -> list[AnyEvent]:
        batch: list[AnyEvent] = []
        while self._answers and self._answers[0][0] <= self.now_s:
            _, _, event, workers = heapq.heappop(self._answers)
            if isinstance(event, GangEvent):
                if event.job_id not in self.members:
                    continue  # it has ended since
                member = self.members[event.job_id]
                member.settle(self.now_s, workers)
                member.generation = event.generation
                event = msgspec.structs.replace(event, steps=int(member.done))
            batch.append(event)
        return batch

    def _end(self, member: Member) -> GangEnded:
        del self.members[member.spec.name]
        return GangEnded(
            at_s=self.now_s,
            job_id=member.spec.name,
            generation=member.generation,
            outcome=Outcome.SUCCEEDED,
            steps=member.spec.end.steps or 0,
        )

    # ------------------------------------------------------------ what the machines do
    def perform(self, commands: Sequence[AnyCommand]) -> None:
        for command in commands:
            if isinstance(command, WakeAt):
                self._wake_s = command.at_s
            elif isinstance(command, ProfileJob):
                at_s = self.now_s + PROFILE_S
                self._expect(JobProfiled(at_s=at_s, job_id=command.job_id, profile=PROFILE), 0)
            else:
                self._expect(*self._answer(command))

    def _expect(self, answer: AnyEvent, workers: int) -> None:
        heapq.heappush(self._answers, (answer.at_s, next(self._numbers), answer, workers))

    def _answer(self, command: LaunchGang | Reconfigure | SuspendGang | StopGang) -> tuple[AnyEvent, int]:
        """What will be said, and with how many workers the job trains from then on."""
        after_s = START_S if isinstance(command, LaunchGang) else PAUSE_S
        facts: dict[str, Any] = {
            "at_s": self.now_s + after_s,
            "job_id": command.job_id,
            "generation": command.generation,
            "steps": 0,
        }
        if isinstance(command, LaunchGang):
            return GangStarted(**facts, pids=()), len(command.target.devices)
        if isinstance(command, Reconfigure):
            return GangResized(**facts, pids=()), len(command.target.devices)
        if isinstance(command, SuspendGang):
            return GangSuspended(**facts), 0
        return GangEnded(**facts, outcome=Outcome.STOPPED), 0


def tenant_name(number: int) -> str:
    return f"tenant{number}"


def nodes(num_devices: int) -> list[Node]:
    """Nodes of eight, the last one maybe smaller, sixteen a rack."""
    return [
        Node(
            name=f"n{first // NODE_DEVICES:04d}",
            devices=tuple(f"g{one:05d}" for one in range(first, min(first + NODE_DEVICES, num_devices))),
            kind="gpu",
            rack=f"rack{first // RACK_DEVICES:03d}",
        )
        for first in range(0, num_devices, NODE_DEVICES)
    ]
