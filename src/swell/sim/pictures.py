"""Pictures of simulated runs, one line a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from swell.model.job import Phase
from swell.sim.job_timeline import MAX_TIMELINE_JOBS, draw_timeline, has_run
from swell.sim.outcome import JobOutcome, SimOutcome
from swell.sim.picture_style import colour, dashes, plain_text, set_ticks, width
from swell.sim.time_axis import ROOM, TimeUnit, linear_until, log_ticks, shown_until, spoken, unit_of

#: Given the number of the policy among those that are compared.
Draw = Callable[[Axes, str, SimOutcome, int], None]

#: Shorter ones are drawn as so long, on an axis that knows no 0.
LEAST_S = 1.0


def draw_all(runs: Mapping[str, SimOutcome], title: str, folder: Path) -> list[Path]:
    """Write the pictures, and return their files. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with plain_text():
        files = [
            _devices(runs, title, folder / "devices.png"),
            _admissions(runs, title, folder / "admissions.png"),
            _completion(runs, title, folder / "completion.png"),
            _slack(runs, title, folder / "slack.png"),
        ]
        for policy, outcome in runs.items():
            if sum(map(has_run, outcome.jobs)) <= MAX_TIMELINE_JOBS:
                file = folder / f"timeline-{policy}.png"
                files.append(draw_timeline(outcome, f"{title}, {policy}", file))
    return files


