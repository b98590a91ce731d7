"""Formats that are a table under a line with the names of its columns."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from swell.sim.traces.cells import is_blank, text
from swell.sim.traces.entry import InvalidLine, NoJob, TraceError, TraceJob
from swell.sim.traces.record import Format, Head, LineRemarks, Records, records, split, split_header
from swell.sim.traces.source import Source

#: What a line says: field -> value, None where its cell is blank or its column is not there.
Row = dict[str, Any]


@dataclass(frozen=True)
class TraceColumn:
    """Where a field stands and how its cells are read.

    Args:
        names: the column's, in lower case; the first that is there counts.
        parse: raises ValueError for a cell that breaks the rule.
    """

    names: tuple[str, ...]
    parse: Callable[[str], Any]
    is_needed: bool = False  #: without it the file is of another format


def column(*names: str, parse: Callable[[str], Any]) -> TraceColumn:
    return TraceColumn(names, parse)


def needed_column(*names: str, parse: Callable[[str], Any]) -> TraceColumn:
    return TraceColumn(names, parse, is_needed=True)


@dataclass(frozen=True)
class FileColumn:
    """A column as this file has it."""

    field: str
    name: str
    index: int
    parse: Callable[[str], Any]


@dataclass(frozen=True)
class SkippedColumn:
    """What a reader leaves aside of a header."""

    names: tuple[str, ...]  #: of columns that no field is read from
    absent: frozenset[str]  #: fields that no column gives

    @classmethod
    def of(cls, header: tuple[str, ...], places: list[FileColumn], fields: Iterable[str]) -> SkippedColumn:
        read = {place.index for place in places}
        names = tuple(name for index, name in enumerate(header) if name and index not in read)
        return cls(names, frozenset(fields).difference(place.field for place in places))


@dataclass(frozen=True, kw_only=True)
class TableFormat(Format):
    """A table.

    Args:
        columns: by field of a job; of a name that begins with `_` the column is known and not read.
        job_of: makes a job of a row whose submission is known; may raise InvalidLine or NoJob.
        unnamed: words in the column of a job's state by which a file without a line of names is known; empty:
            there always is one.
        delimiters: the first that splits the header into the columns needed counts.
        never: columns by which a file is known to be of another format.
        note_ignored: is told the columns of the file that no field is read from; may raise TraceError.
    """

    columns: dict[str, TraceColumn]
    job_of: Callable[[Row, LineRemarks], TraceJob] = lambda row, remarks: TraceJob(**row)
    unnamed: frozenset[str] = frozenset()
    delimiters: str = ","
    never: tuple[str, ...] = ()
    note_ignored: Callable[[Source, SkippedColumn, LineRemarks], None] | None = None

    def is_like(self, head: Head) -> bool:
        return any(self._fits(self._header(head.columns(delimiter))) for delimiter in self.delimiters)

    def _header(self, cells: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the columns of a file with these cells in its first line, in lower case."""
        if not self.unnamed or len(cells) != len(self.columns):
            return cells
        state = cells[list(self.columns).index("status")]
        return tuple(one.names[0] for one in self.columns.values()) if state in self.unnamed else cells

    def _fits(self, header: tuple[str, ...]) -> bool:
        return not self._missing(header) and not any(name in header for name in self.never)

    def _missing(self, header: tuple[str, ...]) -> list[str]:
        needed = (column for column in self.columns.values() if column.is_needed)
        return [column.names[0] for column in needed if not any(name in header for name in column.names)]

    def records(self, source: Source, remarks: LineRemarks) -> Records:
        lines = self.lines(source)
        _, header_line = next(lines, (0, ""))
        delimiter = max(self.delimiters, key=header_line.count)
        first = split_header(header_line, delimiter)
        header = self._header(first)
        if header != first:
            lines = self.lines(source)
        if missing := self._missing(header):
            raise TraceError(
                f"{source.path} is no {self.name} trace: it has no column {', '.join(missing)}; "
                f"its first line is {header_line[:100]!r}"
            )
        places = list(self._places(header))
        if self.note_ignored is not None:
            self.note_ignored(source, SkippedColumn.of(header, places, self.columns), remarks)

        def build(line: int, row_text: str) -> TraceJob:
            row = read_row(cells_of(row_text, delimiter, len(header)), places)
            if row.get("id") is None:
                row["id"] = str(line)
            if row["submit_s"] is None:
                if self.unnamed and row["status"] is None:
                    raise NoJob("never ran")  # it waits still
                raise InvalidLine(f"{self.columns['submit_s'].names[0]} is missing")
            return self.job_of(row, remarks)

        yield from records(lines, build, remarks)

    def _places(self, header: tuple[str, ...]) -> Iterator[FileColumn]:
        for field, wanted in self.columns.items():
            for name in wanted.names if field[0] != "_" else ():
                if name in header:
                    yield FileColumn(field, name, header.index(name), wanted.parse)
                    break


def cells_of(line: str, delimiter: str, num_columns: int) -> list[str]:
    """Raises InvalidLine unless there are so many."""
    try:
        cells = split(line, delimiter)
    except csv.Error as error:
        raise InvalidLine(f"cannot be split into cells: {error}") from error
    if len(cells) != num_columns:
        raise InvalidLine(f"number of cells is not that of the header: {len(cells)} instead of {num_columns}")
    return cells


def read_row(cells: list[str], places: list[FileColumn]) -> Row:
    """Raises InvalidLine that names the column."""
    row: Row = {}
    for place in places:
        cell = cells[place.index].strip()
        if not cell or (place.parse is not text and is_blank(cell)):
            row[place.field] = None
            continue
        try:
            row[place.field] = place.parse(cell)
        except ValueError as error:
            raise InvalidLine(f"{place.name} {error}") from error
    return row
