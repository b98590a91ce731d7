"""`make bench-live`: what one turn costs on a platform that is up, all of it.

From the events to the next wait: journal with its flush to disk, decision, commands, board and folds. The
platform is real but for its machine, which obeys at once. It starts on the journal of many open jobs; then
running jobs report, and new ones are submitted. Loops become machine code on the way, as after `swell up`.
With `--scrape-every` another thread reads all metrics meanwhile, as Prometheus does.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.conditions import conditions, describe, write_json
from benchmarks.crowded_state import profile_of, write_crowded_state
from benchmarks.service import percentile
from swell.api.prometheus import MetricsOutput
from swell.executors.local.devices import parse_devices
from swell.live.head_thread import Site
from swell.live.platform import Platform
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    JobProfiled,
    Outcome,
    RunningWork,
    StepsReported,
)
from swell.model.job import LOSS, EndCondition, JobSpec
from swell.model.usage import DeviceReading
from swell.scheduler import new_core
from swell.store.folder import StateFolder
from swell.store.journal import SqlJournal
from swell.tally import Tally, tally_of

SIZES = (64, 100, 1000, 5000)
DEVICES = "paced:8x8@200"
POLICY = "elasticflow"
#: Between two events: reports, and now and then a submission.
EVERY_S = 0.05
REPORTS_A_SUBMISSION = 5


class ObedientMachine:
    """Implements `live.head_thread.Executor`: everything succeeds at once."""

    lack = ""

    def __init__(self) -> None:
        self._gangs: dict[str, tuple[int, int]] = {}  #: job id -> generation, workers
        self._deliver: Callable[[AnyEvent], None] = lambda event: None

    def start(
        self, deliver: Callable[[AnyEvent], None], replaced: Callable[[RunningWork], None]
    ) -> RunningWork:
        self._deliver = deliver
        return RunningWork()

    def remove_host(self, name: str) -> None:
        pass

    def test_node(self, name: str, devices: Sequence[str]) -> None:
        pass

    def device_readings(self) -> dict[str, DeviceReading]:
        return {}

    def want_devices(self, num: int) -> None:
        pass

    def acknowledge(self) -> None:
        pass

    def perform_again(self, commands: Iterable[AnyCommand], work: RunningWork) -> None:
        for command in commands:
            self.perform(command)

    def perform(self, command: AnyCommand) -> None:
        answer = self._answer(command, time.clock_gettime(time.CLOCK_BOOTTIME))
        if answer is not None:
            self._deliver(answer)

    def _answer(self, command: AnyCommand, at_s: float) -> AnyEvent | None:
        if isinstance(command, ProfileJob):
            return JobProfiled(
                at_s=at_s,
                job_id=command.job_id,
                profile=profile_of(command.device_kind),
                attempt=command.attempt,
            )
        if not isinstance(command, LaunchGang | Reconfigure | SuspendGang | StopGang):
            return None
        job_id, generation = command.job_id, command.generation
        if isinstance(command, LaunchGang | Reconfigure):
            self._gangs[job_id] = generation, len(command.target.devices)
            kind = GangStarted if isinstance(command, LaunchGang) else GangResized
            return kind(at_s=at_s, job_id=job_id, generation=generation, steps=0, pids=())
        self._gangs.pop(job_id, None)
        if isinstance(command, SuspendGang):
            return GangSuspended(at_s=at_s, job_id=job_id, generation=generation, steps=0)
        return GangEnded(at_s=at_s, job_id=job_id, generation=generation, outcome=Outcome.STOPPED, steps=0)

    def report(self, number: int, loss: float | None = None) -> None:
        """One gang after the other tells that it has made steps, and of a loss in the last of them."""
        gangs = list(self._gangs.items())
        if gangs:
            job_id, (generation, workers) = gangs[number % len(gangs)]
            at_s = time.clock_gettime(time.CLOCK_BOOTTIME)
            self._deliver(
                StepsReported(
                    at_s=at_s,
                    job_id=job_id,
                    generation=generation,
                    steps=number + 1,
                    num_workers=workers,
                    step_s=0.1,
                    loss=loss,
                    curves={} if loss is None else _curves(number + 1, loss),
                    mark=number + 1,
                )
            )


def _curves(step: int, loss: float) -> dict[str, Tally]:
    tally = tally_of([(step, loss)], num_workers=1)
    return {} if tally is None else {LOSS: tally}


@dataclass(frozen=True, slots=True)
class Turns:
    """Milliseconds."""

    num_jobs: int
    num_turns: int
    median_ms: float
    p99_ms: float
    longest_ms: float
    first_ms: float  #: of the first turn after the start, which decides about all jobs
    scrape_ms: float | None = None  #: median time of reading all metrics; None: nothing has read them


@contextmanager
def timed_platform(state: Path) -> Iterator[tuple[Platform, ObedientMachine, list[float]]]:
    """A platform at work on a journal that is there, and the lengths of its turns in seconds."""
    folder, machine = StateFolder(state), ObedientMachine()
    journal = SqlJournal(folder.journal)
    nodes = [local.node for local in parse_devices(DEVICES)]
    site = Site(jobs_dir=folder.jobs, policy=POLICY, nodes=nodes)
    platform = Platform(site, new_core(POLICY), journal, machine)
    platform.recover(journal.history())
    turns_s = _time_turns(platform)
    platform.start()
    thread = threading.Thread(target=platform.run)
    thread.start()
    try:
        yield platform, machine, turns_s
    finally:
        platform.stop()
        thread.join()
        journal.close()


def _time_turns(platform: Platform) -> list[float]:
    """Filled with what passes between two looks at the inbox, from the first that finds events on."""
    turns_s: list[float] = []
    inbox, begun_s = platform._inbox, [0.0]
    take = inbox.take_batch

    def timed(until_s: float | None) -> list[AnyEvent]:
        if begun_s[0]:
            turns_s.append(time.perf_counter() - begun_s[0])
        events = take(until_s)
        begun_s[0] = time.perf_counter() if events else 0.0
        return events

    inbox.take_batch = timed  # type: ignore[method-assign]
    return turns_s


@contextmanager
def scraped(platform: Platform, every_s: float) -> Iterator[list[float]]:
    """All metrics are read so often, from another thread; how long that took, in seconds. 0: never."""
    scrapes_s: list[float] = []
    exposition, is_over = MetricsOutput(platform), threading.Event()

    def scrape() -> None:
        while not is_over.wait(every_s):
            begun_s = time.perf_counter()
            exposition.text()
            scrapes_s.append(time.perf_counter() - begun_s)

    thread = threading.Thread(target=scrape)
    if every_s:
        thread.start()
    try:
        yield scrapes_s
    finally:
        is_over.set()
        if every_s:
            thread.join()


def measure(folder: Path, num_jobs: int, seconds: float, scrape_every_s: float = 0.0) -> Turns:
    script = folder / "tiny.py"
    script.write_text("")
    spec = JobSpec(
        name="new", entry=str(script), workdir=str(folder), global_batch=16, end=EndCondition(steps=10**6)
    )
    with (
        timed_platform(folder / f"state-{num_jobs}") as (platform, machine, turns_s),
        scraped(platform, scrape_every_s) as scrapes_s,
    ):
        pause, until_s = threading.Event(), time.perf_counter() + seconds
        for number in itertools.count():
            if time.perf_counter() >= until_s:
                break
            if number % REPORTS_A_SUBMISSION:
                machine.report(number)
            else:
                platform.submit(spec)
            pause.wait(EVERY_S)
    turns_ms = [1000.0 * turn_s for turn_s in turns_s]
    later_ms = turns_ms[1:]
    return Turns(
        num_jobs=num_jobs,
        num_turns=len(turns_ms),
        median_ms=statistics.median(later_ms),
        p99_ms=percentile(later_ms, 0.99),
        longest_ms=max(later_ms),
        first_ms=turns_ms[0],
        scrape_ms=1000.0 * statistics.median(scrapes_s) if scrapes_s else None,
    )


def _measure_apart(folder: Path, num_jobs: int, seconds: float, scrape_every_s: float) -> Turns:
    """In a process of its own, as a platform is: it has no machine code, and did not write the past."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        state, script = folder / f"state-{num_jobs}", folder / "tiny.py"
        pool.apply(write_crowded_state, (state, script, DEVICES, 0, num_jobs))
        return pool.apply(measure, (folder, num_jobs, seconds, scrape_every_s))


def show(rows: list[Turns]) -> None:
    names = ("open jobs", "turns", "median ms", "p99 ms", "longest ms", "first ms", "scrape ms")
    table = Table(*names, box=SIMPLE_HEAD)
    for row in rows:
        table.add_row(
            f"{row.num_jobs}",
            f"{row.num_turns}",
            f"{row.median_ms:.1f}",
            f"{row.p99_ms:.1f}",
            f"{row.longest_ms:.0f}",
            f"{row.first_ms:.0f}",
            "" if row.scrape_ms is None else f"{row.scrape_ms:.1f}",
        )
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.live_turns", description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="+", default=SIZES)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--scrape-every", type=float, default=0.0, metavar="SECONDS", help="0: never")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    under = conditions()
    print(describe(under))
    with tempfile.TemporaryDirectory(prefix="swell-bench-") as name:
        rows = [
            _measure_apart(Path(name), num_jobs, options.seconds, options.scrape_every)
            for num_jobs in options.jobs
        ]
    show(rows)
    if options.json:
        content = {"conditions": under, "turns": [asdict(row) for row in rows]}
        write_json(options.json, json.loads(json.dumps(content)))


if __name__ == "__main__":
    main()
