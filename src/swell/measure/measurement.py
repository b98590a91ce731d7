"""The measurement of a machine's devices: what is done to a job, and the time that each thing took."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from swell.executors.local.devices import LocalNode
from swell.measure import all_reduce, training
from swell.measure.expectations import JobExpectations
from swell.measure.measured_gang import LIMIT_S, MeasuredGang, MeasureFailed
from swell.measure.step_log import LOOK_S, LoggedStep, await_steps, pause_s, read_steps, steady_step_s
from swell.model.job import Elasticity, EndCondition, JobSpec, Profile

#: Workers that are measured: more of them show little else, and take longer.
MOST_WORKERS = 8
#: Steps of each size that are looked at.
STEPS = 25
JOB, REDUCE_JOB = "measured", "reduced"


@dataclass(frozen=True, slots=True)
class DeviceMeasure:
    """One time that was measured, and what a platform expects it to be."""

    what: str
    measured_s: float
    expected_s: float | None  #: None: a platform expects nothing of it before it has seen it


@dataclass(slots=True)
class DeviceMeasurement:
    """All that was measured, and with what."""

    num_workers: int
    measures: list[DeviceMeasure] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    profile: Profile | None = None
    num_repeated: int = 0  #: steps that were trained again after a worker was killed
    num_lost: int = 0  #: steps that the checkpoint did not have

    def add(self, what: str, measured_s: float, expected_s: float | None = None) -> None:
        self.measures.append(DeviceMeasure(what, measured_s, expected_s))


def describe_job(folder: Path, most: int) -> JobSpec:
    """The job that is measured, with so many workers at most; its steps go to the folder, which is made."""
    folder.mkdir()
    return JobSpec(
        name=JOB,
        entry=training.__file__,
        args=(str(folder),),
        workdir=str(folder),
        global_batch=training.GLOBAL_BATCH,
        end=EndCondition(steps=training.ENDLESS),
        max_workers=most,
    )


def measure(
    node: LocalNode,
    folder: Path,
    tell: Callable[[str], None],
    describe: Callable[[Path, int], JobSpec] = describe_job,
) -> DeviceMeasurement:
    """Measure the devices of a node, in a minute or so.

    Args:
        folder: an empty one.
        tell: is told what is measured now.
        describe: tells which job is measured, as `describe_job` does.

    Raises:
        MeasureFailed, TimeoutError, AgentError: the text says what was not to be had.
    """
    number = min(len(node.node.devices), MOST_WORKERS)
    most = 1 << (number.bit_length() - 1)
    found = DeviceMeasurement(most)
    with MeasuredGang(folder, node, node.node.devices) as gang:
        sizes = tuple(1 << power for power in range(most.bit_length()))
        spec = describe(folder / "steps", most)
        tell("a trial run, from which a platform expects what follows")
        begun_s = time.monotonic()
        found.profile = gang.profile(JOB, spec, sizes)
        found.add("trial run before the first step", time.monotonic() - begun_s)
        run = _MeasuredRun(gang, spec, folder / "steps", found, JobExpectations(spec, found.profile))
        run.measure(tell)
        if most > 1:
            tell(f"all-reduces between {most} workers")
            device = node.bindings[gang.devices[0]].torch_device
            _measure_all_reduce(gang, folder, found, found.profile.grad_bytes, device, run.expected)
    found.versions = json.loads((folder / "steps" / "versions.json").read_text())
    return found


class _MeasuredRun:
    """The life of one job: start, growth, kill, checkpoint, start from it, shrink."""

    def __init__(
        self,
        gang: MeasuredGang,
        spec: JobSpec,
        folder: Path,
        found: DeviceMeasurement,
        expected: JobExpectations,
    ) -> None:
        self.gang, self.spec, self.folder = gang, spec, folder
        self.found, self.expected = found, expected

    def measure(self, tell: Callable[[str], None]) -> None:
        most = self.found.num_workers
        tell("the start of 1 worker, and its steps")
        self._start(1, "start of 1 worker")
        self._steps(1, 0.0)
        if most > 1:
            tell(f"a growth to {most} workers, and a kill -9 of one of them")
            self._grow(most)
            self._kill(most)
        tell("a checkpoint, and a start from it")
        saved = self._save()
        first = self._start(most, f"start of {_workers(most)} from a checkpoint")
        self.found.num_lost = max(0, saved + 1 - first.step)
        if most > 1:
            tell("a shrink to 1 worker")
            self._shrink(most)
        self.gang.stop(JOB)

    def _start(self, num_workers: int, what: str) -> LoggedStep:
        """The first step."""
        begun_s = time.monotonic()
        self.gang.launch(JOB, self.spec, num_workers)
        first = self._await(num_workers, begun_s, 1)[0]
        took_s = first.end_s - begun_s
        self.found.add(f"{what}, until its first step", took_s, self.expected.cost_s("start", num_workers))
        return first

    def _steps(self, num_workers: int, since_s: float) -> None:
        step_s = steady_step_s(self._await(num_workers, since_s, STEPS))
        self.found.add(f"step of {_workers(num_workers)}", step_s, self.expected.step_s(num_workers))

    def _grow(self, most: int) -> None:
        begun_s = time.monotonic()
        self.gang.resize(JOB, most)
        first_s = self._await(most, begun_s, STEPS)[0].end_s
        what = f"growth from 1 to {_workers(most)}"
        pause = self._pause_s(1, most, begun_s)
        self.found.add(f"{what}: time taken from training", pause, self.expected.cost_s("growth", most))
        self.found.add(f"{what}: until a step of all", first_s - begun_s, self.expected.cost_s("wait", most))
        self._steps(most, begun_s)

    def _kill(self, most: int) -> None:
        killed_s = self.gang.kill_last(JOB)
        steps = self._await(most - 1, killed_s, STEPS)
        took_s = steps[0].end_s - killed_s
        self.found.add("kill -9 of one worker: until the next step of the others", took_s)
        last = max(one.step for one in read_steps(self.folder) if one.num_workers == most)
        self.found.num_repeated = max(0, last + 1 - steps[0].step)

    def _save(self) -> int:
        """The steps that are saved."""
        give_up_s = time.monotonic() + LIMIT_S
        while self.gang.save_s is None and time.monotonic() < give_up_s:
            self.gang.check()
            time.sleep(LOOK_S)
        if self.gang.save_s is not None:
            self.found.add("checkpoint: time taken from training", self.gang.save_s, self.expected.save_s)
        begun_s = time.monotonic()
        self.gang.suspend(JOB)
        took_s = time.monotonic() - begun_s
        self.found.add("suspension: until it is saved and all workers are gone", took_s)
        return max(one.step for one in read_steps(self.folder))

    def _shrink(self, most: int) -> None:
        begun_s = time.monotonic()
        self._await(most, begun_s, STEPS)
        begun_s = time.monotonic()
        self.gang.resize(JOB, 1)
        self._await(1, begun_s, STEPS)
        what = f"shrink from {_workers(most)} to 1: time taken from training"
        self.found.add(what, self._pause_s(most, 1, begun_s), self.expected.cost_s("shrink", 1))

    def _pause_s(self, before: int, after: int, changed_s: float) -> float:
        return pause_s(read_steps(self.folder), before, after, changed_s)

    def _await(self, num_workers: int, since_s: float, number: int) -> list[LoggedStep]:
        """Steps that so many workers have made since a moment, as soon as there are so many of them."""

        def of_these(steps: list[LoggedStep]) -> list[LoggedStep]:
            return [one for one in steps if one.num_workers == num_workers and one.end_s > since_s]

        def is_enough(steps: list[LoggedStep]) -> bool:
            return len({one.step for one in of_these(steps)}) >= number

        return of_these(await_steps(self.folder, is_enough, self.gang.check, LIMIT_S))


def _workers(number: int) -> str:
    return f"{number} worker" if number == 1 else f"{number} workers"


def _measure_all_reduce(
    gang: MeasuredGang,
    folder: Path,
    found: DeviceMeasurement,
    num_bytes: int,
    device: str,
    expected: JobExpectations,
) -> None:
    file, most = folder / "all-reduce.json", found.num_workers
    spec = JobSpec(
        name=REDUCE_JOB,
        entry=all_reduce.__file__,
        args=(str(file), str(num_bytes), device),
        workdir=str(folder),
        global_batch=0,
        end=EndCondition(),
        elasticity=Elasticity.RESTART,
        min_workers=most,
        max_workers=most,
    )
    gang.launch(REDUCE_JOB, spec, most)
    gang.await_end()
    if not file.exists():
        raise MeasureFailed("the all-reduce of torch.distributed came to no end")
    told = json.loads(file.read_text())
    what = f"all-reduce of {num_bytes / 1e6:.0f} MB between {most} workers ({told['backend']})"
    found.add(what, statistics.median(told["times_s"]), expected.all_reduce_s(most))
