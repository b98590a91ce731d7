"""`make bench-service`: what a platform that is up costs those who use it, with many jobs.

One daemon, a real agent, a state folder of its own; jobs of one tiny script that wait or train on paced
devices. Rows: submissions from several connections, many clients that read and write while there are many
jobs, the wait of `swell jobs` as a whole process, the time of `swell up` on the journal of many jobs, what an
idle daemon costs, and one with open pages, and the daemon's memory and CPU time. Rows are printed when their
part is done.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from benchmarks.conditions import conditions, describe, write_json
from benchmarks.crowded_state import write_crowded_state
from swell.api.client import Client, connect
from swell.model.quantities import span

DEVICES = "paced:8@200"
#: Of the idle daemon: faster than the profiles of its jobs say. Where a job turns out slower than that, the
#: next one, of which it is not known, takes its place, and nothing is idle.
IDLE_DEVICES = "paced:8@220"
NUM_CLIENTS = 8
#: Clients that read and write at the same time, and how often each does all that it does.
NUM_USERS, ROUNDS = 50, 5
#: Jobs of a list that a client asks for, as `swell jobs` shows them.
SHOWN_JOBS = 100
#: Seconds until the first jobs run, and for which an idle daemon is looked at.
SETTLE_S, IDLE_S = 20.0, 40.0
#: Pages that are open in browsers at the same time, and the seconds for which their daemon is looked at.
NUM_PAGES, PAGES_S = 50, 20.0
#: As `web/static/events.js`: a page lets its question wait so long for a change, and rests after the answer.
PAGE_WAITS_S, PAGE_RESTS_S = 25.0, 2.5
#: Submissions before a daemon is killed.
KILLED_AFTER = 700
#: The rate that is to be sustained, by so many seconds of it.
PACE_PER_S, PACED_S = 100.0, 30.0
PROGRAM = (sys.executable, "-P", "-m", "swell.cli.main")
SCRIPT = """
import torch
from swell import train

