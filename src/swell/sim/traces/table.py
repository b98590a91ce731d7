"""Formats that are a table under a line with the names of its columns; and what stands in a cell."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast, get_args

from swell.model.job import MOST_PRIORITY, MOST_WEIGHT
from swell.model.names import ANY, is_kind
from swell.sim.loss_curves import parse_loss
from swell.sim.traces.entry import InvalidLine, JobKind, NoJob, Status, TraceError, TraceJob
from swell.sim.traces.record import (
    LARGEST,
    Format,
    Head,
    Item,
    LineRemarks,
    Records,
    Source,
    records,
    split,
    split_header,
)

#: Words for nothing, in lower case.
BLANK = frozenset({"", "-", "none", "null", "nan", "na", "n/a", "unknown"})

STATUSES: dict[str, Status] = {
    "completed": "completed",
    "pass": "completed",
    "terminated": "completed",
    "failed": "failed",
    "failedorkilled": "failed",
    "timeout": "failed",
    "node_fail": "failed",
    "boot_fail": "failed",
    "out_of_memory": "failed",
    "deadline": "failed",
    "killed": "killed",
    "cancelled": "killed",
    "preempted": "killed",
    "revoked": "killed",
}
ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", re.ASCII)


def is_blank(cell: str) -> bool:
    return cell.lower() in BLANK


def text(cell: str) -> str:
    return cell


def number(cell: str) -> float:
    """Raises InvalidLine unless it is one, finite and of a size that can be."""
    try:
        value = float(cell)
    except ValueError:
        raise InvalidLine(f"is not a number: {_shown(cell)}") from None
    if not math.isfinite(value):
        raise InvalidLine(f"is not a finite number: {_shown(cell)}")
    if abs(value) > LARGEST:
        raise InvalidLine(f"is larger than anything can be: {_shown(cell)}")
    return value


def is_number(cell: str) -> bool:
    """Whether a cell is a number, however large."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def bound(cell: str) -> float | None:
    """A number; None for infinity, which is how some write that there is no bound."""
    return None if cell.lower() in ("inf", "infinity") else number(cell)


def milliseconds(cell: str) -> float:
    """Seconds."""
    return number(cell) / 1000.0


def minutes(cell: str) -> float:
    """Seconds."""
    return number(cell) * 60.0


def count(cell: str) -> int:
    """A whole number; a fraction is rounded up, for half a device is a device taken."""
    return math.ceil(number(cell))


def priority(cell: str) -> int:
    """A whole number that a job may have as its priority."""
    value = number(cell)
    if not value.is_integer() or abs(value) > MOST_PRIORITY:
        raise InvalidLine(f"is not a whole number from {-MOST_PRIORITY} to {MOST_PRIORITY}: {_shown(cell)}")
    return int(value)


def weight(cell: str) -> float:
    """A number that a job may have as its weight."""
    value = number(cell)
    if not 1 / MOST_WEIGHT <= value <= MOST_WEIGHT:
        raise InvalidLine(f"is not between {1 / MOST_WEIGHT:g} and {MOST_WEIGHT:g}: {_shown(cell)}")
    return value


def kinds(cell: str) -> str:
    """Kinds of device that a job may have, each once, with commas between them; `any` stands alone."""
    words = [word.strip() for word in cell.split(",")]
    for word in words:
        if not is_kind(word):
            raise InvalidLine(f"names no kind of device: {_shown(word)}")
    if len(set(words)) < len(words) or (ANY in words and len(words) > 1):
        raise InvalidLine(f"names a kind twice: {_shown(cell)}")
    return ",".join(words)


def flag(cell: str) -> bool:
    if cell.lower() in ("1", "1.0", "true", "yes"):
        return True
    if cell.lower() in ("0", "0.0", "false", "no"):
        return False
    raise InvalidLine(f"is neither 0 nor 1: {_shown(cell)}")


