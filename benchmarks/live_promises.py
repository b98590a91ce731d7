"""`make bench-promises`: whether a live platform keeps its promises, and what past jobs do to its offers.

The platform is real, on paced devices. First it is asked what it offers to a few jobs, right after it was
started. Then strict jobs of random sizes, windows and evaluations are submitted at random moments. Then odd
jobs run: other scripts, some with starts of seconds, at other sizes. When all have ended, the platform is
asked for the same offers again, and so is another one that has just been started: the machine may be busier,
or less busy, than it was.

`--libraries`: strict jobs alone, whose scripts are those of Hugging Face, Accelerate and Lightning in turn.
`--kills 10`: so many workers are killed meanwhile, of jobs that train.

`--hosts 2 --link 1gbit`: strict jobs alone, on hosts that have joined over such links. Their gradients have
4 MB, and each may have all devices, so that gangs span hosts.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from tests.machines.links import Link, add_options
from tests.machines.namespaces import Network
from tests.machines.site import Site, client_of

from benchmarks.conditions import conditions, describe, write_json
from swell.api.client import Client
from swell.cli.demo import brief_platform
from swell.model.view import JobView, Story

#: Its arguments: see there. `tests/platform/test_promises.py` submits it, too.
SCRIPT = Path(__file__).parent / "scripts" / "evaluating.py"
#: The same job with other libraries, which say themselves how many epochs there are, and take long to import.
OF_LIBRARIES = tuple(
    SCRIPT.with_name(f"{name}.py") for name in ("trainer", "accelerated", "lightning_module")
)
LIBRARY_START_S = 30.0
#: On hosts.
NUM_OF_HOST, NUM_PARAMETERS, SIZES_ON_HOSTS = 2, 10**6, ("1:4", "3:4")
#: 64 samples take a worker alone 0.1 s, four workers 25 ms.
DEVICES = "paced:4@640"
BATCH, EPOCH_S = 64, 0.8  #: of one worker
EVALUATIONS_S = (0.1, 0.4, 1.0)
#: Alone on one worker, starts apart.
LENGTHS_S = (3.0, 60.0)
#: Deadlines are so many lengths away; on four workers a job takes less than one.
WINDOWS = (0.7, 3.0)
ODD_STARTS_S = (0.0, 0.0, 0.0, 1.5, 3.0)
#: Jobs that offers are asked for: epochs and seconds of evaluation.
PROBES = ((3, 0.1), (8, 0.4), (20, 0.4))
#: What takes longer than this has gone wrong.
PATIENCE_S = 600.0
LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a strict job. Times are seconds from its submission."""

    id: str
    epochs: int
    evaluation_s: float
    deadline_s: float
    answered_s: float  #: when it was decided
    is_promised: bool
    offer_s: float | None
    late_s: float | None  #: negative if it ended before its deadline; None: it did not run
    waited_s: float | None  #: from the answer until its first launch was ordered
    start_s: float | None  #: from there to the first step
    resizes: int
    phase: str
    most_workers: int = 0  #: that it had at once
    #: What was told of steps that took another time than was estimated.
    checked: Sequence[str] = ()
    #: Of one that was promised and late: what happened, in seconds from its submission.
    story: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    fates: list[Fate]
    fresh_offers_s: list[float]  #: one for each of PROBES, of another platform right after `swell up`
    worn_offers_s: list[float]  #: after all other jobs


def submit(
    client: Client,
    epochs: int,
    evaluation_s: float,
    deadline_s: float | None,
    library: Path | None = None,
    more_args: Sequence[float] = (),
    workers: str = "1:4",
) -> str:
    own = (
        {"args": (evaluation_s, epochs)}
        if library is not None
        else {"args": (evaluation_s, *more_args), "epochs": epochs}
    )
    return client.submit(
        script=str(library or SCRIPT),
        **own,
        global_batch=BATCH if library is None else None,
        workers=workers,
        deadline=None if deadline_s is None else f"now+{deadline_s:.2f}s",
        or_nothing=deadline_s is not None,
    )


def epochs_of(length_s: float, evaluation_s: float) -> int:
    """That make about this length on one worker."""
    return max(1, round(length_s / (EPOCH_S + evaluation_s)))


# ---------------------------------------------------------------- strict jobs at random moments
def run_strict(
    client: Client,
    num: int,
    every_s: float,
    draw: random.Random,
    libraries: Sequence[Path] = (),
    more_args: Sequence[float] = (),
    sizes: Sequence[str] = ("1:4",),
) -> list[Fate]:
    """`sizes`: numbers of workers that jobs may have, in turn."""
    jobs: list[tuple[str, int, float]] = []
    due_s = time.monotonic()
    for number in range(num):
        library = libraries[number % len(libraries)] if libraries else None
        evaluation_s = draw.choice(EVALUATIONS_S)
        length_s = math.exp(draw.uniform(*map(math.log, LENGTHS_S)))
        epochs = epochs_of(length_s, evaluation_s)
        window_s = draw.uniform(*WINDOWS) * epochs * (EPOCH_S + evaluation_s)
        window_s += 2.0 if library is None else LIBRARY_START_S
        time.sleep(max(0.0, due_s - time.monotonic()))  # moments of submission are what is drawn
        workers = sizes[number % len(sizes)]
        job_id = submit(client, epochs, evaluation_s, window_s, library, more_args, workers)
        jobs.append((job_id, epochs, evaluation_s))
        due_s += draw.expovariate(1.0 / every_s)
    return [fate_of(client, *job) for job in jobs]


