"""A simulated log as one HTML file that can be sent around, and its data: `swell simulate --html`."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from swell.model.coding import encode
from swell.model.job import Phase
from swell.model.quantities import span
from swell.model.quota import told_quotas
from swell.sim.metrics import GroupMetrics
from swell.sim.outcome import JobOutcome, SimOutcome, Usage
from swell.sim.report import (
    INVENTED,
    PolicyResult,
    ResultTable,
    Truth,
    conditions,
    machines,
    result_tables,
)
from swell.sim.traces.entry import Workload
from swell.web.templating import self_contained, uplot_version

#: (from, to, devices) of one job, in time's order.
Held = list[tuple[float, float, int]]
#: Points of a curve, each a mean: as many as a page is wide.
NUM_MEANS = 1_000
#: Jobs beyond so many, the last ones submitted, are in no table of jobs and not in the timeline.
MAX_LISTED_JOBS = 10_000


def report_text(log: SimulatedLog, command: str) -> str:
    """Args: command: that made it, as a shell takes it."""
    data = report_data(log)
    results = log.results
    told = conditions(results)
    invented = [line for line in told if line.startswith(INVENTED)]
    tables = [_broken_first(table) for table in result_tables(results)]
    return self_contained(
        "simulation.html",
        "static/simulation.js",
        ("static/base.css", "static/curves.css", "static/report.css"),
        data,
        title=f"{Path(results[0].truth.trace).name} on {machines(results[0])}",
        conditions=[line for line in told if line not in invented],
        invented=invented,
        tables=tables,
        figures={figure.heading: figure for table in tables for figure in table.figures}.values(),
        sizes=data["sizes"],
        policies=list(log.runs),
        num_jobs=len(log.workload.jobs),
        num_listed=log.num_listed,
        command=command,
        inputs=list(_inputs(results[0].truth)),
    )


def _broken_first(table: ResultTable) -> ResultTable:
    """Return the table with broken promises, by which a policy is to be believed, before other figures."""
    return table._replace(figures=sorted(table.figures, key=lambda figure: figure.field != "admitted_late"))


def _inputs(truth: Truth) -> Iterator[tuple[str, object]]:
    yield "trace", truth.trace
    yield "jobs simulated, left out", f"{truth.jobs:,}, {truth.left_out:,}"
    for line in truth.filled:
        yield "filled", line
    yield "profiles", truth.profiles
    yield "seed", truth.seed
    told = msgspec.to_builtins(truth)
    for name in ("resize_cost", "noise", "profile_error", "refused", "pool", "cores"):
        if told[name] is not None:
            yield name.replace("_", " "), told[name]
    if truth.quotas:
        yield "quotas", told_quotas(truth.quotas)
    if truth.node_mtbf_s is not None:
        yield "mean time between failures of a node", span(truth.node_mtbf_s)
    settings = ", ".join(
        f"{name}={value if isinstance(value, str) else format(value, 'g')}"
        for name, value in sorted(truth.settings.items())
    )
    yield "settings", settings or "as they are"
    yield "versions", f"swell {truth.version}, Python {platform.python_version()}, uPlot {uplot_version()}"


def held(job: JobOutcome, run_end_s: float) -> Held:
    """Pieces of time in which it has workers."""
    ends_s = [*(at_s for at_s, _ in job.sizes[1:]), run_end_s if job.end_s is None else job.end_s]
    return [
        (at_s, end_s, size)
        for (at_s, size), end_s in zip(job.sizes, ends_s, strict=True)
        if size and end_s > at_s
    ]


def capacity(usage: Usage) -> list[tuple[float, int]]:
    """(since, devices there): nodes that fail and nodes that are lent come and go."""
    changes = np.flatnonzero(np.diff(usage.devices, prepend=-1.0))
    return [(float(usage.at_s[at]), int(usage.devices[at])) for at in changes]


def mean_devices(usage: Usage, until_s: float, end_s: float, number: int = NUM_MEANS) -> list[float | None]:
    """Devices in use, a mean for each of so many equal parts of the time to `until_s`.

    None after the part that follows `end_s`, in which none is in use.
    """
    if not len(usage.at_s) or until_s <= 0.0:
        return [None] * number
    times_s = np.append(usage.at_s, max(until_s, usage.at_s[-1]))
    sums = np.concatenate([[0.0], np.cumsum(usage.used_devices * np.diff(times_s))])
    edges_s = np.linspace(0.0, until_s, number + 1)
    means = np.diff(np.interp(edges_s, times_s, sums)) / np.diff(edges_s)
    befores_s = [0.0, *edges_s[:-2]]
    return [
        round(float(mean), 3) if before_s < end_s else None
        for mean, before_s in zip(means, befores_s, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class SimulatedLog:
    """All that a report tells of."""

    workload: Workload
    results: Sequence[PolicyResult]
    runs: Mapping[str, SimOutcome]

    @property
    def until_s(self) -> float:
        """When the longest run ended."""
        return max(map(last_end_s, self.runs.values()))

    @property
    def num_listed(self) -> int:
        return min(len(self.workload.jobs), MAX_LISTED_JOBS)


def last_end_s(outcome: SimOutcome) -> float:
    """When the last job ended, in seconds, or when the run did if a job is left open.

    Timers of the head may run on after the last job.
    """
    if any(job.end_s is None for job in outcome.jobs):
        return outcome.end_s
    return max(job.end_s or 0.0 for job in outcome.jobs)


def report_data(log: SimulatedLog) -> dict[str, Any]:
    """What is written into the file as JSON."""
    longest = max(log.runs.values(), key=last_end_s)
    capacity_s = [(_seconds(at_s), number) for at_s, number in capacity(longest.usage)]
    return {
        "results": [msgspec.json.decode(encode(result)) for result in log.results],
        "until_s": _seconds(log.until_s),
        "capacity": capacity_s,
        "jobs": _common(log),
        "runs": [_run(policy, outcome, log) for policy, outcome in log.runs.items()],
        "sizes": _sizes(log),
    }


def _common(log: SimulatedLog) -> dict[str, list[object]]:
    """What is the same under each policy, a list for each field."""
    jobs = list(islice(log.workload.jobs, log.num_listed))
    first = next(iter(log.runs.values()))
    return {
        "id": [job.id for job in jobs],
        "model": [job.model for job in jobs],
        "tenant": [job.tenant or "" for job in jobs],
        "cls": [str(job.job_class) for job in jobs],
        "asked": [job.num_devices for job in jobs],
        "run_s": [_seconds(job.duration_s) for job in jobs],
        "submitted_s": [_seconds(job.submit_s) for job in islice(first.jobs, log.num_listed)],
    }


def _run(policy: str, outcome: SimOutcome, log: SimulatedLog) -> dict[str, Any]:
    end_s = last_end_s(outcome)
    listed = list(islice(outcome.jobs, log.num_listed))
    return {
        "policy": policy,
        "end_s": _seconds(end_s),
        "segments": [_flat(held(job, end_s)) for job in listed],
        "used": mean_devices(outcome.usage, log.until_s, end_s),
        "state": [_state(job) for job in listed],
        "is_refused": [job.phase is Phase.REJECTED or job.is_unpromised for job in listed],
        "deadline_s": [_seconds(job.deadline_s) for job in listed],
        "start_s": [_seconds(job.start_s) for job in listed],
        "finished_s": [_seconds(job.end_s) for job in listed],
        "offer_s": [_seconds(job.counter_offer_s) for job in listed],
        "resizes": [job.num_resizes for job in listed],
        "device_s": [_seconds(job.device_s) for job in listed],
        **_interned("why", [job.why for job in listed]),
    }


def _state(job: JobOutcome) -> str:
    """One word for what a reader looks for."""
    if job.phase is Phase.SUCCEEDED and job.is_kept is not None:
        return "kept" if job.is_kept else "late"
    words = {Phase.SUCCEEDED: "done", Phase.REJECTED: "refused", Phase.QUEUED: "waiting"}
    return words.get(job.phase, str(job.phase))


def _interned(name: str, texts: Sequence[str]) -> dict[str, list[Any]]:
    """Few texts stand for many jobs."""
    numbers: dict[str, int] = {}
    places = [numbers.setdefault(text, len(numbers)) for text in texts]
    return {name: places, f"{name}_texts": list(numbers)}


def _flat(pieces: Held) -> list[float]:
    return [number for from_s, to_s, size in pieces for number in (_round(from_s), _round(to_s), size)]


def _seconds(value: float | None) -> float | None:
    return None if value is None else _round(value)


def _round(value: float) -> float:
    """Round seconds to a millisecond, and after a day to a tenth of a second."""
    rounded = round(float(value), 3 if value < 86400.0 else 1)
    return int(rounded) if rounded.is_integer() else rounded


def _sizes(log: SimulatedLog) -> dict[str, Any]:
    """The table's figures: jobs with deadlines by the devices asked for."""
    groups = {result.policy: result.metrics.by_size for result in log.results}
    first = next(iter(groups.values()))
    return {
        "names": [group.name for group in first if group.deadlines],
        "deadlines": [group.deadlines for group in first if group.deadlines],
        "kept": {
            policy: [_kept(group) for group in found if group.deadlines] for policy, found in groups.items()
        },
    }


def _kept(group: GroupMetrics) -> int:
    return round(group.deadlines * (group.deadline_satisfaction or 0.0))
