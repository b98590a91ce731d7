"""What a comparison of live runs with simulated ones prints: tables, a picture, and what was missed."""

from __future__ import annotations

from collections.abc import Sequence

from swell.model.job import Phase
from swell.model.view import JobView
from swell.repro.fidelity import BAR_SHARE, NOISE_SHARE, Comparison, compare
from swell.repro.findings import Cell, Chart, Column, Findings, Panel, Series, Table
from swell.repro.live_run import LiveRun
from swell.repro.simulated_rerun import measured_cost, measured_timings


def findings_of(runs: Sequence[LiveRun]) -> Findings:
    """All that is to be told of one run a policy."""
    comparisons = [compare(run) for run in runs]
    return Findings(
        name="fidelity",
        title="Live and simulated: completion times and admissions of the same jobs",
        truth=_truth(runs),
        tables=(_summary(comparisons), _jobs(comparisons)),
        charts=(_chart(comparisons),),
        notes=tuple(_notes(comparisons)),
        missed=tuple(_missed(comparisons)),
    )


def _truth(runs: Sequence[LiveRun]) -> tuple[str, ...]:
    return (
        f"{len(runs[0].jobs)} real PyTorch jobs on {runs[0].devices}, {runs[0].num_cores} cores",
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
    def row(found: Comparison) -> tuple[Cell, ...]:
        errors = found.errors
        return (
            found.run.policy,
            len(found.pairs),
            len(found.admitted_live),
            len(found.admitted_simulated),
            "yes" if found.is_same_set else "no",
            100.0 * float(errors.mean()) if errors.size else None,
            100.0 * float(errors.max()) if errors.size else None,
            100.0 * found.chance_share,
        )

    return Table(
        name="fidelity",
        title="error of completion times, % of the live one; by chance: what noise of "
        f"{NOISE_SHARE:.0%} in all speeds moves them in simulation alone",
        columns=(
            Column("policy"),
            Column("jobs"),
            Column("admitted live"),
            Column("simulated"),
            Column("same set"),
            Column("mean error", 1),
            Column("max error", 1),
            Column("by chance", 1),
        ),
        rows=tuple(map(row, comparisons)),
    )


def _jobs(comparisons: Sequence[Comparison]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            found.run.policy,
            pair.live.view.name,
            _fate(pair.live.view),
            _fate(pair.simulated),
            pair.live_s,
            pair.simulated_s,
            None if pair.error_share is None else 100.0 * pair.error_share,
            sizes(pair.live.view),
            sizes(pair.simulated),
        )
        for found in comparisons
        for pair in found.pairs
    ]
    columns = (
        Column("policy"),
        Column("job"),
        Column("live"),
        Column("simulated"),
        Column("live s", 1),
        Column("sim. s", 1),
        Column("error %", 1),
        Column("sizes"),
        Column("sim. sizes"),
    )
    return Table(name="fidelity-jobs", title="job by job", columns=columns, rows=tuple(rows))


def _chart(comparisons: Sequence[Comparison]) -> Chart:
    return Chart(
        name="fidelity",
        title="completion times, live and simulated",
        kind="bars",
        x=tuple(job.view.name for job in comparisons[0].run.jobs),
        x_label="job",
        y_label="s from submission to end",
        panels=tuple(
            Panel(
                found.run.policy,
                (
                    Series("live", tuple(pair.live_s for pair in found.pairs)),
                    Series("simulated", tuple(pair.simulated_s for pair in found.pairs)),
                ),
            )
            for found in comparisons
        ),
    )


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
