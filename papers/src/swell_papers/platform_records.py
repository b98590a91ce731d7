"""What the records of a platform tell, where a paper measured on its own or assumes a constant.

Without records the studies show what the paper says, and tell that there is nothing of ours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from swell.model.resize import Resize, Verdict
from swell.model.view import JobView, Story
from swell_papers.experiment import Context, Records, Results, Study
from swell_papers.findings import Cell, Heading, Part, table

#: A trial run that took no longer was none: the script's profile was at hand from an earlier job.
KNOWN_S = 0.1
#: Resizes that did not take place, or have yet to.
NEVER_DONE = (Verdict.FAILED, Verdict.OVERTAKEN, Verdict.UNDER_WAY)
QUANTILES = {"median": 0.5, "90 % within": 0.9, "most": 1.0}

#: What was measured, by what it is of.
Measured = Mapping[str, Sequence[float]]


def _of_records(
    name: str,
    title: str,
    caption: str,
    printed: Mapping[str, str],
    measured: Callable[[Sequence[JobView], Records], Measured],
    remarks: tuple[str, ...] = (),
) -> Study[None]:
    """A study of what a platform has measured, and of what the paper says of the same."""

    def tell(context: Context, found: Results[None]) -> Iterator[Part]:
        ours = measured(context.records.jobs(), context.records) if context.records else {}
        heading: Heading = ("what", "paper", "number", *((quantile, 2) for quantile in QUANTILES))
        rows = (row(what, ours.get(what, ())) for what in dict.fromkeys((*printed, *ours)))
        yield table(name, caption, heading, rows)

    def row(what: str, values: Sequence[float]) -> tuple[Cell, ...]:
        told = np.quantile(values, list(QUANTILES.values())).tolist() if values else [None] * len(QUANTILES)
        return (what, printed.get(what), len(values), *told)

    def truth(context: Context, found: Results[None]) -> Iterator[str]:
        if context.records is None:
            yield "no records of a platform were given (--state), so there are no figures of ours"
            return
        cluster = context.records.cluster()
        kinds = ", ".join(sorted({node.kind for node in cluster.nodes}))
        yield (
            f"records of a platform of {cluster.num_devices} devices ({kinds}) with "
            f"{len(context.records.jobs())} jobs, policy {cluster.policy}, swell {cluster.version}"
        )

    return Study(name=name, title=title, truth=truth, tell=tell, remarks=remarks)


def overheads(
    name: str,
    title: str,
    profiling_s: Mapping[str, float],
    resizes_s: Mapping[str, Sequence[float]],
    remarks: tuple[str, ...] = (),
) -> Study[None]:
    """A study of trial runs and resizes.

    Args:
        profiling_s: the paper's: model -> seconds of its trial runs.
        resizes_s: the paper's: `1->2` -> seconds for each model.
    """
    printed = {f"trial run, {model}": f"{time_s:.1f}" for model, time_s in profiling_s.items()}
    printed |= {f"pause, {change}": f"{min(some)} to {max(some)}" for change, some in resizes_s.items()}

    def measured(jobs: Sequence[JobView], records: Records) -> Measured:
        found = defaultdict[str, list[float]](list)
        for job in jobs:
            found[f"trial run, {job.name}"] += _trial_runs_s(records.stories(job.id))
            for resize in _done(job):
                found[f"pause, {resize.before}->{resize.after}"].append(resize.cost_s or 0.0)
                found[f"pause, {resize.before}->{resize.after}, {job.name}"].append(resize.cost_s or 0.0)
        return found

    caption = "seconds: trial runs, and what resizes take from training, in all and for each of our models"
    return _of_records(name, title, caption, printed, measured, remarks)


def _done(job: JobView) -> Iterator[Resize]:
    """Resizes that took place and whose cost is known."""
    for resize in job.resize_history:
        if resize.verdict not in NEVER_DONE and resize.cost_s is not None:
            yield resize


def _trial_runs_s(stories: Iterable[Story]) -> Iterator[float]:
    begun_s: float | None = None
    for story in stories:
        if story.code == "profiling":
            begun_s = story.at_s
        elif story.code == "profiled" and begun_s is not None:
            if story.at_s - begun_s > KNOWN_S:
                yield story.at_s - begun_s
            begun_s = None


def start_delays(name: str, title: str, assumed_s: float) -> Study[None]:
    """A study of how long starts and growths take; `assumed_s` is the paper's delay of both."""
    start, growth = "latest start", "growth, during which the old gang trains"

    def measured(jobs: Sequence[JobView], records: Records) -> Measured:
        growths = (resize for job in jobs for resize in _done(job) if resize.after > resize.before)
        return {
            start: [job.start_s for job in jobs if job.start_s is not None],
            growth: [resize.wait_s for resize in growths if resize.wait_s is not None],
        }

    printed = dict.fromkeys((start, growth), f"{assumed_s:g}")
    return _of_records(name, title, "seconds until a decision takes place", printed, measured)


def user_estimates(name: str, title: str, assumed_share: float) -> Study[None]:
    """A study of errors of users' estimates, which the paper takes as uniform up to `assumed_share`."""

    def measured(jobs: Sequence[JobView], records: Records) -> Measured:
        found: dict[str, list[float]] = {"live": [], "restart": []}
        for job in jobs:
            if job.estimate_s is not None and job.alone_s:
                found[str(job.elasticity)].append(100.0 * abs(job.estimate_s / job.alone_s - 1.0))
        return found

    printed = dict.fromkeys(("live", "restart"), f"uniform, up to {100.0 * assumed_share:g}")
    return _of_records(
        name, title, "error of estimates, % of the measured time, by kind of job", printed, measured
    )
