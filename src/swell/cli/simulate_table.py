"""What `swell simulate` prints: the truth, and a row for each policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swell.cli.output import print_table

if TYPE_CHECKING:
    from swell.sim.report import PolicyResult


def print_results(results: list[PolicyResult], timing: bool) -> None:
    """The truth, the figures, and with `timing` what deciding cost."""
    from swell.sim.result_tables import bound_in_words, conditions, result_tables, timing_table

    title, *filled = conditions(results)
    print(title)
    for line in filled:
        print(f"  {line}")
    for table in result_tables(results):
        print()
        print_table(table.headings, table.rows, wrapping=None)
    if (bound := bound_in_words(results[0].truth)) is not None:
        print(f"\n{bound}")
    if timing:
        print()
        print_table(*timing_table(results), wrapping=None)
