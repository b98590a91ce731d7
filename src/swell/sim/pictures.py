"""Pictures of simulated runs, one line a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swell.model.job import Phase
from swell.sim.outcome import JobOutcome, SimOutcome
from swell.sim.time_axis import shown_until

Colour = tuple[float, float, float, float]
Draw = Callable[[Axes, str, SimOutcome, Colour], None]

HOUR_S = 3600.0
#: A timeline of more jobs than this is a smear.
MAX_TIMELINE_JOBS = 60


def draw_all(runs: Mapping[str, SimOutcome], title: str, folder: Path) -> list[Path]:
    """Write the pictures, and return their files. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [
        _devices(runs, title, folder / "devices.png"),
        _drawn(folder / "admissions.png", title, runs, "jobs so far", _draw_admissions),
        _drawn(folder / "completion.png", title, runs, "share of all jobs", _draw_completion),
        _drawn(folder / "slack.png", title, runs, "share of all jobs with a deadline", _draw_slack),
    ]
    for policy, outcome in runs.items():
        if sum(bool(job.sizes) for job in outcome.jobs) <= MAX_TIMELINE_JOBS:
            files.append(_timeline(outcome, f"{title}, {policy}", folder / f"timeline-{policy}.png"))
    return files


def _drawn(file: Path, title: str, runs: Mapping[str, SimOutcome], label: str, draw: Draw) -> Path:
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    for number, (policy, outcome) in enumerate(runs.items()):
        draw(axes, policy, outcome, mpl.colormaps["tab10"](number % 10))
    axes.set_title(title)
    axes.set_ylabel(label)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    figure.savefig(file, dpi=120, metadata={"Software": None})
    return file


def _devices(runs: Mapping[str, SimOutcome], title: str, file: Path) -> Path:
    """A strip for each policy: on crowded clusters all lines run along the top."""
    figure = Figure(figsize=(9, 1.5 + 1.3 * len(runs)), layout="constrained")
    strips = figure.subplots(len(runs), sharex=True, sharey=True, squeeze=False)[:, 0]
    for number, (axes, (policy, outcome)) in enumerate(zip(strips, runs.items(), strict=True)):
        usage, colour = outcome.usage, mpl.colormaps["tab10"](number % 10)
        axes.fill_between(usage.at_s / HOUR_S, usage.used_devices, step="post", color=colour, lw=0)
        axes.axhline(outcome.num_devices, color="grey", lw=0.5)
        axes.set_title(policy, fontsize=9, loc="left")
    figure.suptitle(title)
    figure.supylabel("devices in use")
    _end_axis(strips[-1], [job for outcome in runs.values() for job in outcome.jobs], "hours")
    figure.savefig(file, dpi=120, metadata={"Software": None})
    return file


def answered_s(jobs: Sequence[JobOutcome]) -> tuple[list[float], list[float]]:
    """When jobs with a deadline were admitted, and when jobs were refused; as many as the metrics count.

    One that was tried without a promise was refused when it was submitted.

    A trial run takes no time in simulations of logs, so that a job which is not refused was admitted when it
    was submitted, whether its policy makes promises or not.
    """
    admitted_s = [
        job.submit_s
        for job in jobs
        if job.deadline_s is not None and job.phase is not Phase.REJECTED and not job.is_unpromised
    ]
    refused_s = [
        job.submit_s if job.end_s is None or job.phase is not Phase.REJECTED else job.end_s
        for job in jobs
        if job.phase is Phase.REJECTED or job.is_unpromised
    ]
    return sorted(admitted_s), sorted(refused_s)


def _draw_admissions(axes: Axes, policy: str, outcome: SimOutcome, colour: Colour) -> None:
    admitted_s, refused_s = answered_s(outcome.jobs)
    last_s = max([*(job.submit_s for job in outcome.jobs), *refused_s], default=0.0)
    for at_s, answer, line in ((admitted_s, "admitted", "-"), (refused_s, "refused", ":")):
        if at_s:
            hours = np.array([0.0, *at_s, last_s]) / HOUR_S
            counts = np.array([*range(len(at_s) + 1), len(at_s)])
            axes.step(hours, counts, where="post", label=f"{policy}, {answer}", color=colour, ls=line)
    axes.set_xlabel("hours")


