"""What a format of traces is to the rest: something that knows its files and reads them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from swell.sim.traces.entry import Skipped, TraceJob
from swell.sim.traces.record import LineRemarks
from swell.sim.traces.source import Source

Records = Iterator[tuple[int, TraceJob | Skipped]]


@dataclass(frozen=True)
class Head:
    """The beginning of a file, by which its format is known."""

    text: str

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Without blank lines and comments; the last may be cut."""
        lines = (line.strip("\r\n") for line in self.text.split("\n"))
        return tuple(line for line in lines if line.strip() and not line.startswith((";", "#")))

    def columns(self, delimiter: str) -> tuple[str, ...]:
        """Names in the first line, in lower case."""
        return split_header(self.lines[0], delimiter) if self.lines else ()


class Format(Protocol):
    """A reader of one kind of file. Stateless."""

    @property
    def name(self) -> str:
        """Name of the format, as `--format` takes it."""

    @property
    def title(self) -> str:
        """What it is, for people."""

    @property
    def notes(self) -> tuple[str, ...]:
        """How files of this format are understood where they leave it open."""

    def is_like(self, head: Head) -> bool: ...

    def records(self, source: Source, remarks: LineRemarks) -> Records:
        """(line, job or why there is none), in the order of the file and on its clock.

        Raises:
            TraceError: this cannot be such a file.
        """


def split_header(line: str, delimiter: str) -> tuple[str, ...]:
    return tuple(cell.strip().lower() for cell in split(line, delimiter))


def split(line: str, delimiter: str) -> list[str]:
    """Cells of one line. A quote that never ends takes no other line with it."""
    if '"' not in line:
        return line.split(delimiter)
    return next(csv.reader([line], delimiter=delimiter), [])
