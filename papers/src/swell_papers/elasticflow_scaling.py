"""Throughput of models by number of devices, and by how many nodes these are on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swell.model.errors import InvalidInput
from swell.sim.profiles.curve import ThroughputCurve
from swell.sim.profiles.load import load
from swell.sim.profiles.pollux import read_placements
from swell.sim.profiles.step_times import PassTimes
from swell_papers.experiment import Context
from swell_papers.findings import Cell, Findings, Heading, Part, chart, findings, panel, table

#: Placements that are compared, of as many devices each: `44` is four devices of each of two nodes.
PLACEMENTS = {4: ("4", "22", "112", "1111"), 8: ("44", "224", "2222")}


@dataclass(frozen=True, kw_only=True)
class ScalingCurves:
    """Implements `experiment.Experiment`.

    Args:
        tables: folder of throughput tables of compact placements.
        measurements: folder of Pollux's measurements, which have other placements.
        linear_shares: printed: (model, global batch, devices) -> throughput over that of linear scaling.
        placed: models whose placements are compared -> global batch.
    """

    name: str
    title: str
    tables: str
    measurements: str
    linear_shares: Mapping[tuple[str, int, int], float]
    placed: Mapping[str, int]

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """Folders below the data folder."""
        return self.tables, *(f"{self.measurements}/{model}/placements.csv" for model in self.placed)

    def run(self, context: Context) -> Findings:
        """Read off the tables. Raises InvalidInput."""
        profiles = load(str(context.data / self.tables))
        curves = [profiles.curve(model, max(profiles.batches(model))) for model in profiles.models()]
        placed = {model: read_placements(context.data / self.measurements / model) for model in self.placed}
        truth = (
            f"measured by others: {self.tables}, each at its largest batch, on compact placements; "
            f"{self.measurements}, on nodes of 4 T4",
        )
        parts = (
            *_scaling(self, curves),
            *_linear(self, {curve.model: curve for curve in curves}),
            *_placements(self, placed),
        )
        return findings(self.name, self.title, truth, parts)


def _scaling(experiment: ScalingCurves, curves: list[ThroughputCurve]) -> Iterator[Part]:
    """Figure 2(a): throughput over that of one device, or of the fewest that were measured."""
    sizes = sorted({size for curve in curves for size in curve.sizes.tolist()})
    shown = {
        f"{curve.model} {curve.global_batch}": [
            curve.rate_at(size) / (curve.rate_at(curve.min_workers) / curve.min_workers)
            if size in curve.sizes
            else None
            for size in sizes
        ]
        for curve in curves
    }
    title = "throughput over that of one device, by devices"
    heading: Heading = ("model and batch", *((str(size), 2) for size in sizes))
    rows: list[tuple[Cell, ...]] = [(name, *values) for name, values in shown.items()]
    yield table(f"{experiment.name}-scaling", title, heading, rows)
    x = ("devices", (str(size) for size in sizes))
    yield chart(experiment.name, experiment.title, "lines", x, title, shown)
    falling = [curve.model for curve in curves if curve.peak_workers < curve.max_workers]
    if falling:
        yield f"Curves that fall beyond their peak: {', '.join(falling)}. Policies cut them there."


def _linear(experiment: ScalingCurves, curves: Mapping[str, ThroughputCurve]) -> Iterator[Part]:
    """What the paper prints of Figure 2(a)."""
    rows = []
    for (model, batch, size), printed in experiment.linear_shares.items():
        curve = curves.get(model)
        if curve is not None and curve.global_batch == batch and size in curve.sizes and 1 in curve.sizes:
            rows.append((model, batch, size, printed, curve.rate_at(size) / (size * curve.rate_at(1))))
    if rows:
        heading = ("model", "batch", "devices", ("paper", 4), ("tables", 4))
        yield table(f"{experiment.name}-linear", "throughput over that of linear scaling", heading, rows)


def _placements(experiment: ScalingCurves, placed: Mapping[str, Mapping[str, PassTimes]]) -> Iterator[Part]:
    """Figure 2(b): throughput of the same number of devices on more and more nodes."""
    rows, panels = [], []
    names = [placement for some in PLACEMENTS.values() for placement in some]
    for model, times in placed.items():
        batch, values = experiment.placed[model], []
        for devices, placements in PLACEMENTS.items():
            rates = [_rate_per_s(model, times, one, batch / devices) for one in placements]
            values += rates
            rows += [
                (model, batch, devices, placement, len(placement), rate, rates[0] / rate)
                for placement, rate in zip(placements, rates, strict=True)
            ]
        panels.append(panel(f"{model}, batch {batch}", {"steps/s": values}))
    yield table(
        f"{experiment.name}-placements",
        "throughput by placement: 224 is two, two and four devices of three nodes",
        (
            "model",
            "batch",
            "devices",
            "placement",
            "nodes",
            "steps/s",
            ("time over that on the fewest nodes", 2),
        ),
        rows,
    )
    x = ("devices of each node", names)
    yield chart(f"{experiment.name}-placements", experiment.title, "bars", x, "steps/s", panels)
    yield (
        "Figure 2(b) has 8 A100 on one to eight servers, and the text prints that ResNet50 is 2.17 times as "
        "fast on one as on eight. No such times are public. These are T4 on nodes of four, measured by "
        "Pollux's authors (imagenet is ResNet50)."
    )


def _rate_per_s(model: str, times: Mapping[str, PassTimes], placement: str, samples: float) -> float:
    """Steps a second with so many samples for each device. Raises InvalidInput."""
    if placement not in times:
        raise InvalidInput(f"the measurements of {model} have no placement {placement}")
    step_s, _ = times[placement].at(np.array([samples]))
    return 1.0 / float(step_s[0])
