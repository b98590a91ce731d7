"""Under what a measurement was made: it goes with the figures."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]


def conditions() -> dict[str, str | int | float]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": _commit(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def describe(known: dict[str, str | int | float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in known.items())


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    """The commit that was measured, with a plus if the working tree differs from it."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return "unknown"
    commit = _output(git, "rev-parse", "--short", "HEAD")
    return commit + (
        "+" if _output(git, "status", "--porcelain", "--", "src", "papers", "benchmarks") else ""
    )


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
