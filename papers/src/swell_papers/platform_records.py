"""What the records of a platform tell, where a paper measured on its own or assumes a constant.

Without records the studies show what the paper says, and tell that there is nothing of ours.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from swell.api.client import Client
from swell.model.resize import Resize, Verdict
from swell.model.view import JobView, Story
from swell_papers.experiment import Context, Results, Study
from swell_papers.findings import Cell, Heading, Part, table

#: A trial run that took no longer was none: the script's profile was at hand from an earlier job.
KNOWN_S = 0.1
#: Resizes that did not take place, or have yet to.
NEVER_DONE = (Verdict.FAILED, Verdict.OVERTAKEN, Verdict.UNDER_WAY)
QUANTILES = {"median": 0.5, "90 % within": 0.9, "most": 1.0}

#: What was measured, by what it is of.
Measured = Mapping[str, Sequence[float]]


def of_records(
    name: str,
    title: str,
    caption: str,
    measured: Callable[[Client], Measured],
    printed: Mapping[str, str],
) -> Study[None]:
    """A study of what a platform has measured, and of what the paper says of the same."""

    def tell(context: Context, found: Results[None]) -> Iterator[Part]:
        ours = measured(context.records) if context.records else {}
        heading: Heading = ("what", "paper", "number", *((quantile, 2) for quantile in QUANTILES))
        rows = (row(what, ours.get(what, ())) for what in dict.fromkeys((*printed, *ours)))
        yield table(name, caption, heading, rows)

    def row(what: str, values: Sequence[float]) -> tuple[Cell, ...]:
        told = np.quantile(values, list(QUANTILES.values())).tolist() if values else [None] * len(QUANTILES)
        return (what, printed.get(what), len(values), *told)

    return Study(name=name, title=title, truth=_truth, tell=tell)


def _truth(context: Context, found: Results[None]) -> Iterator[str]:
    if context.records is None:
        yield "no records of a platform were given (--state), so there are no figures of ours"
        return
    cluster = context.records.cluster()
    kinds = ", ".join(sorted({node.kind for node in cluster.nodes}))
    yield (
        f"records of a platform of {cluster.num_devices} devices ({kinds}) with "
        f"{len(context.records.jobs())} jobs, policy {cluster.policy}, swell {cluster.version}"
    )


def overheads(records: Client) -> Measured:
    """Return what trial runs took, and resizes from training, in all and for each model."""
    found = defaultdict[str, list[float]](list)
    for job in records.jobs():
        found[f"trial run, {job.name}"] += _trial_runs_s(records.stories(job.id))
        for resize in _done(job):
            change = f"pause, {resize.before}->{resize.after}"
            found[change].append(resize.cost_s or 0.0)
            found[f"{change}, {job.name}"].append(resize.cost_s or 0.0)
    return found


def _done(job: JobView) -> Iterator[Resize]:
    """Resizes that took place and whose cost is known."""
    for resize in job.resize_history:
        if resize.verdict not in NEVER_DONE and resize.cost_s is not None:
            yield resize


def _trial_runs_s(stories: Iterable[Story]) -> Iterator[float]:
    begun_s = math.inf
    for story in stories:
        if story.code == "profiling":
            begun_s = story.at_s
        elif story.code == "profiled" and story.at_s - begun_s > KNOWN_S:
            yield story.at_s - begun_s


def start_delays(records: Client) -> Measured:
    """Return how long decisions took to take place."""
    growths = (one for job in records.jobs() for one in _done(job) if one.after > one.before)
    return {
        "latest start": [job.start_s for job in records.jobs() if job.start_s is not None],
        "growth, during which the old gang trains": [
            growth.wait_s for growth in growths if growth.wait_s is not None
        ],
    }


def estimate_errors(records: Client) -> Measured:
    """Return by how many percent users' estimates were wrong, by kind of job."""
    found: dict[str, list[float]] = {"live": [], "restart": []}
    for job in records.jobs():
        if job.estimate_s is not None and job.alone_s:
            found[str(job.elasticity)].append(100.0 * abs(job.estimate_s / job.alone_s - 1.0))
    return found
