"""How commands print and where they write: tables, JSON, times, warnings, bars and files."""

from __future__ import annotations

import csv
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from swell.model.errors import InvalidInput
from swell.model.names import printable
from swell.model.quantities import relative, span

if TYPE_CHECKING:
    from swell.model.booking import Booking

#: A return begins a line again: bars of progress do so, and what a job says could write over what we say.
_CONTROL_IN_LOGS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
#: Control characters that JSON permits in a text.
_CONTROL_IN_JSON = re.compile("[\x7f-\x9f]")
#: Columns where no terminal says how many it has.
PIPED_WIDTH = 100
#: Blanks between two columns, and the least width of one whose texts are wrapped.
GAP, LEAST_WRAPPED = 2, 14


def printable_log(line: str) -> str:
    """A line of a log without what a terminal obeys."""
    return printable(line, _CONTROL_IN_LOGS)


class PlainOutput:
    """A stream whose texts are made printable."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text, made printable; returns the length of `text`."""
        self.stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


@contextmanager
def printable_output() -> Iterator[None]:
    """Make all output of a command printable, on both streams; `raw` lifts that."""
    before = sys.stdout, sys.stderr
    # A stream that is closed is None.
    sys.stdout, sys.stderr = (cast(TextIO, stream and PlainOutput(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def raw(stream: TextIO) -> TextIO:
    """The terminal obeys what is written here."""
    return stream.stream if isinstance(stream, PlainOutput) else stream


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Gives what is to be called with the number that is done."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=raw(sys.stderr)), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    wrapping: int | None = -1,
    least_worth: Sequence[str] = (),
) -> None:
    """Print plain columns; on a narrow terminal, column `wrapping` wraps; None: none does.

    Args:
        least_worth: headings of columns that are left out, the first one first, if no wrapping makes room.
    """
    table = [list(headings), *map(list, rows)]
    wrapping = None if wrapping is None else wrapping % len(headings)
    for heading in least_worth:
        if sum(_narrowed(_widths(table), wrapping)) <= width():
            break
        if heading in table[0]:
            place = table[0].index(heading)
            table = [[*row[:place], *row[place + 1 :]] for row in table]
            wrapping = None if wrapping is None else wrapping - (place < wrapping)
    widths = _narrowed(_widths(table), wrapping)
    lines = [line for row in table[1:] for line in _lines(row, widths, wrapping)]
    if any(headings):
        is_bold = sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown")
        heading = printable("\n".join(_lines(table[0], widths, wrapping)))
        raw(sys.stdout).write(f"\033[1m{heading}\033[0m\n" if is_bold else f"{heading}\n")
    for line in lines:
        print(line)


def width() -> int:
    """Columns of the terminal, or `PIPED_WIDTH` without one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED_WIDTH


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    """Columns of a terminal that each column of a table takes."""
    widths = [
        max(_cells(line) for cell in column for line in cell.split("\n")) + GAP
        for column in zip(*table, strict=True)
    ]
    return [*widths[:-1], widths[-1] - GAP]


def _narrowed(widths: list[int], wrapping: int | None) -> list[int]:
    """The widths with a column that wraps as narrow as needed, and not below `LEAST_WRAPPED`."""
    if wrapping is not None and (excess := sum(widths) - width()) > 0:
        widths[wrapping] = max(widths[wrapping] - excess, min(widths[wrapping], LEAST_WRAPPED))
    return widths


def _lines(row: Sequence[str], widths: Sequence[int], wrapping: int | None) -> Iterator[str]:
    """The lines that a row of a table takes."""
    columns = [cell.split("\n") for cell in row]
    if wrapping is not None:
        space = widths[wrapping] - (0 if wrapping % len(row) == len(row) - 1 else GAP)
        parts = [_wrapped(line, space) for line in columns[wrapping]]
        columns[wrapping] = [line for part in parts for line in part]
    for cells in zip_longest(*columns, fillvalue=""):
        padded = (cell + " " * (space - _cells(cell)) for cell, space in zip(cells, widths, strict=True))
        yield "".join(padded).rstrip()


def _wrapped(line: str, space: int) -> list[str]:
    if _cells(line) <= space:
        return [line]
    return textwrap.wrap(line, space, break_on_hyphens=False)


def _cells(text: str) -> int:
    """Columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    import unicodedata

    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def print_csv(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print comma-separated values; None is an empty one."""
    csv.writer(sys.stdout, lineterminator="\n").writerows([headings, *rows])


def print_json(value: object) -> None:
    """Print the value as indented JSON."""
    sys.stdout.write(_as_json(value))


def write_json(file: Path, value: object) -> None:
    """Raises OSError."""
    file.write_text(_as_json(value), "utf-8")


def _as_json(value: object) -> str:
    """Control characters that encoders write as they are have a spelling of their own in JSON."""
    import msgspec

    from swell.model.coding import encode

    text = msgspec.json.format(encode(value), indent=2).decode()
    return _CONTROL_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def warn(text: str) -> None:
    """What a user should know besides the result, also where no terminal is."""
    print(f"swell: {text}", file=sys.stderr)


def print_note(text: str) -> None:
    """Print a note to the terminal of a user who watches; it is not part of the command's output."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


@dataclass(frozen=True, slots=True)
class Times:
    """How moments are written: of a platform by the clock on the wall, in seconds since 1970."""

    now_s: float  #: the present, to which other times are compared

    def clock(self, at_s: float) -> str:
        """The time in a short form."""
        return clock(at_s, self.now_s)

    def moment(self, at_s: float) -> str:
        """The time, with its distance from now where that is of interest."""
        return moment(at_s, self.now_s)


@dataclass(frozen=True, slots=True)
class RunTimes(Times):
    """Seconds since the first submission of a simulated run, which is over at `now_s`."""

    def clock(self, at_s: float) -> str:
        """`00:12:05`, `3d 07:00:00`."""
        minutes, seconds = divmod(int(at_s), 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        return f"{f'{days}d ' if days else ''}{hours:02}:{minutes:02}:{seconds:02}"

    def moment(self, at_s: float) -> str:
        return self.clock(at_s)


def clock(at_s: float, now_s: float) -> str:
    """`14:05:22`; on another day `Jan 15 14:05`, in another year `2027-01-15`."""
    at = datetime.fromtimestamp(at_s).astimezone()
    now = datetime.fromtimestamp(now_s).astimezone()
    if at.date() == now.date():
        return f"{at:%H:%M:%S}"
    return f"{at:%b %d %H:%M}" if at.year == now.year else f"{at:%Y-%m-%d}"


def moment(at_s: float, now_s: float) -> str:
    """`14:05:22 (in 41 s)`."""
    return f"{clock(at_s, now_s)} ({relative(at_s - now_s)})"


def time_texts(booking: Booking, now_s: float) -> tuple[str, str, str]:
    """Begin and length of its next time, and how many follow."""
    begin_s, end_s = booking.time_after(now_s) or booking.times_s[-1]
    later = [one for one in booking.times_s if one[0] > begin_s]
    more = f"{len(later)} more, the last {moment(later[-1][0], now_s)}" if later else ""
    return moment(begin_s, now_s), span(end_s - begin_s), more


def check_files(files: Mapping[str, Path | None], inputs: Iterable[Path]) -> None:
    """Each can be written, and none takes the place of an input or of another. Raises InvalidInput.

    Args:
        files: by the option that names it; None where it was not given.
        inputs: what the command reads.
    """
    taken = {file.resolve(): "what is read" for file in inputs}
    for option, file in files.items():
        if file is None:
            continue
        _check_file(option, file)
        place = file.resolve()
        if place in taken and not file.is_char_device():
            raise InvalidInput(f"{option}: {file} is {taken[place]}; choose another file")
        taken[place] = f"what {option} writes"


def check_folder(option: str, folder: Path | None) -> None:
    """Make it if need be; what it lacks is made with it. Raises InvalidInput if it cannot be written to."""
    if folder is None:
        return
    with writing(option, folder):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidInput(f"{option}: folder {folder} cannot be written to; choose another")


@contextmanager
def writing(option: str, path: Path) -> Iterator[None]:
    """An OSError within is one line about this option. Raises InvalidInput."""
    try:
        yield
    except FileExistsError as error:
        raise InvalidInput(f"{option}: {path} is a file; name a folder") from error
    except OSError as error:
        raise InvalidInput(f"{option}: cannot write {path}: {error.strerror or error}") from error


def _check_file(option: str, file: Path) -> None:
    if str(file) == "-":
        raise InvalidInput(f"{option} writes a file; name one")
    if file.is_dir():
        raise InvalidInput(f"{option}: {file} is a folder; name a file")
    if not file.parent.is_dir():
        raise InvalidInput(
            f"{option}: there is no folder {file.parent} to write {file.name} to; create it first"
        )
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise InvalidInput(f"{option}: {file} cannot be written; choose another")
