"""What an experiment found: tables, charts and sentences, of which text, CSV, pictures and pages are made."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

Cell = str | int | float | None


class TableColumn(msgspec.Struct, frozen=True):
    name: str  #: heading, and column of the CSV
    digits: int = 3  #: of floats, where people read them; the CSV has them all


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is the file's: `8a` or `8a-classes`."""

    name: str
    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Panels with the same axes. The picture's file has its `name`.

    The x of bars and lines are places. Those of steps are numbers that rise: a value holds until the next.
    """

    name: str
    title: str
    kind: Literal["bars", "lines", "steps"]
    x: tuple[str | float, ...]
    x_label: str
    y_label: str
    panels: dict[str, dict[str, tuple[float | None, ...]]]  #: title -> what a line or bars are of -> values


#: Names of columns, with their digits where these are not the usual ones.
Heading = Iterable[str | tuple[str, int]]
Values = Sequence[float | None]
#: Each is one line, or the bars of one colour.
Lines = Mapping[str, Values]


def table(name: str, title: str, heading: Heading, rows: Iterable[Iterable[Cell]]) -> Table:
    """Make a table."""
    columns = (TableColumn(one) if isinstance(one, str) else TableColumn(*one) for one in heading)
    return Table(name=name, title=title, columns=tuple(columns), rows=tuple(map(tuple, rows)))


def chart(
    name: str,
    title: str,
    kind: Literal["bars", "lines", "steps"],
    x: tuple[str, Iterable[str | float]],
    y_label: str,
    lines: Lines | None = None,
    panels: Mapping[str, Lines] | None = None,
) -> Chart:
    """Make a chart.

    Args:
        x: its label, and its places.
        lines: of the only panel, where there are no `panels`.
    """
    return Chart(
        name=name,
        title=title,
        kind=kind,
        x=tuple(x[1]),
        x_label=x[0],
        y_label=y_label,
        panels={
            title: {label: tuple(values) for label, values in some.items()}
            for title, some in (panels or {"": lines or {}}).items()
        },
    )


class Missed(str):
    """A sentence on what was to be reached and was not."""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one experiment. The same input, options and version find the same."""

    name: str
    title: str
    truth: tuple[str, ...]  #: against what this was measured, a line each
    tables: tuple[Table, ...]
    charts: tuple[Chart, ...]
    notes: tuple[str, ...]  #: what stands out, and why
    missed: tuple[str, ...] = ()  #: what was to be reached and was not


#: What an experiment tells, one after the other. Text is a note.
Part = Table | Chart | str


# Tables as text for people, CSV for programs, Markdown for pages.


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