def _draw_completion(axes: Axes, policy: str, outcome: SimOutcome, colour: Colour) -> None:
    jcts_s = sorted(jct_s for job in outcome.jobs if (jct_s := job.jct_s) is not None)
    _cumulative(axes, [max(jct_s, 1.0) / HOUR_S for jct_s in jcts_s], len(outcome.jobs), policy, colour)
    axes.set_xscale("log")
    axes.set_ylim(-0.05, 1.05)
    axes.set_xlabel("hours from submission to end")


def _draw_slack(axes: Axes, policy: str, outcome: SimOutcome, colour: Colour) -> None:
    """Late jobs are left of 0; refused ones nowhere, so a curve ends below 1 by their share."""
    num_jobs = sum(job.deadline_s is not None for job in outcome.jobs)
    slacks_s = sorted(
        job.deadline_s - job.end_s
        for job in outcome.jobs
        if job.deadline_s is not None and job.end_s is not None and job.phase is Phase.SUCCEEDED
    )
    _cumulative(axes, [slack_s / HOUR_S for slack_s in slacks_s], num_jobs, policy, colour)
    axes.axvline(0.0, color="grey", lw=0.5)
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set_ylim(-0.05, 1.05)
    axes.set_xlabel("hours from end to deadline")


def _cumulative(axes: Axes, values: list[float], num_jobs: int, policy: str, colour: Colour) -> None:
    if values:
        shares = np.arange(1, len(values) + 1) / num_jobs
        axes.step(values, shares, where="post", label=policy, color=colour)


def _timeline(outcome: SimOutcome, title: str, file: Path) -> Path:
    """Jobs x time; the thicker the bar, the more workers. Deadlines are red ticks."""
    jobs = [job for job in outcome.jobs if job.sizes]
    figure = Figure(figsize=(10, 1.5 + 0.16 * len(jobs)), layout="constrained")
    axes = figure.subplots()
    most = max((size for job in jobs for _, size in job.sizes), default=1)
    for row, job in enumerate(jobs):
        _draw_bar(axes, row, job, most, outcome.end_s)
    axes.set_yticks(range(len(jobs)), [_name(job) for job in jobs], fontsize=6)
    axes.invert_yaxis()
    _end_axis(axes, jobs, "hours; the thicker a bar, the more workers; red: the deadline")
    axes.set_title(title)
    figure.savefig(file, dpi=120, metadata={"Software": None})
    return file


def _end_axis(axes: Axes, jobs: Sequence[JobOutcome], label: str) -> None:
    """A job that is much longer than the others is cut off, and told of instead."""
    ends = {job.id: job.end_s / HOUR_S for job in jobs if job.end_s is not None and job.sizes}
    last = shown_until(ends.values())
    late = sorted((end, name) for name, end in ends.items() if end > last)
    if late:
        end, name = late[-1]
        others = f" and {len(late) - 1} more" if len(late) > 1 else ""
        label += f" (cut: {name[:12]}{others} until {end:.1f} hours)"
        axes.set_xlim(0.0, last)
    else:
        axes.set_xlim(left=0.0)
    axes.set_xlabel(label)


def _name(job: JobOutcome) -> str:
    return f"{job.id[:12]}, refused" if job.phase is Phase.REJECTED else job.id[:12]


def _draw_bar(axes: Axes, row: int, job: JobOutcome, most: int, run_end_s: float) -> None:
    ends_s = [*(at_s for at_s, _ in job.sizes[1:]), run_end_s if job.end_s is None else job.end_s]
    colour = mpl.colormaps["tab10"](row % 10)
    for (at_s, size), end_s in zip(job.sizes, ends_s, strict=True):
        if size:
            height = 0.15 + 0.75 * np.log2(1 + size) / np.log2(1 + most)
            axes.barh(row, (end_s - at_s) / HOUR_S, left=at_s / HOUR_S, height=height, color=colour)
    if job.deadline_s is not None:
        axes.plot([job.deadline_s / HOUR_S] * 2, [row - 0.45, row + 0.45], color="red", lw=1)