def fate_of(client: Client, job_id: str, epochs: int, evaluation_s: float) -> Fate:
    """Once it has ended."""
    view = client.wait(job_id, timeout_s=PATIENCE_S)
    stories = client.stories(job_id)
    answered_s = first(stories, "promised", "refused") or view.submitted_s
    ordered_s = first(stories, "decided")
    has_run = view.finished_s is not None and view.started_s is not None
    deadline_s = view.deadline_s or math.inf
    late_s = (view.finished_s or 0.0) - deadline_s if has_run else None
    is_broken = view.is_promised and (late_s is None or late_s > 0.0)
    return Fate(
        id=job_id,
        epochs=epochs,
        evaluation_s=evaluation_s,
        deadline_s=deadline_s - view.submitted_s,
        answered_s=answered_s - view.submitted_s,
        is_promised=view.is_promised,
        offer_s=offered_s(view),
        late_s=late_s,
        waited_s=None if ordered_s is None else ordered_s - answered_s,
        start_s=None if view.started_s is None or ordered_s is None else view.started_s - ordered_s,
        resizes=view.resizes,
        phase=view.phase.value,
        most_workers=max((workers for _, workers in view.sizes), default=0),
        checked=[story.text for story in stories if story.code == "checked"],
        story=[f"{story.at_s - view.submitted_s:.2f} {story.text}" for story in stories] if is_broken else [],
    )


def first(stories: Sequence[Story], *codes: str) -> float | None:
    """When the first of these was told."""
    return next((story.at_s for story in stories if story.code in codes), None)


def offered_s(view: JobView) -> float | None:
    return None if view.counter_offer_s is None else view.counter_offer_s - view.submitted_s


# ---------------------------------------------------------------- what is offered
def offers(client: Client) -> list[float]:
    """For each of PROBES, in seconds from its submission; its trial run was before."""
    found = []
    for epochs, evaluation_s in PROBES:
        for _ in range(2):  # the first one may need a trial run
            view = client.wait(submit(client, epochs, evaluation_s, 0.1), timeout_s=PATIENCE_S)
        offer_s = offered_s(view)
        if offer_s is None:
            raise RuntimeError(f"{view.id}: no offer: {view.reason}")
        found.append(offer_s)
    return found


def run_odd(client: Client, folder: Path, num: int, draw: random.Random) -> None:
    """Short jobs of other scripts, of all classes and sizes, some with a slow start; until all have ended."""
    jobs = []
    for number in range(num):
        kind = number % len(ODD_STARTS_S)
        script = folder / f"odd{kind}.py"
        script.write_text(SCRIPT.read_text())
        least, job_class = draw.choice((1, 1, 2, 4)), draw.choice(("best_effort", "soft"))
        jobs.append(
            client.submit(
                script=str(script),
                args=(draw.choice(EVALUATIONS_S), ODD_STARTS_S[kind]),
                global_batch=BATCH,
                epochs=draw.choice((1, 2, 3)),
                workers=f"{least}:4",
                job_class=job_class,
                deadline="now+60s" if job_class == "soft" else None,
            )
        )
    for job in jobs:
        client.wait(job, timeout_s=PATIENCE_S)


