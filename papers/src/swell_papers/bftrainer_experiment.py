"""One figure or table of BFTrainer's evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from swell_papers.bftrainer_inputs import ALL_INPUTS
from swell_papers.bftrainer_runs import NUM_NODES
from swell_papers.experiment import Context
from swell_papers.findings import Chart, Findings, Part, Values, chart, findings
from swell_papers.program_version import program_version

CONDITIONS = (
    "eight days of Summit's idle nodes; trainers from 72,743 s of the log on, one each 36 s; equation 16 as "
    "printed, solved exactly; the nodes that came last are given back first"
)
Parts = Callable[[Context], Iterable[Part]]
#: What most of them are of; `seed` is that of the context.
DRAWN_NODES = f"{NUM_NODES:,} nodes, drawn with seed {{seed}}"


@dataclass(frozen=True, kw_only=True)
class FromReplays:
    """Implements `experiment.Experiment`.

    Args:
        of: a condition; empty: `CONDITIONS` say all.
    """

    name: str
    title: str
    parts: Parts
    of: str = DRAWN_NODES
    needs: tuple[str, ...] = ALL_INPUTS

    def run(self, context: Context) -> Findings:
        of = (self.of.format(seed=context.seed),) if self.of else ()
        truth = (CONDITIONS, *of, program_version())
        return findings(self.name, self.title, truth, self.parts(context))


def figure(name: str, title: str, of: str = DRAWN_NODES) -> Callable[[Parts], FromReplays]:
    """Make an experiment of the function that tells its parts."""
    return lambda parts: FromReplays(name=name, title=title, parts=parts, of=of)


def lines(
    name: str, title: str, x: tuple[str, Iterable[float | str]], y_label: str, shown: dict[str, Values]
) -> Chart:
    """One panel of lines."""
    places = (one if isinstance(one, str) else f"{one:g}" for one in x[1])
    return chart(name, title, "lines", (x[0], places), y_label, shown)
