"""`make bench-gpu`: what Swell costs on a GPU, then the tests of `make test-gpu`: one command, ten minutes.

All workers share the first GPU, where they take turns. Without a GPU the same runs on CPU cores with small
models, which shows that the script works and says nothing of GPUs; the tests for GPUs are left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.conditions import conditions, describe, write_json
from benchmarks.gpu import gpt
from swell.executors.local.devices import parse_devices
from swell.measure.measurement import JOB, measure
from swell.model.job import EndCondition, JobSpec

ROOT = Path(__file__).parents[2]
NUM_WORKERS = 4


@dataclass(frozen=True)
class Plan:
    """What is measured on this machine."""

    devices: str  #: as `swell up --devices` takes them
    step_sizes: Sequence[str]
    job_size: str
    num_steps: int
    resize_options: Sequence[str]
    environ: dict[str, str] = field(default_factory=dict)


ON_GPU = Plan(
    "cuda",
    ("124M", "0.4M"),
    "124M",
    50,
    ("--sizes", "25M", "--optimizers", "adam", "--rounds", "parts"),
    # The same GPU several times, and each process a host of its own for NCCL.
    {"CUDA_VISIBLE_DEVICES": ",".join("0" * NUM_WORKERS), "PYTHONPATH": str(ROOT / "tests" / "one_gpu")},
)
ON_CPU = Plan(
    f"cpu:{NUM_WORKERS}",
    ("tiny",),
    "tiny",
    20,
    ("--sizes", "1M", "--optimizers", "adam", "--rounds", "small"),
)
#: More devices than the largest change has workers.
MOST_DEVICES = 8
#: Resizes, kills and loops written for GPUs: what they are told, and their files.
TESTS = {
    "tests of workers": (
        {"TEST_DEVICE": "cuda:0", "CUDA_VISIBLE_DEVICES": "0"},
        (
            *("-n", "4", "tests/train/test_resize.py", "tests/train/test_abort.py"),
            *("tests/train/test_next_group.py", "tests/train/test_background_save.py"),
            *("tests/train/test_device_idioms.py", "tests/train/test_amp.py"),
        ),
    ),
}


def spec_of(size: str, folder: Path, most: int) -> JobSpec:
    """The job of a model of this size, as `measure` takes it."""
    return JobSpec(
        name=JOB,
        entry=str(gpt.__file__),
        args=(size,),
        workdir=str(folder),
        global_batch=gpt.SIZES[size].batch,
        end=EndCondition(steps=gpt.ENDLESS),
        max_workers=most,
    )


class Parts:
    """The parts of the measurement: one that fails is told, and the others go on."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self.console = Console(width=120)
        self.rows: list[tuple[str, ...]] = []
        self.failed: list[str] = []

    def do(self, name: str, part: Callable[[], None]) -> None:
        print(f"{name} ...", file=sys.stderr, flush=True)
        begun_s = time.monotonic()
        try:
            part()
        except Exception as error:  # noqa: BLE001 - a GPU is lent for minutes: what else can be measured is
            self.failed.append(name)
            self.console.print(f"{name} failed: {error}", markup=False)
        print(f"... {time.monotonic() - begun_s:.0f} s", file=sys.stderr, flush=True)

    def measure(self, path: Path | None) -> None:
        known = conditions()
        for size in self.plan.step_sizes:
            self.do(f"steps of {size}", partial(self.steps, size))
        self.do("a job of 4M", partial(self.job, "4M", None))
        size = self.plan.job_size
        self.do(f"a job of {size}", partial(self.job, size, partial(spec_of, size)))
        self.do("resizes", self.resizes)
        self.console.print(f"{describe(known)}.")
        if path is not None:
            write_json(path, {"conditions": known, "has_gpu": self.plan is ON_GPU, "rows": self.rows})

    def steps(self, size: str) -> None:
        """In plain `python`: by PyTorch, by Swell, and by PyTorch again."""
        before_s, swell_s, after_s = (self._step_s(size, way) for way in ("plain", "alone", "plain"))
        table = Table(f"step, {size}, in plain python", "ms", box=SIMPLE_HEAD)
        for way, step_s in (("plain PyTorch", before_s), ("Swell", swell_s), ("plain PyTorch", after_s)):
            table.add_row(way, f"{1000 * step_s:.2f}")
            self.rows.append((f"step, {size}, in plain python, {way}", f"{step_s:.5f}"))
        self.console.print(table)

    def _step_s(self, size: str, way: str) -> float:
        command = [sys.executable, "-m", "benchmarks.gpu.gpt", size, way, str(self.plan.num_steps)]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        return float(done.stdout.split()[-1])

    def job(self, name: str, make_spec: Callable[[Path, int], JobSpec] | None) -> None:
        """The life of a job with real workers, beside what a platform expects of it."""
        [node] = parse_devices(self.plan.devices)
        folder = self.folder / name.replace(" ", "-")
        folder.mkdir()
        tell = partial(print, file=sys.stderr, flush=True)
        found = measure(node, folder, tell) if make_spec is None else measure(node, folder, tell, make_spec)
        table = Table(f"{name}: what", "measured, ms", "expected, ms", box=SIMPLE_HEAD)
        for one in found:
            expected = "-" if one.expected_s is None else f"{1000 * one.expected_s:.1f}"
            table.add_row(one.what, f"{1000 * one.measured_s:.1f}", expected)
            self.rows.append((f"{name}: {one.what}", str(one.measured_s), str(one.expected_s)))
        self.console.print(table)

    def resizes(self) -> None:
        options = ["--sides", "swell", "--repeats", "1", *self.plan.resize_options]
        names = {"BENCH_DEVICES": f"cpu:{MOST_DEVICES}"}
        if self.plan is ON_GPU:
            names = {"BENCH_DEVICES": "cuda", "CUDA_VISIBLE_DEVICES": ",".join("0" * MOST_DEVICES)}
        command = [sys.executable, "-m", "benchmarks.training.resize", *options]
        subprocess.run(command, cwd=ROOT, env=os.environ | names, check=True)

    def tests(self, names: dict[str, str], files: Sequence[str]) -> None:
        command = [sys.executable, "-m", "pytest", "-m", "not soak", *files]
        subprocess.run(command, cwd=ROOT, env=os.environ | names, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--json", type=Path, help="write all that was measured to this file")
    parser.add_argument("--only", choices=("times", "tests"), help="leave out the tests, or all but them")
    options = parser.parse_args()
    has_gpu = torch.cuda.is_available()
    if not has_gpu and options.only == "tests":
        sys.exit("make test-gpu needs a GPU, and a torch for it")
    if not has_gpu:
        print("There is no GPU, or no torch for it: CPU cores and small models, and no tests.", flush=True)
    plan = ON_GPU if has_gpu else ON_CPU
    paths = (plan.environ.get("PYTHONPATH"), str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH"))
    os.environ |= plan.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with tempfile.TemporaryDirectory(prefix="bench-gpu-") as folder:
        parts = Parts(plan, Path(folder))
        if options.only != "tests":
            parts.measure(options.json)
        if has_gpu and options.only != "times":
            for name, (names, files) in TESTS.items():
                parts.do(name, partial(parts.tests, names, files))
    if parts.failed:
        sys.exit(f"failed: {', '.join(parts.failed)}")


if __name__ == "__main__":
    main()
