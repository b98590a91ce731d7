"""Which policy meets how many deadlines, on published logs and on made-up ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from swell.model.errors import InvalidInput
from swell.model.job import AfterRefusal
from swell_papers.experiment import Watch, unwatched
from swell_papers.promise_cells import Cell, CellOutcome, Cells
from swell_papers.promise_inputs import INPUTS, PromiseInput

OURS = "elasticflow"
#: Policies that promise deadlines by a simpler rule.
GATES = ("edf_admission", "edf_admission_largest", "chronus")
#: Policies that refuse jobs; those that they refuse are also tried without a promise.
REFUSING = (OURS, *GATES)
#: Every rule that promises nothing, once: not the variants that its paper compares it with.
RIVALS = (
    *("fifo", "equal_share", "edf", "edf_elastic", "srtf", "tiresias", "gandiva", "themis"),
    *("pollux", "hu", "bftrainer", "saxena"),
)
#: Policies that promise by the rule of `OURS`, or by that which its paper prints, and are no rivals of it.
KIN = ("unified", "elasticflow_paper")
#: A run that takes so many times the CPU time of ours, and so many seconds at least, is cut off.
MOST_TIMES, LEAST_LIMIT_S = 3.0, 20.0
#: Those that are compared where none are named.
COMPARED = (OURS, *KIN, *GATES, *RIVALS)
#: What ours may take; how long that is is not known before.
OURS_LIMIT_S = 3_600.0


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What is known: by the names of input and cell, of those that were run now or before."""

    inputs: tuple[PromiseInput, ...]
    outcomes: Mapping[Cell, CellOutcome]
    num_missing: int = 0  #: cells that were not run for want of time

    def of(self, on: PromiseInput) -> dict[Cell, CellOutcome]:
        """Return the outcomes of one input, by cell."""
        return {cell: outcome for cell, outcome in self.outcomes.items() if cell.input == on.name}


@dataclass(kw_only=True)
class CellRuns:
    """Runs what is asked for, the most telling cells first.

    Args:
        until_s: after this time, on the clock, no further run is begun.
        clock: seconds.
    """

    cells: Cells
    until_s: float = float("inf")
    clock: Callable[[], float] = time.monotonic
    watch: Watch = unwatched

    def compare(self, inputs: Sequence[PromiseInput], policies: Sequence[str]) -> Compared:
        """Raises InvalidInput, OSError."""
        cells = [cell for on in inputs for cell in cells_of(on, policies)]
        by_name, outcomes, num_missing = {on.name: on for on in inputs}, dict[Cell, CellOutcome](), 0
        for cell in sorted(cells, key=_rank):
            on = by_name[cell.input]
            ours = outcomes.get(Cell(input=cell.input, policy=OURS))
            limit_s = OURS_LIMIT_S if cell.policy == OURS else _limit_s(ours)
            outcome = self.cells.known(cell, on, limit_s)
            if outcome is None and self.clock() < self.until_s:
                with self.watch(f"{cell.input} {cell.label}", 1):
                    outcome = self.cells.run(cell, on, limit_s)
            if outcome is None:
                num_missing += 1
            else:
                outcomes[cell] = outcome
        return Compared(inputs=tuple(inputs), outcomes=outcomes, num_missing=num_missing)


def _limit_s(ours: CellOutcome | None) -> float:
    return LEAST_LIMIT_S if ours is None else max(LEAST_LIMIT_S, MOST_TIMES * ours.cpu_s)


def _rank(cell: Cell) -> int:
    """Ours before the gates before the rest: limits of time count from ours."""
    if cell.policy == OURS:
        return 0
    return 1 if cell.policy in REFUSING else 2


def cells_of(on: PromiseInput, policies: Sequence[str]) -> Iterator[Cell]:
    """Ours is always among them, for others are compared with it."""
    for policy in dict.fromkeys((OURS, *policies)):
        yield Cell(input=on.name, policy=policy)
        if policy in REFUSING:
            yield Cell(input=on.name, policy=policy, refused=AfterRefusal.SOFT)


def chosen_inputs(names: Sequence[str]) -> tuple[PromiseInput, ...]:
    """Those of these names, or whose name begins so; all for none. Raises InvalidInput for an unknown one."""
    for name in names:
        if not any(on.name.startswith(name) for on in INPUTS):
            known = ", ".join(on.name for on in INPUTS)
            raise InvalidInput(f"--only names {name!r}, and no input begins so; there are {known}")
    return tuple(on for on in INPUTS if not names or on.name.startswith(tuple(names)))
