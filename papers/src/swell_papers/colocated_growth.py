"""How jobs that share a machine learn over time: their progress, and what a CPU second is worth to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from swell.arrays import FloatArray
from swell_papers.colocated_measures import JobLearning, learning_of, losses_of
from swell_papers.colocated_run import ColocatedJobRecord, ColocatedRun
from swell_papers.colocated_speed import told_usage
from swell_papers.findings import Cell, Chart, Part, chart, panel, table

#: Shares of a job's time at which its progress is told; at 14.5 % section 2.2 tells that of one.
PROGRESS_AT = (0.05, 0.1, 0.145, 0.25, 0.5, 0.75, 1.0)
#: Growth efficiency is told for so many spans of the longest run.
NUM_SPANS = 20
#: Of a span: a job that used less CPU time has no growth efficiency there.
LEAST_CPU_S = 0.01


class LearnedOverTime:
    """What a job of a run has learnt, and used, up to each moment, by all runs of its schedule together."""

    def __init__(self, record: ColocatedJobRecord, learning: JobLearning) -> None:
        self._told = told_usage(record)
        self._learning = learning
        self._submitted_s = record.submitted_s
        self.ended_s = (record.finished_s or float(self._told.at_s[-1])) - record.submitted_s

    def done_shares(self, at_s: FloatArray) -> FloatArray:
        """Share of the drop of the smoothed loss that is done so long after the submission."""
        loss = self._learning.loss
        steps = np.interp(at_s, self._told.at_s - self._submitted_s, self._told.steps)
        lowered = loss[0] - np.interp(steps, self._learning.steps, loss)
        drop = loss[0] - loss.min()
        return lowered / drop if drop > 0.0 else np.zeros_like(lowered)

    def growth(self, edges_s: FloatArray) -> list[float | None]:
        """Growth efficiency between moments (Equation 2): share of the drop for each CPU second.

        None where the job has ended, or used no CPU time. A loss that rises makes it negative.
        """
        cpu_s = np.diff(np.interp(edges_s, self._told.at_s - self._submitted_s, self._told.cpu_s))
        grown = np.diff(self.done_shares(edges_s))
        is_there = (cpu_s >= LEAST_CPU_S) & (edges_s[:-1] < self.ended_s)
        return [
            float(share / used) if there else None
            for share, used, there in zip(grown, cpu_s, is_there, strict=True)
        ]


def _first(runs: Sequence[ColocatedRun]) -> list[ColocatedRun]:
    """Those of the first repetition."""
    return [run for run in runs if run.repetition == runs[0].repetition]


def _over_time(run: ColocatedRun, name: str, runs: Sequence[ColocatedRun]) -> LearnedOverTime:
    record = next(record for record in run.jobs if record.job.name == name)
    return LearnedOverTime(record, learning_of(losses_of(runs, name)))


# ---------------------------------------------------------------- figure 1
def training_progress(name: str, runs: Sequence[ColocatedRun]) -> Iterator[Part]:
    """Tell how much of its drop each job's loss has done by its time, without control.

    Yields the table and the chart.
    """
    first = _first(runs)
    none = next(run for run in first if run.contender.policy == "fifo")
    shares = {record.job.name: _progress(none, record.job.name, first) for record in none.jobs}
    title = "share of the drop of its loss that each job has done, by the share of its time, without control"
    x = [f"{100.0 * at:g} %" for at in PROGRESS_AT]
    yield table(f"{name}-progress", title, ("job", *x), ((job, *values) for job, values in shares.items()))
    lines = {job: [float(value) for value in values] for job, values in shares.items()}
    yield chart(
        f"{name}-progress",
        "Figure 1: training progress, first repetition",
        "lines",
        ("time of the job", x),
        "share of the drop of the loss",
        [panel("without control", lines)],
    )


def _progress(run: ColocatedRun, job: str, runs: Sequence[ColocatedRun]) -> list[float]:
    over_time = _over_time(run, job, runs)
    found: list[float] = over_time.done_shares(over_time.ended_s * np.array(PROGRESS_AT)).tolist()
    return found


# ---------------------------------------------------------------- figures 13 and 14
def growth_over_time(name: str, runs: Sequence[ColocatedRun], places: Sequence[int]) -> Iterator[Part]:
    """Tell the growth efficiency of the jobs with these numbers over time, under each policy.

    Yields a table and a chart.
    """
    first = _first(runs)
    jobs = [first[0].jobs[place - 1].job.name for place in places if place <= len(first[0].jobs)]
    found = {job: {run.label: _over_time(run, job, first) for run in first} for job in jobs}
    longest_s = max(one.ended_s for by_label in found.values() for one in by_label.values())
    edges_s = np.linspace(0.0, longest_s, NUM_SPANS + 1)
    growth = {
        job: {label: one.growth(edges_s) for label, one in by_label.items()}
        for job, by_label in found.items()
    }
    labels = [run.label for run in first]
    rows: list[tuple[Cell, ...]] = [
        (job, float(edges_s[at]), *(growth[job][label][at] for label in labels))
        for job in jobs
        for at in range(NUM_SPANS)
        if any(growth[job][label][at] is not None for label in labels)
    ]
    yield table(
        f"{name}-growth",
        "growth efficiency over time, first repetition: share of the drop of the loss that a CPU second "
        f"does, in each span of {edges_s[1]:.1f} s from the submission of the job on",
        ("job", ("from s", 1), *((label, 4) for label in labels)),
        rows,
    )
    yield _growth_chart(name, edges_s, growth)


def _growth_chart(name: str, edges_s: FloatArray, growth: dict[str, dict[str, list[float | None]]]) -> Chart:
    return chart(
        f"{name}-growth",
        "Figures 13 and 14: growth efficiency over time, first repetition",
        "steps",
        ("seconds from the submission of the job", edges_s.tolist()),
        "share of the drop of the loss, each CPU second",
        [
            panel(job, {label: [*values, None] for label, values in by_label.items()})
            for job, by_label in growth.items()
        ],
    )
