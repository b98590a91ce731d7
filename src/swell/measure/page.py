"""The page of a measurement: what was measured, what a platform expects, and what was not measured."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

from swell import __version__
from swell.measure.measurement import DeviceMeasure, DeviceMeasurement
from swell.model.node import Node

HEADINGS = ("what", "measured", "expected", "measured / expected")


def cells_of(measure: DeviceMeasure) -> tuple[str, str, str, str]:
    """One row of the table."""
    if measure.expected_s is None:
        return measure.what, _seconds(measure.measured_s), "-", "-"
    ratio = f"{measure.measured_s / measure.expected_s:.2f}" if measure.expected_s > 0 else "-"
    return measure.what, _seconds(measure.measured_s), _seconds(measure.expected_s), ratio


def conditions(found: DeviceMeasurement, node: Node, load: float) -> dict[str, str]:
    """Conditions of a measurement. They name no machine, user or path.

    Args:
        load: average number of processes that ran or waited, before it was measured.
    """
    known = {
        "devices": f"{len(node.devices)} of kind {node.kind}, {found.num_workers} of them measured",
        "GPU": found.versions.get("gpu", ""),
        "swell": __version__,
        "torch": found.versions["torch"],
        "CUDA": found.versions.get("cuda", ""),
        "NCCL": found.versions.get("nccl", ""),
        "Python": platform.python_version(),
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0))} cores",
        "kernel": platform.release(),
        "load before": f"{load:.2f}",
    }
    return {name: value for name, value in known.items() if value}


def not_measured(found: DeviceMeasurement) -> Iterator[str]:
    """What the figures say nothing about, in whole sentences."""
    if "gpu" not in found.versions:
        yield "CUDA and NCCL were not measured: no worker had a GPU."
    elif found.num_workers == 1:
        yield "NCCL was not measured: there was one GPU."
    if found.num_workers == 1:
        yield "Resizes, kills and all-reduces were not measured: they take two devices."
    yield "Several hosts were not measured: all workers were on this machine."
    yield "The scheduler was not measured: no policy decided, and nothing was promised."


def outcome(found: DeviceMeasurement) -> str:
    """What became of the steps."""
    lost = f"{found.num_lost} steps were lost between a checkpoint and the start from it"
    if found.num_workers == 1:
        return f"{lost}."
    return f"{found.num_repeated} steps were made again after the kill, and {lost}."


def markdown(found: DeviceMeasurement, known: dict[str, str]) -> str:
    """The page, as text in Markdown."""
    rows = [HEADINGS, ("---", "---:", "---:", "---:"), *map(cells_of, found.measures)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    listed = "\n".join(f"* {name}: {value}" for name, value in known.items())
    missing = "\n".join(f"* {sentence}" for sentence in not_measured(found))
    return f"""# What Swell measured on these devices

`swell doctor --measure` trained a model of {_millions(found)} million parameters with real workers.
*Expected* is what a platform expects of such a job after its trial run, before it has seen a start or a
resize on these devices; `-`: it expects nothing.

{table}

{outcome(found)}

## Measured with

{listed}

## Not measured

{missing}

This page names no machine, user or path. Attach it to an issue if a figure surprises you.
"""


def _millions(found: DeviceMeasurement) -> str:
    num_bytes = 0 if found.profile is None else found.profile.grad_bytes
    return f"{num_bytes / 4e6:.1f}"


def _seconds(value: float) -> str:
    return f"{value:.3f} s" if value >= 0.0095 else f"{1e3 * value:.3f} ms"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
