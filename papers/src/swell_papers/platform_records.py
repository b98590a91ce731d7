"""What the records of a platform tell, where a paper measured on its own or assumes a constant.

Without records the studies show what the paper says, and tell that there is nothing of ours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median

import numpy as np

from swell.model.resize import Resize, Verdict
from swell.model.view import JobView, Story
from swell_papers.experiment import Context, Records, Results, Study
from swell_papers.findings import Cell, Heading, Part, chart, table

#: A trial run that took no longer was none: the script's profile was at hand from an earlier job.
KNOWN_S = 0.1
#: Resizes that did not take place, or have yet to.
NEVER_DONE = (Verdict.FAILED, Verdict.OVERTAKEN, Verdict.UNDER_WAY)
QUANTILES = (0.1, 0.5, 0.9, 1.0)
#: Shares of the measured time: errors of up to each are counted.
ERRORS = (0.05, 0.1, 0.25, 0.5, 1.0)


def of_records(
    name: str,
    title: str,
    tell: Callable[[Sequence[JobView], Records | None], Iterable[Part]],
    remarks: tuple[str, ...] = (),
) -> Study[None]:
    """A study of what `tell` tells of the jobs of a platform; there are none without records."""

    def told(context: Context, found: Results[None]) -> Iterable[Part]:
        return tell(context.records.jobs() if context.records else (), context.records)

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

    return Study(name=name, title=title, tell=told, truth=truth, remarks=remarks)


# Trial runs and resizes


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

    def tell(jobs: Sequence[JobView], records: Records | None) -> Iterator[Part]:
        rows: list[tuple[Cell, ...]] = [(model, time_s, None, None) for model, time_s in profiling_s.items()]
        trials = trial_runs_s(jobs, records) if records else {}
        rows += [(model, None, median(times_s), len(times_s)) for model, times_s in trials.items()]
        heading = ("model", ("paper", 1), ("Swell, median", 2), "jobs")
        yield table(f"{name}-profiling", "trial runs, seconds", heading, rows)
        resizes = resizes_of(jobs)
        changes = sorted({*resizes_s, *(change for _, change in resizes)}, key=_order)
        ours = [
            _of_ours([one for (_, of), some in resizes.items() if of == change for one in some])
            for change in changes
        ]
        theirs = [resizes_s.get(change) for change in changes]
        yield table(
            f"{name}-resizes",
            "resizes, seconds: the pause in the paper; of ours, the pause, and the time from the decision to "
            "the new gang, during most of which the old gang trains",
            (
                *("workers", ("paper, least", 2), ("paper, most", 2), "resizes", "pause, median", "most"),
                ("decision to new gang, median", 2),
            ),
            (
                (change, *((min(some), max(some)) if some else (None, None)), *own)
                for change, some, own in zip(changes, theirs, ours, strict=True)
            ),
        )
        if resizes:
            yield _by_model(name, resizes)
        pauses_s = {
            "paper": [median(some) if some else None for some in theirs],
            "Swell": [own[1] for own in ours],
        }
        x = ("workers before -> after", changes)
        y_label = "seconds without training, median"
        yield chart(name, title, "bars", x, y_label, pauses_s)

    return of_records(name, title, tell, remarks)


def _by_model(name: str, resizes: Mapping[tuple[str, str], Sequence[Resize]]) -> Part:
    found = sorted(resizes.items(), key=lambda item: (item[0][0], _order(item[0][1])))
    return table(
        f"{name}-models",
        "resizes of each of our models, seconds",
        (
            *("model", "workers", "resizes", ("pause, least", 2), ("pause, median", 2), ("most", 2)),
            ("decision to new gang, median", 2),
        ),
        (
            (name, change, len(some), min(_costs_s(some)), *_of_ours(some)[1:])
            for (name, change), some in found
        ),
    )


def _costs_s(resizes: Sequence[Resize]) -> list[float]:
    return [resize.cost_s for resize in resizes if resize.cost_s is not None]


def _of_ours(resizes: Sequence[Resize]) -> tuple[int | None, float | None, float | None, float | None]:
    """Number, median and most of the cost, median of the wait."""
    costs_s = _costs_s(resizes)
    waits_s = [resize.wait_s for resize in resizes if resize.wait_s is not None]
    if not costs_s:
        return None, None, None, None
    return len(costs_s), median(costs_s), max(costs_s), median(waits_s) if waits_s else None


def _order(change: str) -> tuple[int, ...]:
    return tuple(int(size) for size in change.split("->"))


def trial_runs_s(jobs: Iterable[JobView], records: Records) -> dict[str, list[float]]:
    """How long each trial run took, by the job's name."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for job in jobs:
        found[job.name].extend(_trial_runs_s(records.stories(job.id)))
    return {name: times_s for name, times_s in found.items() if times_s}


