"""Tables as text for people, CSV for programs, Markdown for pages."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from swell_papers.findings import Cell, Table


def cells(table: Table) -> list[tuple[str, ...]]:
    """Rows as people read them; `-` where there is nothing."""
    return [
        tuple(_spoken(cell, column.digits) for cell, column in zip(row, table.columns, strict=True))
        for row in table.rows
    ]


def _spoken(cell: Cell, digits: int) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.{digits}f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def write_csv(table: Table, truth: Sequence[str], folder: Path) -> Path:
    """`NAME.csv`, its truth in a last column; numbers with all their digits. Raises OSError."""
    file = folder / f"{table.name}.csv"
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow([*(column.name for column in table.columns), "truth"])
        told = " | ".join(truth)
        writer.writerows([*("" if cell is None else cell for cell in row), told] for row in table.rows)
    return file


def markdown(table: Table) -> str:
    """A Markdown table, without the title."""
    lines = [
        "| " + " | ".join(column.name for column in table.columns) + " |",
        "|" + "---|" * len(table.columns),
        *("| " + " | ".join(row) + " |" for row in cells(table)),
    ]
    return "\n".join(lines)
