"""The page and the table of docs/results, from what was measured."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.solvers.measured import Row
from benchmarks.solvers.trainers import BIG_M, MOST_PAIRS_OF_HIGHS, NUM_TURNS

_HEADS = (
    *("problem", "size", "ours", "instances", "median", "p99"),
    *("other solver", "instances", "median", "max", "times ours", "answers"),
)
_PAGE = """# What the allocators' solvers cost

<!-- Written by `make bench-solvers`; change the program, not this page. -->

The methods of Saxena et al., Hu et al. and BFTrainer divide devices by an optimisation. Swell solves it
exactly, or with a bound on what is missing. These are milliseconds of CPU time, and those of plain dynamic
programming and of HiGHS (`scipy.optimize.milp`) on the papers' models. A *kernel* is the solver alone, from
arrays to counts; Hu's asks HiGHS, too, about whole plans of jobs. A *turn* is all that the scheduler does
about one event.

The largest size of each problem for each pair of solvers; all sizes: [solvers.csv](solvers.csv).

{table}

* Instances are drawn with the seeds 0, 1 and so on. Ours solves {num_instances} of each size, and the other
  solver the first {num_rival}. A turn is measured {num_turns} times.
* HiGHS has {limit_s:g} s of the clock for an instance: less CPU time where the machine has other work. A time
  after ">" is a lower bound, because HiGHS was ended at this limit. Its time includes writing the model.
* The last column says by how much of our value the other solver's answers are worse. "No answer" means that
  it had found none at the limit.
* BFTrainer's model has a binary for each pair of trainer and node. HiGHS is given M = {big_m:g} N, because
  the printed M > N cuts off the optimum, and no more than {most_pairs:,} pairs.
* Knapsacks are solved without a limit. Hu's plans have limits of work (plans, nodes of HiGHS's tree) and
  never of seconds, so a journal replays to the same decisions. At a limit the best answer so far is used, and
  the reason of each job says how much may be missing.
* Conditions: {conditions}.
"""


def page_of(rows: Sequence[Row], num_instances: int, num_rival: int, limit_s: float, conditions: str) -> str:
    largest = {(row.problem, row.ours, row.rival.name): row.cells() for row in rows}
    lines = [_HEADS, ["---"] * len(_HEADS), *largest.values()]
    return _PAGE.format(
        table="\n".join(f"| {' | '.join(line)} |" for line in lines),
        num_instances=num_instances,
        num_rival=num_rival,
        num_turns=NUM_TURNS,
        limit_s=limit_s,
        big_m=BIG_M,
        most_pairs=MOST_PAIRS_OF_HIGHS,
        conditions=conditions,
    )


def write_csv(rows: Sequence[Row], file: Path) -> None:
    """Write the rows of all sizes. Raises OSError."""
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([_HEADS, *(row.cells() for row in rows)])
