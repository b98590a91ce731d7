"""What the guard measures, run as a script in the tree and the environment of one commit.

It uses what all measured commits have: the programs, `benchmarks.decisions.Trial`, `benchmarks.simulation`,
`benchmarks.crowded_state`, `swell.connect` and the sides of `benchmarks.training`. A workload is a generator
that prepares, yields once, and then yields the figures of one round each time it is asked for one.
"""

from __future__ import annotations

import ast
import cProfile
import gc
import hashlib
import json
import multiprocessing
import os
import pstats
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Figures = dict[str, float | str]
Rounds = Generator[Figures, set[int], None]

HERE = Path(__file__).parent
PROGRAM = (sys.executable, "-P", "-m", "swell.cli.main")
CLUSTER, SMALL_CLUSTER = "16x8", "8x8"
PLANNER = "core/planner.py"
DEVICES = "paced:1@200"
NUM_DECISIONS, NUM_COUNTED_TURNS, NUM_SUBMISSIONS = 200, 60, 200
NUM_LISTED, NUM_OPEN = 100, 2000  #: open jobs: of commands, and of the daemon whose memory is measured
TINY_JOB: dict[str, Any] = {"global_batch": 16, "steps": 10**6}
NUM_STEPS, LIMIT_S = 200, 120.0


# ---------------------------------------------------------------- decisions
def calls(log: str) -> Rounds:
    """Calls of the second of two simulations, of which the first one tells what was commanded."""
    from benchmarks import simulation
    from swell.core.core import Core

    case = simulation.Case("guard", Path(log).name, SMALL_CLUSTER, profiles="law")
    yield {}
    digest = hashlib.sha256()
    handle = Core.handle
    Core.handle = told_to(digest, handle)  # type: ignore[method-assign]
    simulation.play(case, simulation.set_stage(case, Path(log).parent))
    Core.handle = handle  # type: ignore[method-assign]
    scenario = simulation.set_stage(case, Path(log).parent)
    profiler = cProfile.Profile()
    profiler.enable()
    simulation.play(case, scenario)
    profiler.disable()
    counted = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    total = sum(one[1] for one in counted.values())
    plans = sum(one[1] for key, one in counted.items() if key[0].endswith(PLANNER) and key[2] == "plan")
    yield {"digest": digest.hexdigest()[:16], "calls": total, "calls_a_plan": total / plans}


def told_to(digest: Any, handle: Callable[..., Any]) -> Callable[..., Any]:
    """The same, which adds the commands to the digest."""
    import msgspec

    def told(*words: Any) -> Any:
        commands = handle(*words)
        digest.update(msgspec.json.encode(commands))
        return commands

    return told


def simulated(log: str) -> list[str]:
    """The command with which refused jobs end, as they always did in commits that have no option for it."""
    described = subprocess.run([*PROGRAM, "simulate", "--help"], check=True, capture_output=True, text=True)
    end = ["--refused", "end"] if "--refused" in described.stdout else []
    return ["simulate", log, *end, "--cluster", CLUSTER]