# ---------------------------------------------------------------- and all of it
@contextmanager
def busy(num: int) -> Iterator[None]:
    """So many processes beside that never rest."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(num)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


@contextmanager
def kills(client: Client, num: int, every_s: float, draw: random.Random) -> Iterator[list[str]]:
    """Kill a worker of a job that trains now and then; what was killed is in the list."""
    killed, is_over = list[str](), threading.Event()

    def kill() -> None:
        while len(killed) < num and not is_over.wait(draw.expovariate(1.0 / every_s)):
            pids = [(job.id, pid) for job in client.jobs() for pid in job.live_pids if job.steps]
            if pids:
                job_id, pid = draw.choice(pids)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(job_id)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        is_over.set()
        thread.join()


def measure_libraries(num: int, every_s: float, num_kills: int, seed: int) -> Findings:
    draw, console = random.Random(seed), Console(stderr=True)
    with platform(console) as client, kills(client, num_kills, every_s, random.Random(seed)) as killed:
        fates = run_strict(client, num, every_s, draw, OF_LIBRARIES)
        console.print(f"{len(killed)} workers were killed, of {', '.join(sorted({*killed}))}")
    return Findings(fates, [], [])


def measure_hosts(num: int, every_s: float, num_hosts: int, link: Link, seed: int) -> Findings:
    draw, more = random.Random(seed), (0.0, NUM_PARAMETERS)
    with Network(num_hosts + 1, link) as network:
        Site(network, f"paced:{NUM_OF_HOST}@640")
        with client_of(network[0]) as client:
            for (
                evaluation_s
            ) in EVALUATIONS_S:  # a trial run without layers does not see what follows an epoch
                client.wait(submit(client, 2, evaluation_s, None, None, more), timeout_s=PATIENCE_S)
            return Findings(run_strict(client, num, every_s, draw, (), more, SIZES_ON_HOSTS), [], [])


def measure(num: int, every_s: float, num_odd: int, seed: int, folder: Path) -> Findings:
    draw, console = random.Random(seed), Console(stderr=True)
    with platform(console) as client:
        console.print(f"fresh: offers {told(offers(client))}")
        fates = run_strict(client, num, every_s, draw)
        show_fates(console, fates)
        run_odd(client, folder, num_odd, draw)
        worn = offers(client)
    with platform(console) as client:
        return Findings(fates, offers(client), worn)


def platform(console: Console) -> AbstractContextManager[Client]:
    return brief_platform(["--devices", DEVICES], "swell-promises-", console.print)


def told(offers_s: Sequence[float]) -> str:
    return ", ".join(f"{offer_s:.1f} s" for offer_s in offers_s)


def show_fates(console: Console, fates: Sequence[Fate]) -> None:
    promised = [fate for fate in fates if fate.is_promised]
    late = [fate for fate in promised if fate.late_s is None or fate.late_s > 0.0]
    num_refused = sum(fate.phase == "rejected" for fate in fates)
    console.print(f"{len(fates)} strict jobs: {len(promised)} promised, {len(late)} of them late; ", end="")
    num_wide = sum(fate.most_workers > NUM_OF_HOST for fate in promised)
    console.print(f"{num_refused} refused; {num_wide} promised ones had more than {NUM_OF_HOST} workers")
    columns = "job", "epochs", "evaluation", "window", "waited", "start", "resizes", "late by"
    table = Table(*columns, box=SIMPLE_HEAD)
    for fate in late:
        times_s = fate.evaluation_s, fate.deadline_s, fate.waited_s, fate.start_s
        told_s = ["" if time_s is None else f"{time_s:.1f} s" for time_s in times_s]
        late_by = "did not run" if fate.late_s is None else f"{fate.late_s:.2f} s"
        table.add_row(fate.id, str(fate.epochs), *told_s, str(fate.resizes), late_by)
    if late:
        console.print(table)
    spare_s = [-fate.late_s for fate in promised if fate.late_s is not None]
    if spare_s:
        console.print(f"spare time of promised jobs: least {min(spare_s):.2f} s, ", end="")
        console.print(f"median {statistics.median(spare_s):.2f} s")


def show_offers(console: Console, fresh: Sequence[float], worn: Sequence[float]) -> None:
    ratios = [after_s / before_s for before_s, after_s in zip(fresh, worn, strict=True)]
    console.print(f"offers: fresh {told(fresh)}; worn {told(worn)}; ratios {ratios[0]:.2f}", end="")
    console.print("".join(f", {ratio:.2f}" for ratio in ratios[1:]))


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=60, help="strict jobs (default: %(default)s)")
    parser.add_argument("--every", type=float, default=5.0, help="mean seconds between two submissions")
    parser.add_argument("--odd", type=int, default=100, help="odd jobs before the second offers")
    parser.add_argument("--libraries", action="store_true", help="strict jobs alone, with other libraries")
    parser.add_argument("--kills", type=int, default=0, help="workers that are killed, with --libraries")
    parser.add_argument("--hogs", type=int, default=0, help="processes beside that never rest")
    parser.add_argument("--hosts", type=int, default=1, help="that join, namespaces of this machine; 1: none")
    add_options(parser)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    known = conditions()
    with busy(options.hogs), tempfile.TemporaryDirectory(prefix="swell-odd-") as folder:
        if options.hosts > 1:
            link = Link.of(options)
            found = measure_hosts(options.jobs, options.every, options.hosts, link, options.seed)
        elif options.libraries:
            found = measure_libraries(options.jobs, options.every, options.kills, options.seed)
        else:
            found = measure(options.jobs, options.every, options.odd, options.seed, Path(folder))
    if options.json:
        write_json(options.json, {"conditions": known, "options": {"hogs": options.hogs}, **asdict(found)})
    console = Console()
    console.print(describe(known))
    console.print(f"load after: {os.getloadavg()[0]:.1f}")
    show_fates(console, found.fates)
    if found.worn_offers_s:
        show_offers(console, found.fresh_offers_s, found.worn_offers_s)


if __name__ == "__main__":
    main()
