"""Overlap of jobs that share a machine: for how long so many of them are there at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from swell.arrays import FloatArray
from swell_papers.colocated_run import ColocatedRun
from swell_papers.findings import Part, table


def overlap_of_jobs(name: str, runs: Sequence[ColocatedRun]) -> Iterator[Part]:
    """Tell for how long so many jobs were there at once, under each policy (section 5.3).

    Yields the table.
    """
    ordered = sorted(runs, key=lambda run: (run.contender.policy != "fifo", run.label))
    labels = list(dict.fromkeys(run.label for run in ordered))
    times_s = {label: _mean_s([run for run in runs if run.label == label]) for label in labels}
    num_jobs = len(runs[0].jobs)
    yield table(
        f"{name}-overlap",
        "seconds in which so many jobs were there at once, means over repetitions",
        ("jobs at once", *((label, 2) for label in labels)),
        ((num, *(float(times_s[label][num - 1]) for label in labels)) for num in range(1, num_jobs + 1)),
    )


def _mean_s(runs: Sequence[ColocatedRun]) -> FloatArray:
    mean_s: FloatArray = np.mean([at_once_s(run) for run in runs], axis=0)
    return mean_s


def at_once_s(run: ColocatedRun) -> FloatArray:
    """(J,) seconds in which exactly 1, 2, ..., J jobs were there, from submission to end."""
    done = [record for record in run.jobs if record.finished_s is not None]
    begins_s = np.array([record.submitted_s for record in done])
    ends_s = np.array([record.finished_s for record in done], dtype=np.float64)
    edges_s = np.unique(np.concatenate([begins_s, ends_s]))
    middle_s = (edges_s[1:] + edges_s[:-1]) / 2.0
    there = (begins_s[:, None] <= middle_s) & (middle_s < ends_s[:, None])
    spent_s = np.bincount(there.sum(axis=0), weights=np.diff(edges_s), minlength=len(run.jobs) + 1)
    return spent_s[1:].astype(np.float64)