def simulation(log: str) -> Rounds:
    """A whole command."""
    command = [*PROGRAM, *simulated(log)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # compiles
    yield {}
    while True:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        yield {"simulation_s": cpu_s, "simulation_mib": after.ru_maxrss / 1024}


def decisions(num_jobs: str, num_devices: str) -> Rounds:
    """The same turns of a head nearly full of jobs in each round; the world's time is not counted."""
    trial = gathered(int(num_jobs), int(num_devices))
    gc.freeze()
    yield {}
    while True:
        yield {f"decisions_{num_jobs}_s": forked(lambda: decisions_s(trial))}


def decisions_s(trial: Any) -> float:
    """CPU time of the next turns."""
    before_ms = sum(sum(turns.total_ms) for turns in trial.turns.values())
    trial.run(NUM_DECISIONS)
    return float(sum(sum(turns.total_ms) for turns in trial.turns.values()) - before_ms) / 1000


def forked(call: Callable[[], float]) -> float:
    """What it returns in a copy of this process, in which nothing has changed afterwards."""
    fork = multiprocessing.get_context("fork")
    near, far = fork.Pipe(duplex=False)
    process = fork.Process(target=lambda: far.send(call()))
    process.start()
    far.close()
    found: float = near.recv()  # raises EOFError if the process has failed
    process.join()
    return found


def gathered(num_jobs: int, num_devices: int) -> Any:
    from benchmarks.decisions import Mix, Trial  # type: ignore[attr-defined]

    trial = Trial(num_jobs, num_devices, Mix(), seed=0, policy="elasticflow")
    trial.gather()
    return trial


def turns() -> Rounds:
    """Calls of a turn, and bytes that it takes beyond what is there before it: the mean of the peaks."""
    trial = gathered(300, 1024)
    yield {}
    profiler = cProfile.Profile()
    profiler.runcall(trial.run, NUM_COUNTED_TURNS)
    num_calls = sum(one[1] for one in pstats.Stats(profiler).stats.values())  # type: ignore[attr-defined]
    peaks: list[int] = []
    trial._core.handle = tracing(peaks, trial._core.handle)
    tracemalloc.start()
    trial.run(NUM_COUNTED_TURNS)
    yield {"turn_calls": num_calls / NUM_COUNTED_TURNS, "turn_kib": statistics.fmean(peaks) / 1024}


def tracing(peaks: list[int], handle: Callable[..., Any]) -> Callable[..., Any]:
    """The same, which adds the peak of each call."""

    def traced(batch: Any) -> Any:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        commands = handle(batch)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
        return commands

    return traced


# ---------------------------------------------------------------- the service
def commands(log: str) -> Rounds:
    """What commands load, ask for and are told, of a platform with some open jobs."""
    from benchmarks.crowded_state import write_crowded_state

    yield {}
    with tempfile.TemporaryDirectory(prefix="swell-guard-") as name:
        folder = Path(name)
        script, counters = script_in(folder), folder / "counters"
        counters.mkdir()
        write_crowded_state(folder / "state", script, DEVICES, 0, NUM_LISTED)
        figures: Figures = {}
        run = counted_commands(counters, figures)
        run("help", "--help")
        for _ in range(2):  # the first one may compile
            run("simulate", *simulated(log))
        with platform(folder / "state", run) as pid:
            told = run("jobs", "jobs", "--state", str(folder / "state"))
            figures["jobs_bytes"] = told[1] + told[2]
            job = ("--script", str(script), "--global-batch", "16", "--steps", "1000000", "--no-wait")
            told = run("submit", "submit", *job, "--state", str(folder / "state"))
            figures["submit_bytes"] = told[1] + told[2]
            figures |= queries(folder / "state", script, counters / str(pid))
        yield figures


def script_in(folder: Path) -> Path:
    script = folder / "tiny.py"
    script.write_text((HERE / "tiny_training.py").read_text())
    return script


def counted_commands(counters: Path, figures: Figures) -> Callable[..., list[int]]:
    """Runs a command, adds to the figures the modules it has loaded; returns what it has counted."""
    environ = os.environ | {"GUARD_COUNTERS": str(counters), "PYTHONPATH": f"{HERE / 'hook'}:{Path.cwd()}"}

    def run(name: str, *words: str) -> list[int]:
        with subprocess.Popen([*PROGRAM, *words], stdout=subprocess.DEVNULL, env=environ) as process:
            status = process.wait()
        if status:
            raise SystemExit(f"`swell {' '.join(words)}` ended with status {status}")
        told = read_counters(counters / str(process.pid))
        if name:
            figures[f"modules_{name}"] = told[3]
        return told

    return run


def read_counters(file: Path) -> list[int]:
    text = file.read_bytes().ljust(32, b"\0")
    return [int.from_bytes(text[at : at + 8], "little") for at in range(0, 32, 8)]


@contextmanager
def platform(state: Path, run: Callable[..., list[int]]) -> Iterator[int]:
    """The number of the daemon's process."""
    from swell.api.client import connect

    run("up", "up", "--devices", DEVICES, "--state", str(state))
    try:
        with connect(state) as client:
            pid = client.endpoint.pid
        yield pid
    finally:
        run("", "down", "--state", str(state))


def queries(state: Path, script: Path, counters: Path) -> Figures:
    """Statements of the daemon by request, the most frequent number: now and then it does something else."""
    from swell.api.client import connect

    def counted(call: Callable[[], object]) -> int:
        before = read_counters(counters)[0]
        call()
        return read_counters(counters)[0] - before

    with connect(state) as client:
        submit = [
            counted(lambda: client.submit(script=script, workdir=script.parent, **TINY_JOB))
            for _ in range(40)
        ]
        listing = [counted(client.jobs) for _ in range(9)]
    return {"submit_queries": statistics.mode(submit), "jobs_queries": statistics.mode(listing)}


def uncounted(_: str, *words: str) -> list[int]:
    subprocess.run([*PROGRAM, *words], check=True, stdout=subprocess.DEVNULL)
    return []


def crowded_daemon() -> Rounds:
    """Memory of a daemon that was started with many open jobs, and has listed them."""
    import psutil

    from benchmarks.crowded_state import write_crowded_state

    yield {}
    with tempfile.TemporaryDirectory(prefix="swell-guard-") as name:
        state = Path(name) / "state"
        write_crowded_state(state, script_in(Path(name)), DEVICES, 0, NUM_OPEN)
        with platform(state, uncounted) as pid:
            uncounted("", "jobs", "--state", str(state))
            yield {"daemon_mib": psutil.Process(pid).memory_info().rss / 2**20}


def submissions() -> Rounds:
    """CPU time of the daemon."""
    import psutil

    from swell.api.client import connect

    with tempfile.TemporaryDirectory(prefix="swell-guard-") as name:
        folder = Path(name)
        script, state = script_in(folder), folder / "state"
        with platform(state, uncounted) as pid, connect(state) as client:
            daemon = psutil.Process(pid)
            first = client.submit(script=script, workdir=folder, **TINY_JOB)
            client.wait_for_verdict(first, LIMIT_S)
            cores = yield {}
            while True:
                pin(pid, cores)
                before_s = sum(daemon.cpu_times()[:2])
                for _ in range(NUM_SUBMISSIONS):
                    client.submit(script=script, workdir=folder, **TINY_JOB)
                cores = yield {"submissions_s": sum(daemon.cpu_times()[:2]) - before_s}


def pin(pid: int, cores: set[int]) -> None:
    """All threads of a process."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), cores)


# ---------------------------------------------------------------- training
def training() -> Rounds:
    """CPU time of the agent and all below it: until a worker trains, of a step, of a resize."""
    import psutil

    from benchmarks.training.sides import wait_for_group
    from benchmarks.training.steplog import read_lines
    from benchmarks.training.swell_side import SwellSide

    def spent_s() -> float:
        family = psutil.Process().children(recursive=True)
        return sum(sum(one.cpu_times()[:4]) for one in family)

    yield {}
    while True:
        with tempfile.TemporaryDirectory(prefix="swell-guard-") as name:
            folder = Path(name)
            side = SwellSide(folder / "side", HERE / "tiny_training.py", (str(folder / "side"),))
            try:
                side.start(1)
                wait_for_group(side, 0, 1, 1, LIMIT_S)
                start_s = spent_s()
                begun = wait_for_group(side, 0, 1, 2, LIMIT_S)[-1].num_whole
                before_s = spent_s()
                done = wait_for_group(side, 0, 1, begun + NUM_STEPS, LIMIT_S)[-1].num_whole
                step_s = (spent_s() - before_s) / (done - begun)
                before_s = spent_s()
                for number, workers in enumerate((2, 1, 2, 1), 1):
                    side.resize(workers)
                    wait_for_group(side, number, workers, 1, LIMIT_S)
                worker = read_lines(folder / "side")[-1].pid
                yield {
                    "worker_start_s": start_s,
                    "step_s": step_s,
                    "resize_s": (spent_s() - before_s) / 4,
                    "worker_mib": psutil.Process(worker).memory_full_info().uss / 2**20,
                }
            finally:
                side.close()


def step_calls() -> Rounds:
    """Calls of functions in a step of one of two workers, those of the script and of torch included."""
    from benchmarks.training.sides import wait_for_group
    from benchmarks.training.swell_side import SwellSide

    yield {}
    while True:
        with tempfile.TemporaryDirectory(prefix="swell-guard-") as name:
            folder = Path(name)
            file = folder / "calls"
            side = SwellSide(folder / "side", HERE / "tiny_training.py", (str(folder / "side"), str(file)))
            try:
                side.start(2)
                wait_for_group(side, 0, 2, 210, LIMIT_S)
                yield {"step_calls": float(file.read_text())}
            finally:
                side.close()


# ---------------------------------------------------------------- size
def size() -> Rounds:
    """What a reader of `src` meets; `cli_options` are those that are declared."""
    yield {}
    files = [file.read_text() for file in sorted(Path("src").rglob("*.py"))]
    classes, num_options = [], 0
    for text in files:
        nodes = list(ast.walk(ast.parse(text)))
        classes += [node.name for node in nodes if isinstance(node, ast.ClassDef)]
        num_options += sum(isinstance(node, ast.Attribute) and node.attr == "Option" for node in nodes)
    words = {word.lower() for name in classes for word in re.findall("[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)}
    yield {
        "lines": sum(text.count("\n") for text in files),
        "modules": len(files),
        "classes": len(classes),
        "class_words": len(words),
        "cli_options": num_options,
    }


WORKLOADS: dict[str, Callable[..., Rounds]] = {
    one.__name__: one
    for one in (
        calls,
        simulation,
        decisions,
        turns,
        commands,
        crowded_daemon,
        submissions,
        training,
        step_calls,
        size,
    )
}


def main() -> None:
    """`workloads.py NAME [ARGUMENT ...]`: a round for each line, which names cores; figures on one line."""
    rounds = WORKLOADS[sys.argv[1]](*sys.argv[2:])
    out, sys.stdout = sys.stdout, sys.stderr
    print(json.dumps(next(rounds)), file=out, flush=True)
    for line in sys.stdin:
        cores = {int(core) for core in line.split()}
        os.sched_setaffinity(0, cores)
        print(json.dumps(rounds.send(cores)), file=out, flush=True)
    rounds.close()


if __name__ == "__main__":
    main()