def _axes(title: str, label: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    axes.set_ylabel(label)
    axes.grid(axis="y", lw=0.3)
    return figure, axes


def _saved(figure: Figure, axes: Axes, file: Path) -> Path:
    axes.legend(handlelength=4)
    figure.savefig(file, dpi=120, metadata={"Software": None})
    return file


# ---------------------------------------------------------------- devices in use
def _devices(runs: Mapping[str, SimOutcome], title: str, file: Path) -> Path:
    """A strip for each policy: on crowded clusters all lines run along the top."""
    figure = Figure(figsize=(9, 1.5 + 1.3 * len(runs)), layout="constrained")
    strips = figure.subplots(len(runs), sharex=True, sharey=True, squeeze=False)[:, 0]
    last_s, cut = _shown(runs)
    unit = unit_of(last_s)
    for number, (axes, (policy, outcome)) in enumerate(zip(strips, runs.items(), strict=True)):
        usage = outcome.usage
        at = usage.at_s / unit.seconds
        axes.fill_between(at, usage.used_devices, step="post", color=colour(number), lw=0)
        axes.axhline(outcome.num_devices, color="grey", lw=0.5)
        axes.set_title(policy, fontsize=9, loc="left")
        axes.set_ylim(bottom=0.0)
    strips[-1].set_xlim(0.0, last_s / unit.seconds)
    strips[-1].set_xlabel(unit.name + cut)
    figure.suptitle(title)
    figure.supylabel("devices in use", fontsize=10)
    figure.savefig(file, dpi=120, metadata={"Software": None})
    return file


def _shown(runs: Mapping[str, SimOutcome]) -> tuple[float, str]:
    """Until when, and what is told of jobs that end later."""
    ends = [
        (outcome.end_s if job.end_s is None else job.end_s, policy)
        for policy, outcome in runs.items()
        for job in outcome.jobs
        if has_run(job)
    ]
    last_s = shown_until(end_s for end_s, _ in ends)
    end_s, policy = max(ends, default=(0.0, ""))
    cut = f" (cut: {policy} has jobs until {spoken(end_s)})" if end_s > last_s else ""
    return max(LEAST_S, last_s if cut else ROOM * last_s), cut


# ---------------------------------------------------------------- admissions
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


def _admissions(runs: Mapping[str, SimOutcome], title: str, file: Path) -> Path:
    """Admitted above, refused below."""
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    answers = {policy: answered_s(outcome.jobs) for policy, outcome in runs.items()}
    last_s = max(
        [LEAST_S, *(job.submit_s for outcome in runs.values() for job in outcome.jobs)]
        + [at_s for both in answers.values() for one in both for at_s in one]
    )
    unit = unit_of(last_s)
    parts = figure.subplots(2, sharex=True, sharey=True)
    for which, (axes, label) in enumerate(zip(parts, ("admitted", "refused"), strict=True)):
        axes.set_title(label, fontsize=9, loc="left")
        axes.grid(axis="y", lw=0.3)
        for number, (policy, both) in enumerate(answers.items()):
            _count(axes, policy, both[which], number, unit, last_s)
    parts[-1].set_ylim(bottom=0.0)
    parts[-1].yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    parts[-1].set_xlabel(unit.name)
    parts[0].legend(handlelength=4)
    figure.suptitle(title)
    figure.supylabel("jobs so far", fontsize=10)
    figure.savefig(file, dpi=120, metadata={"Software": None})
    return file


def _count(
    axes: Axes, policy: str, at_s: Sequence[float], number: int, unit: TimeUnit, last_s: float
) -> None:
    """How many so far."""
    at = np.array([0.0, *at_s, last_s]) / unit.seconds
    counts = np.array([*range(len(at_s) + 1), len(at_s)])
    style = {"color": colour(number), "ls": dashes(number), "lw": width(number)}
    axes.step(at, counts, where="post", label=policy, **style)


# ---------------------------------------------------------------- distributions
def _completion(runs: Mapping[str, SimOutcome], title: str, file: Path) -> Path:
    figure, axes = _axes(title, "share of all jobs")
    shown: list[float] = []
    for number, (policy, outcome) in enumerate(runs.items()):
        jcts_s = [max(jct_s, LEAST_S) for job in outcome.jobs if (jct_s := job.jct_s) is not None]
        _cumulative(axes, sorted(jcts_s), len(outcome.jobs), policy, number)
        shown += jcts_s
    axes.set_xscale("log")
    axes.set_xlabel("time from submission to end")
    if shown:
        least_s, most_s = min(shown) / 1.3, 1.3 * max(shown)
        axes.set_xlim(least_s, most_s)
        set_ticks(axes.xaxis, log_ticks(least_s, most_s))
    return _saved(figure, axes, file)


def _slack(runs: Mapping[str, SimOutcome], title: str, file: Path) -> Path:
    """Late jobs are left of 0; refused ones nowhere, so a curve ends below 1 by their share."""
    figure, axes = _axes(title, "share of all jobs with a deadline")
    shown: list[float] = []
    for number, (policy, outcome) in enumerate(runs.items()):
        slacks_s = _slacks_s(outcome.jobs)
        num_jobs = sum(job.deadline_s is not None for job in outcome.jobs)
        _cumulative(axes, slacks_s, num_jobs, policy, number)
        shown += slacks_s
    axes.axvline(0.0, color="grey", lw=0.5)
    axes.set_xlabel("time left from end to deadline; late jobs are left of 0")
    if shown:
        most_s = max(LEAST_S, *map(abs, shown))
        linear_s = linear_until(most_s)
        axes.set_xscale("symlog", linthresh=linear_s)
        ticks = log_ticks(linear_s, most_s)
        below = {-at_s: f"-{text}" for at_s, text in ticks.items() if -at_s >= min(shown)}
        above = {at_s: text for at_s, text in ticks.items() if at_s <= max(shown)}
        set_ticks(axes.xaxis, {0.0: "0", **below, **above})
    return _saved(figure, axes, file)


def _slacks_s(jobs: Sequence[JobOutcome]) -> list[float]:
    """Ascending, of those that succeeded."""
    return sorted(
        job.deadline_s - job.end_s
        for job in jobs
        if job.deadline_s is not None and job.end_s is not None and job.phase is Phase.SUCCEEDED
    )


def _cumulative(axes: Axes, values: Sequence[float], num_jobs: int, policy: str, number: int) -> None:
    """It rises from 0 at the least value, so that one job is a line, and ends with a dot."""
    style = {"color": colour(number), "ls": dashes(number), "lw": width(number)}
    axes.set_ylim(0.0, 1.05)
    if not values:
        axes.plot([], [], label=f"{policy}: no job", **style)
        return
    shares = np.arange(len(values) + 1) / num_jobs
    axes.step([values[0], *values], shares, where="post", label=policy, **style)
    axes.plot(values[-1], shares[-1], "o", color=colour(number), ms=4)
