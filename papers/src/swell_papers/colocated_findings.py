"""Tables, pictures and sentences of jobs that shared a machine under several policies."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from swell_papers.colocated_measures import RunMeasures, are_losses_equal, measures_of
from swell_papers.colocated_run import ColocatedJobRecord, ColocatedRun, SharedMachine
from swell_papers.colocated_twin import Twin, error_together, mean_errors
from swell_papers.findings import (
    Cell,
    Chart,
    Findings,
    Missed,
    Part,
    Table,
    Values,
    chart,
    findings,
    panel,
    table,
)
from swell_papers.intervals import Interval
from swell_papers.program_version import program_version

#: What is to be reached: see `_missed`.
LATE_JOB_REDUCTION, MOST_MAKESPAN, USABLE_REDUCTION, MOST_COMPLETION = 0.25, 1.02, 0.03, 1.3
MOST_CONTROL_SHARE, MOST_ERROR_SHARE = 0.01, 0.05
OURS = "flowcon_fit"
#: Seconds between two points of a picture over time.
GRID_S = 0.5


class Against(NamedTuple):
    """A policy against no control: ratios of the same repetition, means with their intervals."""

    completion: Interval
    makespan: Interval
    usable: Interval
    worst: float  #: largest ratio of a job's completion, over all repetitions
    late_job: Interval | None
    control: Interval  #: CPU of the daemon, as a share of one core, more than without control


Measured = Mapping[str, Sequence[RunMeasures]]


def findings_of(
    experiment: SharedMachine,
    runs: Sequence[ColocatedRun],
    twins: Sequence[Twin] = (),
    interference_share: float | None = None,
) -> Findings:
    """Compare contenders with no control."""
    measured = _by_label(experiment, runs)
    against = {
        label: _against(experiment, measured, label)
        for label in measured
        if experiment.base_of(label) != label
    }
    parts: tuple[Part, ...] = (
        _table(experiment, measured, against),
        *_late_table(experiment, against),
        _job_table(experiment, measured),
        *([_twin_table(experiment, measured, twins)] if twins else []),
        _chart(experiment, measured),
        _usage_chart(experiment, runs),
        *(part for detail in experiment.details for part in detail(experiment.name, runs)),
        _losses_note(runs),
        *_interference(interference_share),
        *(map(Missed, _missed(experiment, against, twins)) if experiment.is_bar else ()),
    )
    return findings(experiment.name, experiment.title, _truth(runs), parts)


def _by_label(experiment: SharedMachine, runs: Sequence[ColocatedRun]) -> dict[str, list[RunMeasures]]:
    """Measures by policy, one for each repetition. The runs of a repetition are of one schedule."""
    measured: dict[str, list[RunMeasures]] = {label: [] for label in experiment.labels()}
    for repetition in sorted({run.repetition for run in runs}):
        group = [run for run in runs if run.repetition == repetition]
        for run, found in zip(group, measures_of(group), strict=True):
            measured[run.label].append(found)
    return measured


def _against(experiment: SharedMachine, measured: Measured, label: str) -> Against:
    none, ours = measured[experiment.base_of(label)], measured[label]
    pairs = list(zip(ours, none, strict=True))

    def ratio(tell: Callable[[RunMeasures], float]) -> Interval:
        return Interval.of([tell(one) / tell(other) for one, other in pairs])

    late = experiment.late_job
    return Against(
        completion=ratio(lambda run: run.mean_completion_s),
        makespan=ratio(lambda run: run.makespan_s),
        usable=ratio(lambda run: run.mean_usable_s),
        worst=max(one.worst_against(other) for one, other in pairs),
        late_job=None if late is None else ratio(lambda run: run.completion_s[late]),
        control=Interval.of([one.control_share - other.control_share for one, other in pairs]),
    )


def _truth(runs: Sequence[ColocatedRun]) -> Iterator[str]:
    num, loads = len({run.repetition for run in runs}), [run.load_before for run in runs]
    mechanisms = " and ".join(dict.fromkeys(run.mechanism for run in sorted(runs, key=_is_contained)))
    factors = sorted({run.shortened for run in runs} - {1.0})
    shorter = "".join(f", jobs and times {factor:g} times shorter" for factor in factors)
    yield (
        f"real processes, {num} repetitions{shorter}, {mechanisms}; load of the machine before each run "
        f"{min(loads):.1f} to {max(loads):.1f}; Python {platform.python_version()}; {program_version()}"
    )


def _is_contained(run: ColocatedRun) -> bool:
    return bool(run.contender.image)


def _table(experiment: SharedMachine, measured: Measured, against: Mapping[str, Against]) -> Table:
    times = (
        *(("mean completion s", 2), "ratio", "+-", ("makespan s", 2), "ratio of makespan", "+- of makespan"),
        *(("usable s", 2), "ratio of usable", "+- of usable"),
    )
    return table(
        experiment.name,
        "means over repetitions; ratios to no control, of the same repetition; worst job: largest ratio of "
        "completion; control: CPU of the daemon more than without control, as a share of a core",
        ("policy", *times, "worst job", "control"),
        (_row(label, measured[label], against.get(label)) for label in experiment.labels()),
    )


def _row(label: str, runs: Sequence[RunMeasures], against: Against | None) -> tuple[Cell, ...]:
    def cells(interval: Interval | None) -> tuple[Cell, Cell]:
        if interval is None:
            return None, None
        return interval.mean, interval.half if len(runs) > 1 else None

    return (
        label,
        _mean(runs, lambda run: run.mean_completion_s),
        *cells(against and against.completion),
        _mean(runs, lambda run: run.makespan_s),
        *cells(against and against.makespan),
        _mean(runs, lambda run: run.mean_usable_s),
        *cells(against and against.usable),
        against.worst if against else None,
        against.control.mean if against else None,
    )


def _mean(runs: Sequence[RunMeasures], tell: Callable[[RunMeasures], float]) -> float:
    return float(np.mean([tell(run) for run in runs]))


def _late_table(experiment: SharedMachine, against: Mapping[str, Against]) -> Iterator[Table]:
    """Tell by how much the late job ends sooner: figures 3 to 6, table 2."""
    if experiment.late_job is None:
        return
    printed = experiment.late_reductions
    yield table(
        f"{experiment.name}-late",
        f"completion of the late job {experiment.late_job} as a ratio to no control, of the same repetition; "
        "by how much it and the makespan are reduced; and what the paper prints for its late job",
        ("policy", "ratio", "+-", "reduction", "reduction of makespan", *(["paper"] if printed else [])),
        (
            (
                *(label, late.mean, late.half, 1.0 - late.mean, 1.0 - found.makespan.mean),
                *([printed.get(label)] if printed else []),
            )
            for label, found in against.items()
            if (late := found.late_job) is not None
        ),
    )


def _job_table(experiment: SharedMachine, measured: Measured) -> Table:
    labels = experiment.labels()
    jobs = list(measured[labels[0]][0].completion_s)
    is_one = _is_one_schedule(run for runs in measured.values() for run in runs)
    names = jobs if is_one else [f"job {number}" for number in range(1, len(jobs) + 1)]

    def mean(label: str, place: int) -> float:
        return _mean(measured[label], lambda run: list(run.completion_s.values())[place])

    return table(
        f"{experiment.name}-jobs",
        "completion of each job in seconds, means over repetitions, in order of submission",
        ("job", *((label, 2) for label in labels)),
        ((name, *(mean(label, place) for label in labels)) for place, name in enumerate(names)),
    )


def _twin_table(experiment: SharedMachine, measured: Measured, twins: Sequence[Twin]) -> Table:
    return table(
        f"{experiment.name}-simulated",
        "the same runs simulated, with the speeds, starts and cores in use of each run: how far the mean "
        "completion of its jobs, and that of single jobs, is from the real one, as a share of that; real "
        "spread: how far single jobs of one schedule are from their mean over the real runs",
        ("policy", "jobs", "all runs together", "mean of a run", "single jobs", "real spread"),
        (
            (
                *(label, len(found), error_together(found), _mean_absolute(mean_errors(found))),
                *(_mean_absolute([twin.error_share for twin in found]), _spread(measured[label])),
            )
            for label in experiment.labels()
            if (found := [twin for twin in twins if twin.label == label])
        ),
    )


def _spread(runs: Sequence[RunMeasures]) -> float | None:
    """None where there is one run, or each had a schedule of its own."""
    if len(runs) < 2 or not _is_one_schedule(runs):
        return None
    completions_s = np.array([list(run.completion_s.values()) for run in runs])
    return float(np.mean(np.abs(completions_s / completions_s.mean(axis=0) - 1.0)))


def _is_one_schedule(runs: Iterable[RunMeasures]) -> bool:
    return len({tuple(run.completion_s) for run in runs}) == 1


def _mean_absolute(errors: Sequence[float]) -> float:
    return float(np.mean(np.abs(errors)))


def _missed_twins(experiment: SharedMachine, twins: Sequence[Twin]) -> Iterator[str]:
    for label in experiment.labels():
        found = [twin for twin in twins if twin.label == label]
        if found and abs(error := error_together(found)) > MOST_ERROR_SHARE:
            yield f"{experiment.name}: simulated completions under {label} are {error:.1%} from the real ones"


def _chart(experiment: SharedMachine, measured: Measured) -> Chart:
    rows = _job_table(experiment, measured).rows
    shown = {label: [row[at] for row in rows] for at, label in enumerate(experiment.labels(), start=1)}
    x = ("job", (str(row[0]) for row in rows))
    panels = [panel("completion of each job", cast(dict[str, Values], shown))]
    return chart(experiment.name, experiment.title, "bars", x, "completion, s", panels)


# ---------------------------------------------------------------- CPU over time (figures 7, 8, 10, 11, 15)
def _usage_chart(experiment: SharedMachine, runs: Sequence[ColocatedRun]) -> Chart:
    first = {run.label: run for run in runs if run.repetition == 0}
    most_s = max(run.makespan_s for run in first.values())
    grid = np.arange(0.0, most_s + GRID_S, GRID_S)
    panels = (
        panel(label, {one.job.name: _cores(one, grid) for one in first[label].jobs})
        for label in experiment.labels()
    )
    title = f"{experiment.title}: CPU use, first repetition"
    x = ("seconds", grid.tolist())
    return chart(f"{experiment.name}-cpu", title, "steps", x, "cores", panels)


def _cores(
    record: ColocatedJobRecord, grid: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> tuple[float | None, ...]:
    """Cores that a job used in the half seconds around each time of the grid.

    None before it was submitted and after its end.
    """
    known = [(sample.at_s, sample.cpu_s) for sample in record.samples if sample.cpu_s is not None]
    if not known:
        return tuple(None for _ in grid)
    at_s, cpu_s = zip(*known, strict=True)
    used = np.interp(grid, at_s, cpu_s)
    rates = np.gradient(used, GRID_S)
    end_s = record.finished_s or at_s[-1]
    return tuple(
        float(rate) if record.submitted_s <= moment <= end_s + GRID_S else None
        for moment, rate in zip(grid, rates, strict=True)
    )


# ---------------------------------------------------------------- sentences
def _losses_note(runs: Sequence[ColocatedRun]) -> str:
    """Containers are compared among themselves: an image may have another Python, and its text to learn."""
    groups = sorted({(run.repetition, run.contender.image) for run in runs})
    equal = [
        are_losses_equal([run for run in runs if (run.repetition, run.contender.image) == group])
        for group in groups
    ]
    num, same = sum(map(len, equal)), sum(sum(one.values()) for one in equal)
    apart = "; containers are compared with containers" if any(run.contender.image for run in runs) else ""
    return f"{same} of {num} jobs ended with the very same loss, to the last bit, under every policy{apart}."


def _interference(share: float | None) -> Iterator[str]:
    if share is not None:
        yield (
            f"Each halving of a job's part of the core adds {share:.1%} to the CPU time that its steps cost "
            "alone."
        )


def _missed(
    experiment: SharedMachine, against: Mapping[str, Against], twins: Sequence[Twin]
) -> Iterator[str]:
    yield from _missed_twins(experiment, twins)
    for label, found in against.items():
        if found.makespan.mean > MOST_MAKESPAN:
            yield f"{experiment.name}: the makespan under {label} is {found.makespan.mean:.3f} of its length"
        if found.control.mean > MOST_CONTROL_SHARE:
            yield f"{experiment.name}: {label} costs {found.control.mean:.1%} of a core"
        if found.late_job is not None and found.late_job.mean > 1.0 - LATE_JOB_REDUCTION:
            yield f"{experiment.name}: the late job under {label} takes {found.late_job.mean:.3f} of its time"
    ours = against.get(OURS)
    if ours is None or experiment.late_job is not None:
        return
    if ours.usable.mean + ours.usable.half >= 1.0 or ours.usable.mean > 1.0 - USABLE_REDUCTION:
        yield f"{experiment.name}: {OURS} brings the time to a usable model to {ours.usable.mean:.3f}"
    if ours.worst > MOST_COMPLETION:
        yield f"{experiment.name}: {OURS} takes {ours.worst:.2f} of a job's time without control"
