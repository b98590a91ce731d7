"""A live run on reclaimed machines beside its simulation: tables, a picture, and what was missed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from swell.model.job import Phase
from swell_papers.fidelity_findings import TWIN_HEADING, twin_cells
from swell_papers.findings import Chart, Findings, Missed, Part, Table, chart, findings, table
from swell_papers.live_run import LiveJob
from swell_papers.program_version import program_version
from swell_papers.reclaim_record import ReclaimRun
from swell_papers.reclaim_twin import DELAY_SHARE, NOISE_SHARE, ReclaimComparison, compare
from swell_papers.simulated_rerun import measured_cost

#: The mean error of completion times is to be no more.
BAR_SHARE = 0.05
#: The kernel needs a moment to end processes; more would be a node that is kept.
KEPT_BAR_S = 1.0
CHART_EVERY_S = 5.0
#: Metrics of `demo/visits.py`.
LOST, REPEATED = "samples_lost", "samples_repeated"


def findings_of(name: str, run: ReclaimRun) -> Findings:
    found = compare(run)
    parts: tuple[Part, ...] = (
        _summary(found),
        _jobs(found),
        _intervals(run),
        _chart(found),
        *map(Missed, _missed(found)),
    )
    title = "Real jobs on machines that are killed without notice, and the same intervals simulated"
    return findings(name, title, _truth(found), parts)


def _truth(found: ReclaimComparison) -> Iterator[str]:
    run, live = found.run, found.run.ended.run
    yield f"intervals: {run.source}; {run.played_s:g} s are played"
    yield (
        f"{len(live.jobs)} real PyTorch jobs on {len(live.nodes)} nodes with a {live.devices} device each, "
        f"{live.policy}"
    )
    yield "settings: " + ", ".join(f"{name}={value:g}" for name, value in run.settings.items())
    load = f"load {live.load_before:.1f} before, {live.load_after:.1f} at the end"
    yield f"{live.num_cores} cores for all machines; {load}; {program_version()}"
    cost = measured_cost(live)
    yield (
        f"noise of {NOISE_SHARE:.1%} in speeds and up to {DELAY_SHARE:.0%} in delays of nodes alone moves "
        f"completion times by {found.chance_share:.1%}"
    )
    yield (
        f"means of the live run: a node joins {found.delays.join_s:.1f} s after the beginning of its "
        f"interval, and is given up {found.delays.notice_s:.1f} s after it was killed; a start takes "
        f"{cost.order_s:.2f} s beside the script's own, a pause {cost.pause_s:.3f} s"
    )


def _summary(found: ReclaimComparison) -> Table:
    run = found.run
    end_s = run.played_s - 1.0
    live, simulated = found.live_samples(end_s), found.simulated_samples(end_s)
    kept_s = sum(one.kept_s for one in run.reclaimed)
    jobs = run.ended.run.jobs
    rows: list[tuple[str, float | int | None]] = [
        ("nodes killed without notice", len(run.reclaimed)),
        ("node-seconds lent", sum(one.end_s - one.start_s for one in run.intervals)),
        ("samples done, live", live),
        ("samples done, simulated", simulated),
        ("live / simulated", live / simulated if simulated else None),
        ("mean error of completion times, %", _percent(found.mean_error_share)),
        ("node-seconds that processes of Swell outlived the SIGKILL", kept_s),
        ("samples lost", _counted(jobs, LOST)),
        ("samples repeated", _counted(jobs, REPEATED)),
        ("jobs failed", sum(job.view.phase is Phase.FAILED for job in jobs)),
    ]
    return table("reclaim", "in all", ("measure", ("value", 2)), rows)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share


def _counted(jobs: tuple[LiveJob, ...], metric: str) -> int:
    """Up to the last epoch that each job has ended."""
    return int(sum(job.view.metrics.get(metric, 0.0) for job in jobs))


def _jobs(found: ReclaimComparison) -> Table:
    rows = ((twin.live.view.name, str(twin.live.view.phase), *twin_cells(twin)) for twin in found.twins)
    return table("reclaim-jobs", "job by job", ("job", "live", *TWIN_HEADING), rows)


def _intervals(run: ReclaimRun) -> Table:
    heading = ("node", ("lent at s", 1), ("reclaimed at s", 1), "gone after s")
    gone_s = {(one.node, round(one.sent_s)): one.kept_s for one in run.reclaimed}
    rows = (
        (one.node, one.start_s, one.end_s, gone_s.get((one.node, round(one.end_s)))) for one in run.intervals
    )
    return table("reclaim-nodes", "nodes, as the log has them", heading, rows)


def _chart(found: ReclaimComparison) -> Chart:
    at_s = np.arange(0.0, found.run.played_s + CHART_EVERY_S / 2, CHART_EVERY_S).tolist()
    samples = {
        "live": list(map(found.live_samples, at_s)),
        "simulated": list(map(found.simulated_samples, at_s)),
    }
    return chart("reclaim", "samples done by all jobs", "steps", ("seconds", at_s), "samples", samples)


def _missed(found: ReclaimComparison) -> Iterator[str]:
    jobs = found.run.ended.run.jobs
    for metric in (LOST, REPEATED):
        if num := _counted(jobs, metric):
            yield f"{metric}: {num}, and not 0"
    if failed := [job.view.name for job in jobs if job.view.phase is Phase.FAILED]:
        yield f"failed: {', '.join(failed)}"
    longest_s = max((one.kept_s for one in found.run.reclaimed), default=0.0)
    if longest_s > KEPT_BAR_S:
        yield f"a machine was there {longest_s:.1f} s after it was killed"
    error = found.mean_error_share
    if error is None:
        yield "no job ended in both"
    elif error > BAR_SHARE:
        yield f"mean error of completion times {error:.1%}, more than {BAR_SHARE:.0%}"
