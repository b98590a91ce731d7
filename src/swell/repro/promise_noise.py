"""Deadlines met and promises broken as rates differ from what is believed."""

from __future__ import annotations

from swell.repro.findings import Chart, Column, Findings, Panel, Series, Table
from swell.repro.promise_cells import Cell
from swell.repro.promise_findings import truth
from swell.repro.promise_inputs import PromiseInput
from swell.repro.promises import OURS, SHARES, Compared


def noise_findings_of(compared: Compared, seed: int) -> Findings:
    """Ours as rates differ from what is believed."""
    rows = tuple(
        (
            cell.input,
            cell.noise_share,
            cell.profile_error_share,
            outcome.met,
            outcome.admitted,
            outcome.admitted_late,
        )
        for cell, outcome in compared.outcomes.items()
    )
    return Findings(
        name="noise",
        title="Where beliefs are not the truth",
        truth=(
            truth(seed).replace("noise 0, no node fails, profiles are the truth", "no node fails"),
            *(f"{on.name}: {on.title}" for on in compared.inputs),
        ),
        tables=(
            Table(
                name="noise",
                title=f"deadlines met by `{OURS}` and promises broken (late), where true rates differ from "
                "those of the profile (noise), and where trial runs measure rates that are not true (error)",
                columns=(
                    Column("input"),
                    Column("noise", 2),
                    Column("error", 2),
                    *map(Column, ("met", "admitted", "late")),
                ),
                rows=tuple(sorted(rows, key=lambda row: row[:3])),
            ),
        ),
        charts=(_noise_chart(compared),),
        notes=(),
    )


def _noise_chart(compared: Compared) -> Chart:
    def share(on: PromiseInput, noise: float, error: float, *, is_late: bool) -> float | None:
        cell = Cell(input=on.name, policy=OURS, noise_share=noise, profile_error_share=error)
        outcome = compared.outcomes.get(cell)
        if outcome is None or not is_late:
            return None if outcome is None else outcome.met
        return outcome.admitted_late / max(outcome.admitted, 1)

    def panel(on: PromiseInput) -> Panel:
        kinds = (("noise", 1.0, 0.0), ("profile error", 0.0, 1.0))
        return Panel(
            on.name,
            tuple(
                Series(
                    f"{'broken, of those made' if is_late else 'met'}: {label}",
                    tuple(share(on, one * noise, one * error, is_late=is_late) for one in SHARES),
                )
                for label, noise, error in kinds
                for is_late in (False, True)
            ),
        )

    return Chart(
        name="noise",
        title="Deadlines met and promises broken as rates differ from what is believed",
        kind="lines",
        x=SHARES,
        x_label="standard deviation of log(rate)",
        y_label="share of jobs",
        panels=tuple(map(panel, compared.inputs)),
    )