def moment(cell: str) -> float:
    """Seconds since 1970 of a date with time, UTC where it names no zone; a number is taken as it is."""
    if ":" not in cell:
        return number(cell)
    try:
        at = datetime.fromisoformat(cell)
    except ValueError:
        raise InvalidLine(f"is neither a moment nor a number: {_shown(cell)}") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def elapsed(cell: str) -> float:
    """Seconds of `[DAYS-]HOURS:MINUTES:SECONDS`, `MINUTES:SECONDS` (as Slurm writes them), or of a number."""
    match = ELAPSED.fullmatch(cell)
    if match is None:
        return number(cell)
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def time_limit(cell: str) -> float | None:
    """Seconds of a limit of time as Slurm writes it; None for words, such as `UNLIMITED`."""
    return None if cell[0].isalpha() else elapsed(cell)


def job_kind(cell: str) -> JobKind:
    """How a job runs. Raises InvalidLine."""
    if (word := cell.lower()) not in (known := get_args(JobKind)):
        raise InvalidLine(f"is none of {', '.join(known)}: {_shown(cell)}")
    return cast("JobKind", word)


def status(cell: str) -> Status | None:
    """None for a job that had not ended, and for words unknown. `CANCELLED by 1042` is `CANCELLED`."""
    word = cell.lower().split()[0] if cell else ""
    return STATUSES.get(word)


def loss_curve(cell: str) -> str:
    """The text of one. Raises ValueError that says what is wrong with it."""
    parse_loss(cell)
    return cell


def _shown(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else f"{cell[:40]}...")


#: What a line says: field -> value, None where its cell is blank or its column is not there.
Row = dict[str, Any]


class TraceColumn:
    """Where a field stands and how its cells are read.

    Args:
        names: the column's, in lower case; the first that is there counts.
        parse: raises ValueError for a cell that breaks the rule.
        is_needed: without it the file is of another format.
    """

    def __init__(self, *names: str, parse: Callable[[str], Any], is_needed: bool = False) -> None:
        self.names, self.parse, self.is_needed = names, parse, is_needed


column = TraceColumn
needed_column = partial(TraceColumn, is_needed=True)


@dataclass(frozen=True)
class FileColumn:
    """A column as this file has it."""

    field: str
    name: str
    index: int
    parse: Callable[[str], Any]


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
        note_ignored: is told the columns of the file that no field is read from, and the fields without a
            column; may raise TraceError.
    """

    columns: dict[str, TraceColumn]
    job_of: Callable[[Row, LineRemarks], TraceJob] = lambda row, remarks: TraceJob(**row)
    unnamed: frozenset[str] = frozenset()
    delimiters: str = ","
    never: tuple[str, ...] = ()
    note_ignored: Callable[[Source, list[str], frozenset[str], LineRemarks], None] | None = None

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

    def open(self, source: Source) -> tuple[Iterator[tuple[int, str]], tuple[str, ...], Callable[[str], Row]]:
        """Lines after that with the names, these names, and how a line is read, which may raise InvalidLine.

        Raises TraceError: a column is missing.
        """
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
        return lines, header, lambda text: read_row(cells_of(text, delimiter, len(header)), places)

    def rows(self, source: Source, build: Callable[[Row], Item]) -> Iterator[tuple[int, Item]]:
        """(line, what `build` makes of it, which may raise InvalidLine). Raises TraceError that names it."""
        lines, _, read = self.open(source)
        for number, line in lines:
            try:
                yield number, build(read(line))
            except InvalidLine as error:
                raise TraceError(f"{source.path}, line {number}: {error}; correct it") from error

    def records(self, source: Source, remarks: LineRemarks) -> Records:
        lines, header, read = self.open(source)
        if self.note_ignored is not None:
            given = {place.index: place.field for place in self._places(header)}
            ignored = [name for index, name in enumerate(header) if name and index not in given]
            self.note_ignored(source, ignored, frozenset(self.columns).difference(given.values()), remarks)

        def build(line: int, row_text: str) -> TraceJob:
            row = read(row_text)
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
