"""Throughput of models by number of devices, and by how many nodes these are on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from swell.model.errors import InvalidInput
from swell.sim.profiles.curve import ThroughputCurve
from swell.sim.profiles.load import load
from swell.sim.profiles.pollux import read_placements
from swell.sim.profiles.step_times import PassTimes
from swell_papers.experiment import Claim, Context, Key, Measure, Picture, Results, Study
from swell_papers.findings import Part, chart, panel, table

#: Placements that are compared, of as many devices each: `44` is four devices of each of two nodes.
PLACEMENTS = {4: ("4", "22", "112", "1111"), 8: ("44", "224", "2222")}


def scaling_curves(
    name: str,
    title: str,
    tables: str,
    measurements: str,
    linear_shares: Mapping[tuple[str, int, int], float],
    placed: Mapping[str, int],
    remarks: tuple[str, ...] = (),
) -> Study[float]:
    """A study of throughput over that of one device, or of the fewest that were measured.

    Args:
        tables: folder of throughput tables of compact placements.
        measurements: folder of Pollux's measurements, which have other placements.
        linear_shares: printed: (model, global batch, devices) -> throughput over that of linear scaling.
        placed: models whose placements are compared -> global batch.
    """

    def cases(context: Context) -> dict[Key, Callable[[], float]]:
        profiles = load(str(context.data / tables))
        curves = [profiles.curve(model, max(profiles.batches(model))) for model in profiles.models()]
        return {
            (f"{curve.model} {curve.global_batch}", size): partial(_scaled, curve, size)
            for size in sorted({size for curve in curves for size in curve.sizes.tolist()})
            for curve in curves
            if size in curve.sizes
        }

    def tell(context: Context, found: Results[float]) -> Iterator[Part]:
        rows = [
            (model, batch, devices, one, len(one), _steps_per_s(model, times, one, batch / devices))
            for model, batch in placed.items()
            for times in (read_placements(context.data / measurements / model),)
            for devices, placements in PLACEMENTS.items()
            for one in placements
        ]
        heading = ("model", "batch", "devices", "placement", "nodes", "steps/s")
        caption = "throughput by placement: 224 is two, two and four devices of three nodes"
        yield table(f"{name}-placements", caption, heading, rows)
        panels = (
            panel(f"{model}, batch {batch}", {"steps/s": [row[-1] for row in rows if row[0] == model]})
            for model, batch in placed.items()
        )
        x = ("devices of each node", [one for some in PLACEMENTS.values() for one in some])
        yield chart(f"{name}-placements", title, "bars", x, "steps/s", panels)

    return Study(
        name=name,
        title=title,
        cases=cases,
        keys=("model and batch", "devices"),
        measures=(Measure("throughput over one device's", lambda run: run, 2),),
        pictures=(
            Picture(
                measures=("throughput over one device's",), x="devices", lines="model and batch", kind="lines"
            ),
        ),
        claims=[
            Claim(
                text=f"{model}, batch {batch}, {size} devices: throughput over that of linear scaling",
                figure=printed,
                of=partial(_linear_share, f"{model} {batch}", size),
            )
            for (model, batch, size), printed in linear_shares.items()
        ],
        tell=tell,
        truth=f"measured by others: {tables}, each at its largest batch, on compact placements; "
        f"{measurements}, on nodes of 4 T4",
        remarks=remarks,
        needs=(tables, *(f"{measurements}/{model}/placements.csv" for model in placed)),
    )


def _scaled(curve: ThroughputCurve, size: int) -> float:
    return float(curve.rate_at(size) / (curve.rate_at(curve.min_workers) / curve.min_workers))


def _linear_share(model: str, size: int, found: Results[float]) -> float:
    return found[model, size] / size


def _steps_per_s(model: str, times: Mapping[str, PassTimes], placement: str, samples: float) -> float:
    """Steps a second with so many samples for each device. Raises InvalidInput."""
    if placement not in times:
        raise InvalidInput(f"the measurements of {model} have no placement {placement}")
    step_s, _ = times[placement].at(np.array([samples]))
    return 1.0 / float(step_s[0])
