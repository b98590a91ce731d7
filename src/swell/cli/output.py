"""How commands print: tables, JSON, warnings and bars, with what a terminal would obey spelled out."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar, cast

if TYPE_CHECKING:
    from rich.console import Console

#: All control characters but a line's end and a tab.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: A return begins a line again: bars of progress do so, and what a job says could write over what we say.
_CONTROL_IN_LOGS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
#: Bold and its end: headings of our own tables are.
_BOLD = re.compile(r"(\x1b\[[01]m)")


def printable(text: str, control: re.Pattern[str] = _CONTROLS) -> str:
    r"""ESC is `\x1b`: what follows it would move the cursor, set a title or write the clipboard."""
    return control.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def printable_log(line: str) -> str:
    """The same of a line of a log."""
    return printable(line, _CONTROL_IN_LOGS)


class PrintableOutput:
    """A stream whose texts are made printable, bold headings apart."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text, made printable; returns the length of `text`."""
        if _CONTROLS.search(text):
            parts = _BOLD.split(text)  # every second one is bold or its end
            parts[::2] = map(printable, parts[::2])
            self.stream.write("".join(parts))
        else:
            self.stream.write(text)
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
    sys.stdout, sys.stderr = map(_made_printable, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _made_printable(stream: TextIO) -> TextIO:
    """A stream that is closed is None."""
    return cast(TextIO, stream and PrintableOutput(stream))


def raw(stream: TextIO) -> TextIO:
    """The terminal obeys what is written here."""
    return stream.stream if isinstance(stream, PrintableOutput) else stream


Item = TypeVar("Item")

#: A bar is moved after so many items.
NUM_BETWEEN = 4096


@contextmanager
def progress_bar(label: str, total: int, unit: str = "") -> Iterator[Callable[[int], None]]:
    """Gives what is to be called with the number that is done. `unit`: of the numbers, which are shown."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    columns = list(Progress.get_default_columns())
    if unit:
        columns.append(TextColumn(f"{{task.completed:,.0f}} of {{task.total:,.0f}} {unit}"))
    with Progress(*columns, console=Console(file=raw(sys.stderr)), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def reading(file: Path) -> Iterator[Callable[[int], None]]:
    """Gives what is to be called with the bytes of the file that have been read."""
    num_bytes = file.stat().st_size if file.is_file() else 0
    with progress_bar(f"reading {file.name}", num_bytes) as advance:
        yield advance


@contextmanager
def counted(label: str, items: Iterable[Item], num: int) -> Iterator[Iterable[Item]]:
    """Gives the same items; the bar grows as one goes through them.

    Args:
        num: of the items, or about so many.
    """
    with progress_bar(label, num) as advance:

        def each() -> Iterator[Item]:
            for done, item in enumerate(items):
                if done % NUM_BETWEEN == 0:
                    advance(done)
                yield item

        yield each()


#: Columns where no terminal says how many it has.
PIPED_WIDTH = 100


#: For tables of figures, whose lines are as long as they need be: half a number is a wrong one.
ANY_WIDTH = 10_000
#: Control characters that JSON permits in a text.
_CONTROL = re.compile("[\x7f-\x9f]")
#: Blanks between two columns.
GAP = 2


def console(width: int | None = None) -> Console:
    """A console as wide as the terminal, or `PIPED_WIDTH` without one; `width` overrides both."""
    from rich.console import Console

    if width is not None:
        return Console(highlight=False, markup=False, width=width)
    found = Console(highlight=False, markup=False, soft_wrap=False)
    return found if found.is_terminal else Console(highlight=False, markup=False, width=PIPED_WIDTH)


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    wrapping: int | None = -1,
    least_worth: Sequence[str] = (),
) -> None:
    """Print plain columns; on a narrow terminal, column `wrapping` wraps; None: none does.

    Args:
        least_worth: headings of columns that are left out before anything wraps, the first one first.
    """
    cells = [list(row) for row in rows]
    for heading in least_worth:
        if _length([headings, *cells]) <= _width():
            break
        kept = [place for place, name in enumerate(headings) if name != heading]
        headings, *cells = ([row[place] for place in kept] for row in (headings, *cells))
    if (lines := _fitting(headings, cells, wrapping)) is not None:
        print("\n".join(lines))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(headings))
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    if wrapping is not None:
        table.columns[wrapping].no_wrap = False
        table.columns[wrapping].overflow = "fold"
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))  # text from users is no markup
    paper = console(ANY_WIDTH if wrapping is None else None)
    with paper.capture() as captured:
        paper.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _fitting(
    headings: Sequence[str], rows: Sequence[Sequence[str]], wrapping: int | None
) -> list[str] | None:
    """The lines of a table of which nothing needs to wrap; None: Rich has to lay it out.

    Rich takes longer to import, and for a hundred rows, than a command takes to hear them from the platform.
    """
    every = [*([headings] if any(headings) else ()), *rows]
    if os.environ.get("FORCE_COLOR") or not all(_is_simple(cell) for row in every for cell in row):
        return None
    if wrapping is not None and _length(every) > _width():
        return None
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    lines = [
        (" " * GAP).join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in every
    ]
    if any(headings) and _has_styles():
        lines[0] = f"\033[1m{lines[0]}\033[0m"
    return lines


def _length(rows: Sequence[Sequence[str]]) -> int:
    """Columns of a terminal that a table needs."""
    return sum(max(map(len, column)) + GAP for column in zip(*rows, strict=True)) - GAP


def _is_simple(cell: str) -> bool:
    """Whether each character of it takes one column."""
    return cell.isascii() and (cell.isprintable() or not cell)


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED_WIDTH


def _has_styles() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown")


def print_json(value: object) -> None:
    """Print the value as indented JSON."""
    import msgspec

    from swell.model.coding import encode

    sys.stdout.write(_spelled(msgspec.json.format(encode(value), indent=2).decode()) + "\n")


def print_json_array(items: Iterable[object]) -> None:
    """Print a JSON array as `print_json` does, item by item: only one item need be in memory."""
    import msgspec

    from swell.model.coding import encode

    separator = "[\n"
    for item in items:
        text = _spelled(msgspec.json.format(encode(item), indent=2).decode())
        sys.stdout.write(separator + textwrap.indent(text, "  "))
        separator = ",\n"
    sys.stdout.write("[]\n" if separator == "[\n" else "\n]\n")


def _spelled(text: str) -> str:
    """Encoders write these control characters as they are; in JSON they have a spelling of their own."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def write_json(file: Path, value: object) -> None:
    """Raises OSError."""
    import msgspec

    from swell.model.coding import encode

    file.write_bytes(msgspec.json.format(encode(value), indent=2) + b"\n")


def warn(text: str) -> None:
    """What a user should know beside the result, also where no terminal is."""
    print(f"swell: {text}", file=sys.stderr)


def note(text: str) -> None:
    """Print a note to the terminal of a user who watches; it is not part of the command's output."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr)
