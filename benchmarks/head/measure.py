"""What a head and its controller cost that have many hosts, and how soon what hosts say is in the journal.

A real `swell up --listen`, daemon and agent as processes of their own, and one process beside that is all the
hosts: each has a line of its own with TLS, joins, asks for leases, and answers what real hosts answer. Only
workers are emulated: they say by the clock what processes would say. One machine holds all, so the hosts'
process takes time of the cores that the head would have to itself.

Latency is the time from a host's word until another process sees the event in the journal. Probes are
warnings to owners of jobs, ten a second: the head writes and handles them at once, and plans nothing. Reports
of progress may wait a second in the daemon, by design, so that the journal stays small
(`live/head_thread.py`).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.conditions import conditions, describe, write_json
from benchmarks.head.journal_watch import JournalWatch
from benchmarks.head.load import serve
from benchmarks.head.machine import DEVICES_EACH, HOSTS_IN_RACK, Written
from benchmarks.head.workers import GLOBAL_BATCH
from benchmarks.service import percentile
from swell.api.client import Client, connect
from swell.executors.local.agent.address import read_address
from swell.executors.remote.certificate import CERTIFICATE_FILE, fingerprint_of
from swell.executors.remote.join_tokens import TokenList
from swell.model.job import Phase

PROGRAM = (sys.executable, "-P", "-m", "swell.cli.main")
NUM_CLIENTS = 4
WARN_EVERY_S = 0.1
#: The lease of a host that is cut off is over so long after, by default; then its jobs get devices again.
LEASE_OVER_S = 37.0
#: Events of the last moment may be on their way.
AFTER_S = 2.0


@dataclass(frozen=True, slots=True)
class Spell:
    """A stretch of time that was measured. Shares are of one core."""

    what: str
    seconds: float
    num_probes: int
    num_unseen: int  #: probes that were not found in the journal
    probe_p50_ms: float
    probe_p99_ms: float
    probe_longest_ms: float
    report_p50_ms: float
    report_p99_ms: float
    reports_per_s: float
    batches_per_s: float
    daemon_share: float
    agent_share: float
    hosts_share: float  #: of the process that emulates them
    daemon_waits: (
        float  #: share of the time in which its threads could run, and other processes had the cores
    )
    agent_waits: float
    daemon_bytes: int
    agent_bytes: int


class Hosts:
    """The process that is all hosts."""

    def __init__(self, num_hosts: int, state: Path, report_every_s: float) -> None:
        agent, fingerprint = read_address(state), fingerprint_of(state / CERTIFICATE_FILE)
        assert agent is not None  # noqa: S101 - the platform is up
        token = TokenList(state).add("bench", fingerprint)
        context = multiprocessing.get_context("spawn")
        self._orders, there = context.Pipe()
        arguments = (num_hosts, agent.hosts, token, report_every_s, there)
        self.process = context.Process(target=serve, args=arguments, daemon=True)
        self.process.start()

    def ask(self, name: str, argument: Any = None) -> Any:
        self._orders.send((name, argument))
        return self._orders.recv()

    def end(self) -> None:
        self.ask("end")
        self.process.join()


class Bench:
    """A platform that is up, its hosts, and what is seen of its journal."""

    def __init__(self, state: Path, script: Path, options: argparse.Namespace) -> None:
        self.client = connect(state)
        self.watch = JournalWatch(state / "journal.db")
        self.hosts = Hosts(options.hosts, state, options.report_every)
        agent = read_address(state)
        assert agent is not None  # noqa: S101 - it is up
        self._state, self._script, self._options = state, script, options
        self._daemon, self._agent = psutil.Process(self.client.endpoint.pid), psutil.Process(agent.pid)
        self._load = psutil.Process(self.hosts.process.pid)
        self.spells: list[Spell] = []

    def close(self) -> None:
        self.hosts.end()
        self.watch.stop()
        self.client.close()

    # ------------------------------------------------------------ what is done
    def submit(self, num_jobs: int) -> None:
        """All as fast as they are taken."""

        def submit_some(place: int) -> None:
            with connect(self._state) as client:
                for _ in range(place, num_jobs, NUM_CLIENTS):
                    client.submit(
                        script=self._script,
                        global_batch=GLOBAL_BATCH,
                        steps=10**7,
                        workdir=self._script.parent,
                        workers=self._options.workers,
                    )

        with ThreadPoolExecutor(NUM_CLIENTS) as pool:
            list(pool.map(submit_some, range(NUM_CLIENTS)))

    def num_running(self) -> int:
        return count_running(self.client)

    # ------------------------------------------------------------ what is measured
    @contextmanager
    def spell(self, what: str) -> Iterator[None]:
        """What happens inside is measured."""
        processes = (self._daemon, self._agent, self._load)
        begun_s = time.monotonic()
        before, waits = [_cpu_s(process) for process in processes], [_waits_s(one) for one in processes[:2]]
        yield
        seconds = time.monotonic() - begun_s
        shares = [(_cpu_s(one) - was_s) / seconds for one, was_s in zip(processes, before, strict=True)]
        shares += [
            _grown_s(was_s, _waits_s(one)) / seconds for one, was_s in zip(processes, waits, strict=False)
        ]
        time.sleep(AFTER_S)
        self.spells.append(self._spell(what, begun_s, seconds, shares))
        show(self.spells[-1:])

    def _spell(self, what: str, begun_s: float, seconds: float, shares: list[float]) -> Spell:
        written: Written = self.hosts.ask("written")
        probes, reports = self._seen(begun_s, begun_s + seconds, written)
        due = [text for text, at_s in written.warnings.items() if begun_s <= at_s < begun_s + seconds]
        num_batches = sum(begun_s <= at_s < begun_s + seconds for at_s, _ in self.watch.batches)
        return Spell(
            what=what,
            seconds=seconds,
            num_probes=len(probes),
            num_unseen=len(due) - len(probes),
            probe_p50_ms=percentile(probes, 0.5),
            probe_p99_ms=percentile(probes, 0.99),
            probe_longest_ms=max(probes),
            report_p50_ms=percentile(reports, 0.5),
            report_p99_ms=percentile(reports, 0.99),
            reports_per_s=len(reports) / seconds,
            batches_per_s=num_batches / seconds,
            daemon_share=shares[0],
            agent_share=shares[1],
            hosts_share=shares[2],
            daemon_waits=shares[3],
            agent_waits=shares[4],
            daemon_bytes=_memory_bytes(self._daemon),
            agent_bytes=_memory_bytes(self._agent),
        )

    def _seen(self, from_s: float, until_s: float, written: Written) -> tuple[list[float], list[float]]:
        """Milliseconds of probes and of reports that were written in this time."""
        probes, reports = [], []
        for seen_s, events in list(self.watch.batches):
            for event in events:
                if event["type"] == "JobWarned" and (said_s := written.warnings.get(event["message"])):
                    if from_s <= said_s < until_s:
                        probes.append(1000.0 * (seen_s - said_s))
                elif event["type"] == "StepsReported":
                    said_s = written.reports.get((event["job_id"], event["steps"]))
                    if said_s is not None and from_s <= said_s < until_s:
                        reports.append(1000.0 * (seen_s - said_s))
        return probes, reports


def count_running(client: Client) -> int:
    return sum(job.phase is Phase.RUNNING for job in client.jobs())


def await_that(what: str, is_so: Callable[[], bool], limit_s: float) -> float:
    """How long it took. Raises TimeoutError."""
    begun_s = time.monotonic()
    while not is_so():
        if time.monotonic() - begun_s > limit_s:
            raise TimeoutError(f"{what} did not come to be within {limit_s:g} s")
        time.sleep(0.5)
    return time.monotonic() - begun_s


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _waits_s(process: psutil.Process) -> dict[str, float]:
    """By thread: so long it could run, and others had the cores."""
    threads = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return {path.parent.name: int(path.read_text().split()[1]) / 1e9 for path in threads}


def _grown_s(before: dict[str, float], after: dict[str, float]) -> float:
    """Of threads that live."""
    return sum(wait_s - before.get(thread, 0.0) for thread, wait_s in after.items())


def _memory_bytes(process: psutil.Process) -> int:
    """Proportional set size: what is shared with others is counted in parts."""
    return int(process.memory_full_info().pss)


@contextmanager
def platform(state: Path, policy: str) -> Iterator[None]:
    words = ("--state", str(state))
    up = ("up", *words, "--devices", "none", "--listen", "127.0.0.1:0", "--policy", policy, "--preload", "")
    subprocess.run([*PROGRAM, *up], check=True)
    try:
        yield
    finally:
        subprocess.run([*PROGRAM, "down", "--force", *words], check=False, capture_output=True)


def measure(folder: Path, options: argparse.Namespace) -> tuple[list[Spell], dict[str, float]]:
    script = folder / "tiny.py"
    script.write_text("from swell import train\n\ntrain.elastic()\n")  # it is read, and never run
    took: dict[str, float] = {}
    with platform(folder / "state", options.policy):
        bench = Bench(folder / "state", script, options)
        try:
            took["hosts join"] = await_that(
                "that all hosts join", lambda: bench.hosts.ask("count") == options.hosts, 300
            )
            begun_s = time.monotonic()
            bench.submit(options.jobs)
            took["jobs are submitted"] = time.monotonic() - begun_s
            took["jobs run, after that"] = await_that(
                "that all jobs run", lambda: bench.num_running() >= options.jobs, 900
            )
            time.sleep(options.settle)
            bench.hosts.ask("warn", WARN_EVERY_S)
            with bench.spell("at work"):
                time.sleep(options.seconds)
            with bench.spell(f"{options.burst} jobs submitted"):
                bench.submit(options.burst)
                time.sleep(options.seconds / 2)
            bench.hosts.ask("cut", min(HOSTS_IN_RACK, options.hosts // 4))
            time.sleep(LEASE_OVER_S - options.seconds / 2)
            with bench.spell("a rack is lost"):
                time.sleep(options.seconds)
        finally:
            bench.close()
    return bench.spells, took


def show(spells: list[Spell]) -> None:
    table = Table("", *(spell.what for spell in spells), box=SIMPLE_HEAD)
    rows: list[tuple[str, Callable[[Spell], str]]] = [
        ("seconds", lambda s: f"{s.seconds:.0f}"),
        ("probes (not seen)", lambda s: f"{s.num_probes} ({s.num_unseen})"),
        ("event to journal, median ms", lambda s: f"{s.probe_p50_ms:.1f}"),
        ("event to journal, p99 ms", lambda s: f"{s.probe_p99_ms:.1f}"),
        ("event to journal, longest ms", lambda s: f"{s.probe_longest_ms:.0f}"),
        ("report to journal, median ms", lambda s: f"{s.report_p50_ms:.0f}"),
        ("report to journal, p99 ms", lambda s: f"{s.report_p99_ms:.0f}"),
        ("reports a second", lambda s: f"{s.reports_per_s:.0f}"),
        ("batches a second", lambda s: f"{s.batches_per_s:.1f}"),
        ("daemon, cores", lambda s: f"{s.daemon_share:.2f}"),
        ("agent, cores", lambda s: f"{s.agent_share:.2f}"),
        ("hosts' process, cores", lambda s: f"{s.hosts_share:.2f}"),
        ("daemon waits for a core", lambda s: f"{s.daemon_waits:.2f}"),
        ("agent waits for a core", lambda s: f"{s.agent_waits:.2f}"),
        ("daemon, MiB", lambda s: f"{s.daemon_bytes / 2**20:.0f}"),
        ("agent, MiB", lambda s: f"{s.agent_bytes / 2**20:.0f}"),
    ]
    for name, text in rows:
        table.add_row(name, *map(text, spells))
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.head.measure", description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000, help=f"each with {DEVICES_EACH} devices")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--workers", default="4:8", help="of each job")
    parser.add_argument("--policy", default="elasticflow")
    parser.add_argument("--report-every", type=float, default=5.0, help="seconds between reports of a job")
    parser.add_argument("--burst", type=int, default=100, help="jobs that are submitted while others run")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each spell")
    parser.add_argument("--settle", type=float, default=20.0, help="seconds before the first spell")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    under = conditions()
    print(describe(under))
    with tempfile.TemporaryDirectory(prefix="swell-bench-head-") as name:
        spells, took = measure(Path(name), options)
    show(spells)
    print(", ".join(f"{what}: {took_s:.1f} s" for what, took_s in took.items()))
    if options.json:
        content = {"conditions": under, "took_s": took, "spells": [asdict(spell) for spell in spells]}
        write_json(options.json, json.loads(json.dumps(content)))


if __name__ == "__main__":
    main()