def _trial_runs_s(stories: Iterable[Story]) -> Iterator[float]:
    begun_s: float | None = None
    for story in stories:
        if story.code == "profiling":
            begun_s = story.at_s
        elif story.code == "profiled" and begun_s is not None:
            if story.at_s - begun_s > KNOWN_S:
                yield story.at_s - begun_s
            begun_s = None


def resizes_of(jobs: Iterable[JobView]) -> dict[tuple[str, str], list[Resize]]:
    """Those that took place and whose cost is known, by job's name and `1->2`."""
    found: defaultdict[tuple[str, str], list[Resize]] = defaultdict(list)
    for job in jobs:
        for resize in job.resize_history:
            if resize.verdict not in NEVER_DONE and resize.cost_s is not None:
                found[job.name, f"{resize.before}->{resize.after}"].append(resize)
    return dict(found)


# Starts and growths


def start_delays(name: str, title: str, assumed_s: float) -> Study[None]:
    """A study of how long starts and growths take; `assumed_s` is the paper's delay of both."""

    def row(what: str, found_s: list[float]) -> tuple[Cell, ...]:
        if not found_s:
            return (what, assumed_s, None, *(None for _ in QUANTILES))
        return (what, assumed_s, len(found_s), *np.quantile(found_s, QUANTILES).tolist())

    def tell(jobs: Sequence[JobView], records: Records | None) -> Iterator[Part]:
        heading: Heading = (
            "what",
            ("paper", 1),
            "number",
            *((f"{share:.0%} within", 2) for share in QUANTILES),
        )
        rows = (row(what, found) for what, found in delays_s(jobs).items())
        yield table(name, "seconds until a decision takes place, as shares of all within", heading, rows)

    return of_records(name, title, tell)


def delays_s(jobs: Iterable[JobView]) -> dict[str, list[float]]:
    """What was measured, by what it is of: latest starts, and all growths."""
    found: dict[str, list[float]] = {
        "start": [],
        "growth, during which the old gang trains": [],
    }
    start, growth = found.values()
    for job in jobs:
        start += [job.start_s] if job.start_s is not None else []
        growth += [
            resize.wait_s
            for resize in job.resize_history
            if resize.after > resize.before and resize.verdict not in NEVER_DONE and resize.wait_s is not None
        ]
    return found


# Users' estimates


def user_estimates(name: str, title: str, assumed_share: float) -> Study[None]:
    """A study of errors of users' estimates, which the paper takes as uniform up to `assumed_share`."""

    def tell(jobs: Sequence[JobView], records: Records | None) -> Iterator[Part]:
        heading: Heading = (
            "estimates",
            "jobs",
            ("median error, %", 1),
            *((f"within {one:.0%}", 2) for one in ERRORS),
        )
        paper: list[Cell] = [min(1.0, share / assumed_share) for share in ERRORS]
        rows: list[tuple[Cell, ...]] = [("paper, uniform", None, 0.0, *paper)]
        for kind, found in errors_of(jobs).items():
            if not found:
                rows.append((kind, None, None, *(None for _ in ERRORS)))
                continue
            within = [float(np.mean(np.abs(found) <= share)) for share in ERRORS]
            rows.append((kind, len(found), 100.0 * float(np.median(found)), *within))
        yield table(name, "shares of jobs whose estimate is wrong by no more", heading, rows)

    return of_records(name, title, tell)


def errors_of(jobs: Iterable[JobView]) -> dict[str, list[float]]:
    """Estimate over measured time, less 1, by the kind of the job."""
    found: dict[str, list[float]] = {"live": [], "restart": []}
    for job in jobs:
        if job.estimate_s is not None and job.alone_s:
            found[str(job.elasticity)].append(job.estimate_s / job.alone_s - 1.0)
    return found
