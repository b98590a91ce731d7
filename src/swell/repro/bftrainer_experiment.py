"""One figure or table of BFTrainer's evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from swell import __version__
from swell.repro.bftrainer_inputs import ALL_INPUTS
from swell.repro.bftrainer_runs import NUM_NODES
from swell.repro.bftrainer_words import CONDITIONS
from swell.repro.experiment import Context
from swell.repro.findings import Chart, Findings, Panel, Series, Table


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a figure or table is made of."""

    tables: tuple[Table, ...]
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    truth: tuple[str, ...] = ()  #: more conditions


@dataclass(frozen=True, kw_only=True)
class FromReplays:
    """Implements `experiment.Experiment`."""

    name: str
    title: str
    parts: Callable[[Context], Parts]
    num_nodes: int | None = NUM_NODES  #: that were drawn of the machine's; None: see its own conditions
    needs: tuple[str, ...] = ALL_INPUTS

    def run(self, context: Context) -> Findings:
        parts = self.parts(context)
        drawn = (
            () if self.num_nodes is None else (f"{self.num_nodes:,} nodes, drawn with seed {context.seed}",)
        )
        return Findings(
            name=self.name,
            title=self.title,
            truth=(*CONDITIONS, *drawn, *parts.truth, f"swell {__version__}"),
            tables=parts.tables,
            charts=parts.charts,
            notes=parts.notes,
            missed=parts.missed,
        )


def lines(
    name: str, title: str, x_label: str, y_label: str, x: Sequence[float | str], *series: Series
) -> Chart:
    """One panel of lines."""
    return Chart(
        name=name,
        title=title,
        kind="lines",
        x=tuple(one if isinstance(one, str) else f"{one:g}" for one in x),
        x_label=x_label,
        y_label=y_label,
        panels=(Panel("", tuple(series)),),
    )
