"""Real jobs that share a machine's cores, on a platform that is up, and the record of their learning."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import msgspec
import psutil

from swell.api.client import Client
from swell.executors.gang.script_values import STEP
from swell.executors.local.containers.engine import (
    ContainerChoice,
    ContainerEngine,
    EngineDown,
    find_engine,
)
from swell.executors.local.limits.detection import limiter_offers
from swell.model.errors import InvalidInput
from swell.model.job import Phase
from swell.model.view import JobView
from swell_papers.findings import Part
from swell_papers.flowcon_schedule import ColocatedJob, Schedule, scripts_of

LOOK_EVERY_S = 0.1
#: Jobs report so often: a shorter interval of a policy has nothing new to see.
REPORT_S = 0.5
#: Ends the label of a policy whose jobs ran in containers.
IN_CONTAINERS = ", containers"
#: Of a job that is only to be measured. An epoch of the longest, of 128 steps, ends in it: a job in which
#: one ends has a trial run, unless it is known what follows.
NUM_TRIAL_STEPS = 130


class LearningSample(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A job at one moment. Times are seconds from the first submission."""

    at_s: float
    steps: int
    loss: float
    cpu_s: float | None
    share: float | None


class ColocatedJobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one job. Times are seconds from the first submission."""

    job: ColocatedJob
    submitted_s: float
    finished_s: float | None  #: None: it did not succeed
    final_loss: float | None
    samples: tuple[LearningSample, ...]

    @property
    def completion_s(self) -> float | None:
        return None if self.finished_s is None else self.finished_s - self.submitted_s


class Contender(msgspec.Struct, frozen=True):
    """A policy with parameters, and how a table calls it."""

    label: str
    policy: str
    parameters: tuple[tuple[str, float], ...] = ()
    limits: str = "weight"  #: what a share means: see `swell up --cpu-shares`
    image: str = ""  #: jobs run in containers of it; empty: without

    def shortened(self, factor: float) -> Contender:
        """The same for shorter jobs: its times likewise, but no shorter than reports are apart."""
        parameters = tuple(
            (name, max(value / factor, min(value, REPORT_S)) if name.endswith("_s") else value)
            for name, value in self.parameters
        )
        return msgspec.structs.replace(self, parameters=parameters)

    def contained(self, image: str) -> Contender:
        """The same with jobs in containers."""
        return msgspec.structs.replace(self, label=f"{self.label}{IN_CONTAINERS}", image=image)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMachine:
    """Schedules that are run under several policies.

    The first contender is what others are compared with; with an image, those in containers with the first in
    containers.
    """

    name: str
    title: str
    draw: Callable[[int], Schedule]  #: the schedule of a seed
    contenders: tuple[Contender, ...]
    late_job: str | None = None  #: the one whose completion time the paper tells
    late_reductions: Mapping[str, float] = field(default_factory=dict)  #: that the paper prints, by label
    is_bar: bool = False  #: something is to be reached
    details: tuple[Detail, ...] = ()
    needs: tuple[str, ...] = ()

    def labels(self) -> Sequence[str]:
        return [contender.label for contender in self.contenders]

    def base_of(self, label: str) -> str:
        """Label of the contender with which this one is compared; its own, of such a one."""
        image = next(one.image for one in self.contenders if one.label == label)
        return next(one.label for one in self.contenders if one.image == image)

    def with_containers(self, image: str) -> Self:
        """Each contender once more, with jobs in containers."""
        contained = (contender.contained(image) for contender in self.contenders)
        return replace(self, contenders=(*self.contenders, *contained))


class ColocatedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One schedule under one policy."""

    contender: Contender
    repetition: int
    jobs: tuple[ColocatedJobRecord, ...]
    control_cpu_s: float  #: CPU time of the daemon
    load_before: float  #: of the machine in the minute before (processes that run or wait to)
    mechanism: str  #: that divided the cores
    shortened: float = 1.0  #: times and jobs are so many times shorter than the schedule's

    @property
    def label(self) -> str:
        return self.contender.label

    @property
    def makespan_s(self) -> float:
        """Seconds from the first submission to the last end."""
        return max(job.finished_s or 0.0 for job in self.jobs)


#: What an experiment tells of its runs besides, in files that begin with its name.
Detail = Callable[[str, Sequence[ColocatedRun]], Iterable[Part]]


