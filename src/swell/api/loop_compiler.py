"""Machine code for the loops of the head of a platform that is up, made ready before it is needed.

To compile takes ten seconds and more where a machine does it for the first time: the head goes on in plain
Python meanwhile. `python -m swell.api.loop_compiler POLICY` compiles into numba's cache on disk.
"""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from swell import compiled
from swell.api.loop_cache import is_compiled, note_compiled
from swell.core.platform_core import PlatformCore
from swell.model.cluster import Node
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
    StepsReported,
)
from swell.model.job import EndCondition, JobClass, JobSpec, Profile
from swell.scheduler import new_core

#: Jobs that the loops are tried on, and turns of the head: enough for every loop to be called.
NUM_JOBS = 24
NUM_TURNS = 8
DEVICES = tuple(f"n{index}" for index in range(8))
CLASSES = (JobClass.STRICT, JobClass.SOFT, JobClass.BEST_EFFORT)
NICENESS = 10
#: Reading what is on disk takes half a second.
LONGEST_READ_S = 3.0

#: What the compiler imports at its first call, in parts that take less than a tenth of a second each.
COMPILER_MODULES = (
    "llvmlite.binding",
    "scipy._lib.array_api_compat.numpy",
    "scipy.linalg",
    "numba",
    "numba.np.linalg",
    "numba.np.random.legacy",
    "numba.typed.typeddict",
)

log = logging.getLogger("swell.loops")


class LoopCompiler:
    """Compiles in a process of its own; once in its life. Belongs to the head's thread.

    The machine code is read bit by bit between turns: all of it takes half a second, and a thread that reads
    beside the head slows every turn down for five times as long.
    """

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self.process: subprocess.Popen[bytes] | None = None  #: that compiles, or has compiled
        self._reading: Iterator[None] | None = None
        self._is_over = False
        compiled.defer(True)

    def begin(self, num_open: int) -> None:
        """Before the first turn: where there are many open jobs, read what an earlier platform has compiled.

        If that takes longer than it should it is not there after all, and the rest is compiled as by `go_on`.
        """
        if num_open < compiled.NUM_ROWS_WORTH_IT or not is_compiled(self._policy):
            return
        until_s = time.monotonic() + LONGEST_READ_S
        for _ in read_loops(self._policy):
            if time.monotonic() > until_s:
                return
        self._end()

    def go_on(self) -> None:
        """Begin, or take what has become ready. Called after each turn with many open jobs."""
        if self._is_over:
            return
        if self._reading is not None:
            self._read_on(self._reading)
        elif self.process is None:
            command = [sys.executable, "-P", "-m", "swell.api.loop_compiler", self._policy]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        elif (status := self.process.poll()) is not None:
            self._take(status)

    def _take(self, status: int) -> None:
        if status:
            self._is_over = True
            log.warning("compiling ended with status %d; the head stays plain Python, and is slower", status)
            return
        self._reading = read_loops(self._policy)

    def _read_on(self, reading: Iterator[None]) -> None:
        try:
            next(reading)
        except StopIteration:
            self._end()

    def _end(self) -> None:
        self._is_over = True
        compiled.defer(False)
        log.info("the loops of policy %s run as machine code", self._policy)

    def stop(self) -> None:
        """No process of it is left when this returns."""
        self._is_over = True
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def read_loops(policy: str) -> Iterator[None]:
    """Machine code for every loop, a bit more at each step; each step takes some hundredths of a second."""
    for module in COMPILER_MODULES:
        with suppress(ImportError):  # of another version of the compiler: it imports what it needs by itself
            importlib.import_module(module)
        yield
    is_all = False
    while not is_all:
        crowd, is_all = _Crowd(new_core(policy)), True
        for turn in range(NUM_TURNS):
            with compiled.compiling(1) as portion:
                crowd.turn(float(turn))
            is_all &= portion.is_all
            yield


def compile_loops(policy: str) -> None:
    """Lead a head through a crowd of jobs, with every loop compiled."""
    with compiled.compiling():
        crowd = _Crowd(new_core(policy))
        for turn in range(NUM_TURNS):
            crowd.turn(float(turn))


class _Crowd:
    """Jobs of all classes on one node, and machines that answer each command in the next turn."""

    def __init__(self, core: PlatformCore) -> None:
        self._core = core
        node = Node(name="n", devices=DEVICES, kind="cpu")
        self._events: list[AnyEvent] = [Opened(at_s=0.0), NodeJoined(at_s=0.0, node=node)]
        self._num_jobs = 0

    def turn(self, at_s: float) -> None:
        self._arrive(at_s, NUM_JOBS if self._num_jobs == 0 else 2)
        commands = self._core.handle(self._events)
        self._core.ended_views()
        self._core.views()
        self._events = [event for command in commands for event in _answers(command, at_s + 1.0)]

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
        end=EndCondition(steps=1000 + 100 * number),
        job_class=job_class,
        deadline_s=None if job_class is JobClass.BEST_EFFORT else now_s + 30.0 * (number + 1),
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


def main() -> None:
    """Entry point of the process that compiles the loops of a policy."""
    os.nice(NICENESS)
    compile_loops(sys.argv[1])
    if not compiled.is_kept():
        sys.exit("numba can keep machine code in no folder; set NUMBA_CACHE_DIR to one that you can write")
    note_compiled(sys.argv[1])


if __name__ == "__main__":
    main()
