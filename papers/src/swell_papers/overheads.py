"""What trial runs and resizes took on an installation, beside what a paper measured on its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from swell.model.resize import Resize, Verdict
from swell.model.view import JobView, Story
from swell_papers.experiment import Context, Records
from swell_papers.findings import Cell, Findings, Part, Table, chart, findings, table
from swell_papers.records import no_records, told_records

#: A trial run that took no longer was none: the script's profile was at hand from an earlier job.
KNOWN_S = 0.1


class MeasuredOverheads(NamedTuple):
    """What the records of a platform tell."""

    profiling_s: Mapping[str, Sequence[float]]  #: job's name -> of each trial run
    #: (job's name, `1->2`) -> those that took place and whose cost is known
    resizes: Mapping[tuple[str, str], Sequence[Resize]]
    source: str


@dataclass(frozen=True, kw_only=True)
class Overheads:
    """Implements `experiment.Experiment`.

    Needs no data, but the records of a platform; without them it says so.

    Args:
        profiling_s: the paper's: model -> seconds of its trial runs.
        resizes_s: the paper's: `1->2` -> seconds for each model.
    """

    name: str
    title: str
    profiling_s: Mapping[str, float]
    resizes_s: Mapping[str, Sequence[float]]
    remarks: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def run(self, context: Context) -> Findings:
        measured = MeasuredOverheads({}, {}, no_records())
        if context.records is not None:
            measured = read_records(context.records)
        parts = (self._profiling(measured), *self._resizes(measured), *self.remarks)
        return findings(self.name, self.title, (measured.source,), parts)

    def _profiling(self, measured: MeasuredOverheads) -> Table:
        rows: list[tuple[Cell, ...]] = [
            (model, time_s, None, None) for model, time_s in self.profiling_s.items()
        ]
        rows += [
            (name, None, median(times_s), len(times_s)) for name, times_s in measured.profiling_s.items()
        ]
        heading = ("model", ("paper", 1), ("Swell, median", 2), "jobs")
        return table(f"{self.name}-profiling", "trial runs, seconds", heading, rows)

    def _resizes(self, measured: MeasuredOverheads) -> Iterator[Part]:
        changes = sorted({*self.resizes_s, *(change for _, change in measured.resizes)}, key=_order)
        ours = [
            _of_ours([one for (_, of), some in measured.resizes.items() if of == change for one in some])
            for change in changes
        ]
        theirs = [self.resizes_s.get(change) for change in changes]
        yield table(
            f"{self.name}-resizes",
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
        if measured.resizes:
            yield self._by_model(measured)
        pauses_s = {
            "paper": [median(some) if some else None for some in theirs],
            "Swell": [own[1] for own in ours],
        }
        x = ("workers before -> after", changes)
        y_label = "seconds without training, median"
        yield chart(self.name, self.title, "bars", x, y_label, pauses_s, may_be_log=True)

    def _by_model(self, measured: MeasuredOverheads) -> Table:
        found = sorted(measured.resizes.items(), key=lambda item: (item[0][0], _order(item[0][1])))
        return table(
            f"{self.name}-models",
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


def read_records(records: Records) -> MeasuredOverheads:
    """What a platform has noted of the trial runs and resizes of all its jobs."""
    jobs, cluster = records.jobs(), records.cluster()
    profiling_s: defaultdict[str, list[float]] = defaultdict(list)
    for job in jobs:
        profiling_s[job.name].extend(_trial_runs_s(records.stories(job.id)))
    return MeasuredOverheads(
        {name: times_s for name, times_s in profiling_s.items() if times_s},
        _resizes_of(jobs),
        told_records(jobs, cluster),
    )


def _trial_runs_s(stories: Iterable[Story]) -> Iterator[float]:
    begun_s: float | None = None
    for story in stories:
        if story.code == "profiling":
            begun_s = story.at_s
        elif story.code == "profiled" and begun_s is not None:
            if story.at_s - begun_s > KNOWN_S:
                yield story.at_s - begun_s
            begun_s = None


#: Resizes that did not take place, or have yet to.
NEVER_DONE = (Verdict.FAILED, Verdict.OVERTAKEN, Verdict.UNDER_WAY)


def _resizes_of(jobs: Iterable[JobView]) -> dict[tuple[str, str], list[Resize]]:
    found: defaultdict[tuple[str, str], list[Resize]] = defaultdict(list)
    for job in jobs:
        for resize in job.resize_history:
            if resize.verdict not in NEVER_DONE and resize.cost_s is not None:
                found[job.name, f"{resize.before}->{resize.after}"].append(resize)
    return dict(found)
