"""What a comparison of live runs with simulated ones prints: tables, a picture, and what was missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swell.model.errors import InvalidInput
from swell.model.job import Phase
from swell.model.view import JobView
from swell_papers.experiment import Context, Paper, keep_record, read_record
from swell_papers.fidelity import BAR_SHARE, DEVICES, NOISE_SHARE, Comparison, compare, workload_of
from swell_papers.findings import Cell, Chart, Findings, Missed, Part, Table, chart, findings, panel, table
from swell_papers.job_twin import JobTwin
from swell_papers.live_run import LiveRun, run
from swell_papers.program_version import program_version
from swell_papers.simulated_rerun import measured_cost, measured_timings

#: That are compared unless others are named.
POLICIES = ("elasticflow", "srtf", "fifo")


def findings_of(runs: Sequence[LiveRun]) -> Findings:
    """All that is to be told of one run a policy."""
    comparisons = [compare(run) for run in runs]
    parts: tuple[Part, ...] = (
        *(_summary(comparisons), _jobs(comparisons), _chart(comparisons)),
        *(*_notes(comparisons), *map(Missed, _missed(comparisons))),
    )
    title = "Live and simulated: completion times and admissions of the same jobs"
    return findings("fidelity", title, _truth(runs), parts)


def _truth(runs: Sequence[LiveRun]) -> tuple[str, ...]:
    return (
        f"{len(runs[0].jobs)} real PyTorch jobs on {runs[0].devices}, {runs[0].num_cores} cores; "
        f"{program_version()}",
        "simulated speed: each job's own trial run, nothing of its later training",
        *map(_measured, runs),
    )


def _measured(run: LiveRun) -> str:
    cost, timings = measured_cost(run), measured_timings(run)
    return (
        f"{run.policy}: load {run.load_before:.1f} before and {run.load_after:.1f} at the end; a start takes "
        f"{cost.order_s:.2f} s beside the script's own and {cost.crowding_share:.0%} more of that for each "
        f"further worker, a pause {cost.pause_s:.3f} s, an exit {timings.exit_s:.2f} s and "
        f"{timings.exit_more_s:.2f} s more for each further process, a checkpoint {timings.save_s:.2f} s"
    )


def _summary(comparisons: Sequence[Comparison]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for found in comparisons:
        errors = 100.0 * found.errors
        admitted = (len(found.admitted_live), len(found.admitted_simulated))
        told = (float(errors.mean()), float(errors.max())) if errors.size else (None, None)
        counts = (len(found.pairs), *admitted, "yes" if found.is_same_set else "no")
        rows.append((found.run.policy, *counts, *told, 100.0 * found.chance_share))
    return table(
        "fidelity",
        "error of completion times, % of the live one; by chance: what noise of "
        f"{NOISE_SHARE:.0%} in all speeds moves them in simulation alone",
        (
            *("policy", "jobs", "admitted live", "simulated", "same set"),
            *(("mean error", 1), ("max error", 1), ("by chance", 1)),
        ),
        rows,
    )


#: Columns of a table of twins, and what stands in them.
TWIN_HEADING = (("live s", 1), ("sim. s", 1), ("error %", 1), "sizes", "sim. sizes")


def twin_cells(twin: JobTwin) -> tuple[Cell, ...]:
    error = None if twin.error_share is None else 100.0 * twin.error_share
    return (twin.live_s, twin.simulated_s, error, sizes(twin.live.view), sizes(twin.simulated))


def _jobs(comparisons: Sequence[Comparison]) -> Table:
    rows = (
        (
            *(found.run.policy, pair.live.view.name, _fate(pair.live.view), _fate(pair.simulated)),
            *twin_cells(pair),
            *(pair.live.view.batch or None, pair.simulated.batch or None),
        )
        for found in comparisons
        for pair in found.pairs
    )
    heading = ("policy", "job", "live", "simulated", *TWIN_HEADING, "last batch", "sim. last batch")
    return table("fidelity-jobs", "job by job", heading, rows)


def _chart(comparisons: Sequence[Comparison]) -> Chart:
    x = ("job", (job.view.name for job in comparisons[0].run.jobs))
    panels = (
        panel(
            found.run.policy,
            {
                "live": [pair.live_s for pair in found.pairs],
                "simulated": [pair.simulated_s for pair in found.pairs],
            },
        )
        for found in comparisons
    )
    title = "completion times, live and simulated"
    return chart("fidelity", title, "bars", x, "s from submission to end", panels)


def _notes(comparisons: Sequence[Comparison]) -> list[str]:
    notes = []
    for found in comparisons:
        other = [
            pair.live.view.name for pair in found.pairs if sizes(pair.live.view) != sizes(pair.simulated)
        ]
        if other:
            notes.append(
                f"{found.run.policy}: {', '.join(other)} went through other sizes than in the simulation"
            )
    return notes


def _missed(comparisons: Sequence[Comparison]) -> list[str]:
    missed = []
    for found in comparisons:
        name, errors = found.run.policy, found.errors
        if not found.is_same_set:
            odd = sorted(found.admitted_live ^ found.admitted_simulated)
            missed.append(f"{name}: {', '.join(odd)} admitted in one of the two only")
        failed = [pair.live.view.name for pair in found.pairs if pair.live.view.phase is Phase.FAILED]
        if failed or not errors.size:
            missed.append(
                f"{name}: {', '.join(failed) or 'no job'} failed" if failed else f"{name}: no job ended"
            )
        elif errors.mean() > BAR_SHARE:
            missed.append(f"{name}: mean error {errors.mean():.1%}, more than {BAR_SHARE:.0%}")
    return missed


def sizes(view: JobView) -> str:
    """Worker counts that the job went through: `2-4-0-8`."""
    return "-".join(str(workers) for _, workers in view.sizes)


def _fate(view: JobView) -> str:
    if view.phase is Phase.REJECTED:
        return "refused"
    if view.phase is not Phase.SUCCEEDED:
        return str(view.phase)
    return {True: "kept", False: "missed", None: "done"}[view.kept]


@dataclass(frozen=True, slots=True)
class FidelityExperiment:
    """See `experiment.Experiment`."""

    name: str = "fidelity"
    needs: tuple[str, ...] = ()

    def run(self, context: Context) -> Findings:
        """Play under each policy, or read what was played before, and compare. Raises InvalidInput."""
        return findings_of([_played(context, policy) for policy in sorted(context.policies or POLICIES)])


def _played(context: Context, policy: str) -> LiveRun:
    """Live, on a platform of its own, of which the record is kept; or of an earlier run."""
    record = f"live-{policy}"
    if context.played is not None:
        return read_record(context.played, record, LiveRun)
    if context.platforms is None:
        raise InvalidInput("no platform can be started, and no folder of what was played is given")
    workload = workload_of(policy)
    options = ["--devices", DEVICES, "--policy", policy, "--preload", "sklearn.datasets"]
    with (
        context.platforms() as up,
        up(options) as client,
        context.watch(f"{policy}, live", len(workload)) as advance,
    ):
        found = run(client, workload, DEVICES, advance)
    if context.runs is not None:
        keep_record(found, context.runs, record)
    return found


PAPER = Paper(
    name="fidelity",
    title="Live runs and their simulation",
    inputs="",
    introduction="",
    experiments=(FidelityExperiment(),),
)
