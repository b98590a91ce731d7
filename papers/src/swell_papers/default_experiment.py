"""One part of the page of bars of the policy `unified`: the inputs of a paper's evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from swell_papers.experiment import Context
from swell_papers.findings import Findings, Part, findings
from swell_papers.program_version import program_version

Parts = Callable[[Context], Iterable[Part]]


@dataclass(frozen=True, kw_only=True)
class DefaultExperiment:
    """Implements `experiment.Experiment`.

    Args:
        truth: the conditions.
        num_seeds: of which means are taken, unless the context says fewer; 0: nothing is drawn.
    """

    name: str
    title: str
    truth: str
    parts: Parts
    num_seeds: int = 0
    needs: tuple[str, ...] = ()

    def run(self, context: Context) -> Findings:
        """Simulate; see `experiment.Experiment`."""
        seeds = context.seeds(self.num_seeds)
        drawn = f"seeds {seeds[0]} to {seeds[-1]}" if seeds else "nothing is drawn"
        truth = f"{self.truth}; {drawn}; {program_version()}"
        return findings(self.name, self.title, (truth,), self.parts(context))