@dataclass(slots=True)
class Watcher:
    """Submits each job when it is due, and notes what the platform tells of all until they have ended."""

    client: Client
    advance: Callable[[int], None]
    image: str = ""  #: of the containers in which jobs run
    ids: dict[str, ColocatedJob] = field(default_factory=dict)
    samples: dict[str, list[LearningSample]] = field(default_factory=dict)
    begun_s: float = 0.0  #: head time of the first submission
    opened_s: float = 0.0  #: the same moment, as this process counts time

    def play(self, schedule: Schedule) -> list[ColocatedJobRecord]:
        due_s = time.monotonic()
        for job in schedule:
            while (wait_s := due_s + job.at_s - time.monotonic()) > 0.0:
                time.sleep(min(wait_s, LOOK_EVERY_S))
                self._look()
            self._submit(job)
        while self._look() < len(self.ids):
            time.sleep(LOOK_EVERY_S)
        return [self._record(job_id) for job_id in self.ids]

    def _submit(self, job: ColocatedJob) -> None:
        job_id = self.client.submit(**job.fields(self.image))
        if not self.ids:
            now_s, self.begun_s = self.client.cluster().now_s, self.client.job(job_id).submitted_s
            self.opened_s = time.monotonic() - (now_s - self.begun_s)
        self.ids[job_id], self.samples[job_id] = job, []

    def _look(self) -> int:
        views = [view for view in self.client.jobs() if view.id in self.ids]
        now_s = time.monotonic() - self.opened_s
        for view in views:
            if view.loss is not None:
                self._note(view, now_s)
        num_ended = sum(view.phase.is_end for view in views)
        self.advance(num_ended)
        return num_ended

    def _note(self, view: JobView, now_s: float) -> None:
        samples = self.samples[view.id]
        steps = int(view.metrics.get(STEP, view.steps))  # a script that prints its loss counts them itself
        if view.loss is None or (samples and samples[-1].steps == steps):
            return
        samples.append(
            LearningSample(at_s=now_s, steps=steps, loss=view.loss, cpu_s=view.cpu_s, share=view.share)
        )

    def _record(self, job_id: str) -> ColocatedJobRecord:
        view = self.client.job(job_id)
        is_done = view.phase.value == "succeeded" and view.finished_s is not None
        return ColocatedJobRecord(
            job=self.ids[job_id],
            submitted_s=view.submitted_s - self.begun_s,
            finished_s=view.finished_s - self.begun_s if is_done and view.finished_s else None,
            final_loss=view.loss,
            samples=tuple(self.samples[job_id]),
        )


def measure_scripts(client: Client, schedule: Schedule, image: str = "") -> None:
    """Have each script measured: later jobs need no trial run, and start at once.

    Raises InvalidInput: one of them fails here.
    """
    for job in scripts_of(schedule, NUM_TRIAL_STEPS):
        ended = client.wait(client.submit(**job.fields(image)))
        if ended.phase is not Phase.SUCCEEDED:
            what = ended.message.strip().splitlines()[-1:] or [ended.reason]
            raise InvalidInput(f"a short run of {job.model} {ended.phase}: {what[0]}; see its log")


def run_schedule(
    client: Client,
    schedule: Schedule,
    contender: Contender,
    repetition: int,
    advance: Callable[[int], None],
    shortened: float = 1.0,
) -> ColocatedRun:
    """Play it on a platform that is up with this policy."""
    daemon = psutil.Process(client.endpoint.pid)
    measure_scripts(client, schedule, contender.image)
    load_before, used_before_s = os.getloadavg()[0], _cpu_s(daemon)
    records = Watcher(client, advance, contender.image).play(schedule)
    return ColocatedRun(
        contender=contender,
        repetition=repetition,
        jobs=tuple(records),
        control_cpu_s=_cpu_s(daemon) - used_before_s,
        load_before=load_before,
        mechanism=_mechanism(contender),
        shortened=shortened,
    )


def _mechanism(contender: Contender) -> str:
    """What divides the cores among its jobs. Raises InvalidInput."""
    if contender.image:
        return engine_with(contender.image).name
    return next((offer.name for offer in limiter_offers() if offer.is_offered), "nothing")


def engine_with(image: str) -> ContainerEngine:
    """Find the program that runs containers of this image. Raises InvalidInput if it or the image lacks."""
    try:
        engine = find_engine(ContainerChoice.AUTO)
    except EngineDown as error:
        raise InvalidInput(
            f"--image {image} needs Docker or Podman: {error}; start one, or leave --image out"
        ) from error
    if not engine.has_image(image):
        raise InvalidInput(
            f"--image {image}: {engine.name} has no such image; get it with `{engine.name} pull {image}`, or "
            f"make it (`{engine.name} import`)"
        )
    return engine


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
