"""The throughput of a job as a picture: a line for each batch, filled marks where it was measured."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from swell.model.throughput import EstimateSource, JobThroughput
from swell.sim.picture_style import colour, plain_text

#: Inches.
WIDTH, HEIGHT = 7.0, 4.2
#: Sources of what is no measurement.
GUESSED = (EstimateSource.INTERPOLATED, EstimateSource.EXTRAPOLATED)


def draw(found: JobThroughput, file: Path) -> None:
    """Raises OSError."""
    with plain_text():
        _figure(found).savefig(file, dpi=120)


def _figure(found: JobThroughput) -> Figure:
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.subplots()
    best = found.best
    axes.plot(
        [point.workers for point in best],
        [point.samples_per_s for point in best],
        color="black",
        linewidth=3,
        alpha=0.25,
        label="best batch",
    )
    for number, batch in enumerate(sorted({point.batch for point in found.points})):
        points = [point for point in found.points if point.batch == batch]
        x, y = [point.workers for point in points], [point.samples_per_s for point in points]
        axes.plot(x, y, color=colour(number), linewidth=1, label=f"batch {batch}")
        for point in points:
            face = "white" if point.source in GUESSED else colour(number)
            axes.plot(point.workers, point.samples_per_s, "o", color=colour(number), markerfacecolor=face)
    axes.set_xscale("log", base=2)
    axes.set_xticks([point.workers for point in best], [str(point.workers) for point in best])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("workers")
    axes.set_ylabel("samples a second")
    axes.set_title(f"{found.job_id} on {found.kind}; hollow: not measured", loc="left", fontsize=10)
    axes.legend(fontsize=8)
    return figure
