"""What an evaluation found, as a terminal shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swell.cli.output import print_table, warn

if TYPE_CHECKING:
    from swell_papers.findings import Findings


def show_findings(findings: Findings) -> None:
    """Print title, conditions, tables and notes; missed targets go to stderr."""
    from swell_papers.tables import cells

    print(findings.title)
    for line in findings.truth:
        print(f"  {line}")
    for table in findings.tables:
        print(f"\n{table.title}")
        print_table([column.name.upper() for column in table.columns], cells(table), wrapping=None)
    for text in findings.notes:
        print(f"\n{text}")
    for what, why in findings.reasons:
        print(f"\nWhy {what} differs: {why}")
    print()
    for text in findings.missed:
        warn(f"{findings.name} misses a target: {text}")