model = torch.nn.Linear(4, 1)
data = torch.utils.data.TensorDataset(torch.randn(256, 4), torch.randn(256, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run = train.elastic(model, optimizer, torch.utils.data.DataLoader(data, batch_size=16))
for epoch in run.epochs():
    for x, y in run.batches():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        run.backward(loss)
        run.step()
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result."""

    what: str
    value: float
    unit: str
    bar: str


def swell(state: Path, *words: str) -> str:
    """What the command prints; raises CalledProcessError if it fails."""
    command = [*PROGRAM, *words, "--state", str(state)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def timed(call: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    call()
    return time.perf_counter() - began_s


class Users:
    """Clients that list jobs, look at one, submit one and cancel it, each on a connection of its own."""

    def __init__(self, state: Path, script: Path) -> None:
        self._state, self._script = state, script
        self._lock = threading.Lock()
        self.waits_s: list[float] = []
        self.failures: list[str] = []

    def work(self, num_clients: int, rounds: int) -> None:
        """Returns when each client has made so many rounds of four requests."""
        threads = [threading.Thread(target=self._work, args=(rounds,)) for _ in range(num_clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, rounds: int) -> None:
        with connect(self._state) as client:
            for _ in range(rounds):
                self._do_all(client)

    def _do_all(self, client: Client) -> None:
        ids: list[str] = []
        self._ask(lambda: client.jobs(limit=SHOWN_JOBS))
        self._ask(lambda: ids.append(self._submit(client)))
        if ids:
            self._ask(lambda: client.job(ids[0]))
            self._ask(lambda: client.cancel(ids[0]))

    def _submit(self, client: Client) -> str:
        folder = self._script.parent
        return client.submit(script=self._script, global_batch=16, steps=10**6, workdir=folder)

    def _ask(self, request: Callable[[], object]) -> None:
        """A status of 500 or more, a time-out and a lost connection are failures."""
        began_s = time.perf_counter()
        try:
            request()
        except (RuntimeError, ValueError, OSError) as error:
            with self._lock:
                self.failures.append(f"{type(error).__name__}: {error}")
        with self._lock:
            self.waits_s.append(time.perf_counter() - began_s)


class Submitters:
    """Clients that submit one job after the other, each on a connection of its own."""

    def __init__(self, state: Path, script: Path) -> None:
        self._state, self._script = state, script
        self._lock = threading.Lock()
        self._num_jobs = 0
        self._numbers = itertools.count()
        self._rate_per_s = 0.0
        self._began_s = 0.0
        self.waits_s: list[float] = []
        self.failures: list[str] = []

    def submit(self, num_jobs: int, num_clients: int, rate_per_s: float = 0.0) -> float:
        """Jobs a second, over all of them.

        Args:
            rate_per_s: of all clients together; 0: each submits as soon as the job before is taken.
        """
        self._num_jobs, self._numbers, self._rate_per_s = num_jobs, itertools.count(), rate_per_s
        self.waits_s = []
        threads = [threading.Thread(target=self._work) for _ in range(num_clients)]
        self._began_s = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return num_jobs / (time.perf_counter() - self._began_s)

    def _work(self) -> None:
        with connect(self._state) as client:
            while (number := self._take()) is not None:
                began_s = self._begin(number)
                try:
                    client.submit(
                        script=self._script, global_batch=16, steps=10**6, workdir=self._script.parent
                    )
                except (RuntimeError, ValueError, OSError) as error:
                    self.failures.append(str(error))
                self.waits_s.append(time.perf_counter() - began_s)

    def _take(self) -> int | None:
        with self._lock:
            number = next(self._numbers)
        return number if number < self._num_jobs else None

    def _begin(self, number: int) -> float:
        """When the request was due: a client that falls behind counts that wait too."""
        now_s = time.perf_counter()
        if not self._rate_per_s:
            return now_s
        due_s = self._began_s + number / self._rate_per_s
        time.sleep(max(0.0, due_s - now_s))
        return due_s


def daemon_of(state: Path) -> psutil.Process:
    with connect(state) as client:
        return psutil.Process(client.endpoint.pid)


def daemon_bytes(state: Path) -> int:
    """Resident memory of the daemon now."""
    return int(daemon_of(state).memory_info().rss)


def cpu_s(daemon: psutil.Process) -> float:
    times = daemon.cpu_times()
    return float(times.user + times.system)


def idle_share(state: Path, seconds: float) -> float:
    """Of a core, over so many seconds in which no client asks for anything."""
    daemon = daemon_of(state)
    before_s, began_s = cpu_s(daemon), time.perf_counter()
    time.sleep(seconds)
    return (cpu_s(daemon) - before_s) / (time.perf_counter() - began_s)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def written_script(folder: Path) -> Path:
    """In a folder of its own: what lies beside it is the code of each job."""
    script = folder / "work" / "tiny.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(SCRIPT)
    return script


def measure_submissions(folder: Path, policy: str, num_jobs: int, num_clients: int) -> list[Figure]:
    state, script = folder / "submissions", written_script(folder)
    swell(state, "up", "--devices", DEVICES, "--policy", policy)
    try:
        with connect(state) as client:  # its trial run is over before the clock starts
            first = client.submit(script=script, global_batch=16, steps=10**6, workdir=script.parent)
            client.wait_for_verdict(first, 120.0)
        submitters, daemon = Submitters(state, script), daemon_of(state)
        figures = []
        for pace_per_s in (0.0, PACE_PER_S):
            before_s = cpu_s(daemon)
            num_taken = round(pace_per_s * PACED_S) or num_jobs
            rate_per_s = submitters.submit(num_taken, num_clients, pace_per_s)
            spent_ms = 1000 * (cpu_s(daemon) - before_s) / num_taken
            if submitters.failures:
                raise RuntimeError(f"{len(submitters.failures)} submissions failed: {submitters.failures[0]}")
            figures += _of_submissions(submitters.waits_s, rate_per_s, pace_per_s)
            figures.append(Figure("  CPU time of the daemon for each", spent_ms, "ms", ""))
            if not pace_per_s:
                mib = daemon_bytes(state) / 2**20
                figures.append(Figure(f"daemon with {num_jobs} open jobs", mib, "MiB", "<= 200"))
        return [*figures, Figure("cluster of the API", 1000 * statistics.median(_api_waits(state)), "ms", "")]
    finally:
        subprocess.run([*PROGRAM, "down", "--state", str(state)], check=False, capture_output=True)


def _of_submissions(waits_s: list[float], rate_per_s: float, pace_per_s: float) -> list[Figure]:
    waits_ms = [1000 * wait_s for wait_s in waits_s]
    last_ms = waits_ms[-len(waits_ms) // 10 :]
    kind = f"paced at {pace_per_s:g} a second" if pace_per_s else "one after the other"
    return [
        Figure(
            f"{len(waits_ms)} submissions, {kind}", rate_per_s, "a second", "" if pace_per_s else ">= 250"
        ),
        Figure("  median", statistics.median(waits_ms), "ms", ""),
        Figure("  p99", percentile(waits_ms, 0.99), "ms", "<= 100" if pace_per_s else "<= 80"),
        Figure("  p99 of the last tenth", percentile(last_ms, 0.99), "ms", "<= 100"),
        Figure("  longest", max(waits_ms), "ms", ""),
    ]


def _api_waits(state: Path) -> list[float]:
    with connect(state) as client:
        return [timed(client.cluster) for _ in range(20)]


def measure_listing(folder: Path, policy: str, num_ended: int, num_open: int, repeats: int) -> list[Figure]:
    state, script = folder / "listing", written_script(folder)
    write_crowded_state(state, script, DEVICES, num_ended, num_open)
    starts_s = []
    try:
        for _ in range(repeats):
            starts_s.append(timed(lambda: swell(state, "up", "--devices", DEVICES, "--policy", policy)))
            if len(starts_s) < repeats:
                swell(state, "down")
        waits_s = [timed(lambda: swell(state, "jobs")) for _ in range(repeats + 2)]
        return [
            Figure(
                f"up, {num_open} open and {num_ended} ended jobs", statistics.median(starts_s), "s", "<= 2"
            ),
            Figure("jobs, as a process", statistics.median(waits_s), "s", "<= 0.35"),
            Figure(
                "help, as a process",
                statistics.median([timed(lambda: _help()) for _ in range(5)]),
                "s",
                "<= 0.15",
            ),
            Figure("daemon after it", daemon_bytes(state) / 2**20, "MiB", "<= 200"),
            *_of_users(Users(state, script), num_open),
        ]
    finally:
        subprocess.run([*PROGRAM, "down", "--state", str(state)], check=False, capture_output=True)


def _of_users(users: Users, num_open: int) -> list[Figure]:
    users.work(NUM_USERS, ROUNDS)
    for failure in sorted(set(users.failures)):
        print(f"bench-service: {users.failures.count(failure)} times {failure}", file=sys.stderr)
    waits_ms = [1000 * wait_s for wait_s in users.waits_s]
    return [
        Figure(
            f"{NUM_USERS} clients that read and write, {num_open} open jobs", len(waits_ms), "requests", ""
        ),
        Figure("  median", statistics.median(waits_ms), "ms", ""),
        Figure("  p99", percentile(waits_ms, 0.99), "ms", "<= 500"),
        Figure("  failures", len(users.failures), "", "0"),
    ]


def measure_kills(folder: Path, policy: str, num_open: int, repeats: int) -> list[Figure]:
    """`up` after a kill, while jobs were being submitted for so long that the journal had no room for more
    batches than it ever holds.
    """
    state, script = folder / "killed", written_script(folder)
    write_crowded_state(state, script, DEVICES, 0, num_open)
    swell(state, "up", "--devices", DEVICES, "--policy", policy)
    starts_s = []
    try:
        for number in range(repeats):
            submitters = Submitters(state, script)
            submitters.submit(KILLED_AFTER + 100 * number, NUM_CLIENTS, 0.0)
            daemon = daemon_of(state)
            daemon.kill()
            daemon.wait()
            starts_s.append(timed(lambda: swell(state, "up", "--devices", DEVICES, "--policy", policy)))
        what = f"up after a kill under load, {num_open} open jobs (longest of {repeats})"
        return [Figure(what, max(starts_s), "s", "<= 5")]
    finally:
        subprocess.run([*PROGRAM, "down", "--state", str(state)], check=False, capture_output=True)


def measure_idle(folder: Path, policy: str, num_open: int) -> list[Figure]:
    """What a daemon costs that no client asks for anything, and one that has open pages."""
    state, script = folder / "idle", written_script(folder)
    write_crowded_state(state, script, IDLE_DEVICES, 0, num_open)
    swell(state, "up", "--devices", IDLE_DEVICES, "--policy", policy)
    try:
        idle_share(state, SETTLE_S)
        share = idle_share(state, IDLE_S)
        with open_pages(state, NUM_PAGES):
            of_pages = idle_share(state, PAGES_S)
        return [
            Figure(f"idle daemon, {num_open} open jobs", 100 * share, "% of a core", "<= 0.5"),
            Figure(f"  with {NUM_PAGES} open pages", 100 * of_pages, "% of a core", "<= 2"),
        ]
    finally:
        subprocess.run([*PROGRAM, "down", "--state", str(state)], check=False, capture_output=True)


@contextmanager
def open_pages(state: Path, number: int) -> Iterator[None]:
    """As many clients as pages, which show all jobs and ask for changes as the page's script does."""
    is_over, are_shown = threading.Event(), threading.Barrier(number + 1)

    def look() -> None:
        with connect(state) as client:
            shown = json.loads(client._changes())
            are_shown.wait()
            while not is_over.wait(PAGE_RESTS_S):
                shown = json.loads(client._changes(since=shown["id"], wait_s=PAGE_WAITS_S))

    threads = [threading.Thread(target=look) for _ in range(number)]
    for thread in threads:
        thread.start()
    are_shown.wait()
    yield
    is_over.set()
    for thread in threads:
        thread.join()


def _help() -> None:
    subprocess.run([*PROGRAM, "--help"], check=True, capture_output=True)


def show(figure: Figure) -> None:
    value = f"{figure.value:.3g}"
    print(f"{figure.what:<72}{value:>8} {figure.unit:<12}{figure.bar}", flush=True)


def measure(options: argparse.Namespace, policy: str) -> list[Figure]:
    """All parts, or the one that is asked for, on platforms under the policy."""
    parts: dict[str, Callable[[Path], list[Figure]]] = {
        "submissions": lambda folder: measure_submissions(
            folder, policy, options.submissions, options.clients
        ),
        "listing": lambda folder: measure_listing(
            folder, policy, options.ended, options.open, options.repeats
        ),
        "kills": lambda folder: measure_kills(folder, policy, options.open, options.repeats),
        "idle": lambda folder: measure_idle(folder, policy, options.waiting),
    }
    measured = []
    with tempfile.TemporaryDirectory(prefix="swell-bench-") as name:
        for part in (part for key, part in parts.items() if options.only in (None, key)):
            for figure in part(Path(name)):
                measured.append(replace(figure, what=f"{policy}: {figure.what}"))
                show(measured[-1])
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.service", description=__doc__)
    parser.add_argument("--submissions", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=NUM_CLIENTS)
    parser.add_argument("--ended", type=int, default=20_000)
    parser.add_argument("--open", type=int, default=5_000)
    parser.add_argument("--waiting", type=int, default=1_200, help="open jobs of the idle daemon")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--policies", nargs="+", default=["unified", "elasticflow"])
    parser.add_argument("--only", choices=("submissions", "listing", "kills", "idle"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    under = conditions()
    print(describe(under))
    began_s = time.perf_counter()
    figures = [figure for policy in options.policies for figure in measure(options, policy)]
    print(f"{span(time.perf_counter() - began_s)} in all")
    if options.json:
        content = {"conditions": under, "figures": [asdict(figure) for figure in figures]}
        write_json(options.json, json.loads(json.dumps(content)))


if __name__ == "__main__":
    main()
