"""What a trace is read from, what a format is, and the rules by which a line becomes a job."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, TextIO, TypeVar, cast

from swell.model.quantities import as_number
from swell.sim.traces.entry import InvalidLine, NoJob, Skipped, TraceError, TraceJob, plural

#: Larger numbers are no seconds, steps or devices of anything.
LARGEST = 1e15
#: A longer line is cut there, and is malformed in every format.
LONGEST_LINE = 1 << 20
HEAD_CHARS = 1 << 16
#: By what a packed file begins with.
UNPACKERS: dict[bytes, Callable[[IO[bytes]], IO[bytes]]] = {
    b"\x1f\x8b": lambda raw: cast("IO[bytes]", gzip.GzipFile(fileobj=raw)),
    b"BZh": lambda raw: cast("IO[bytes]", bz2.BZ2File(raw)),
    b"\xfd7zXZ\0": lambda raw: cast("IO[bytes]", lzma.LZMAFile(raw)),  # noqa: SIM115
}
OTHER_PACKERS = {b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf": "7z"}
MAGIC_BYTES = 6


class Source:
    """Where a trace is read from. Text is UTF-8; bytes that are none become U+FFFD."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def open(self) -> Iterator[TextIO]:
        """Raises TraceError if the file cannot be read, then or while it is."""
        if self.path.is_fifo():  # what its format was known by would be missing from its jobs
            raise TraceError(f"{self.path} is a pipe, and a trace is opened twice; write it to a file first")
        try:
            with self.path.open("rb") as raw:
                yield io.TextIOWrapper(self._unpacked(raw), "utf-8-sig", "replace")
        except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
            raise TraceError(f"{self.path} is damaged ({error}); fetch it again") from error
        except OSError as error:
            raise TraceError(f"cannot read {self.path}: {error.strerror or error}") from error

    def _unpacked(self, raw: io.BufferedReader) -> IO[bytes]:
        begin = raw.peek(MAGIC_BYTES)
        for magic, packer in OTHER_PACKERS.items():
            if begin.startswith(magic):
                raise TraceError(
                    f"{self.path} is packed with {packer}; unpack it, or pack it with gzip, bzip2 or xz"
                )
        unpackers = [unpack for magic, unpack in UNPACKERS.items() if begin.startswith(magic)]
        return unpackers[0](raw) if unpackers else raw

    def head(self) -> str:
        """The beginning, as far as a format is known by it."""
        with self.open() as text:
            return text.read(HEAD_CHARS)

    def lines(self) -> Iterator[tuple[int, str]]:
        """(number from 1, text without its end) of every line that is not blank."""
        with self.open() as text:
            number = 0
            while line := text.readline(LONGEST_LINE):
                number += 1
                if len(line) == LONGEST_LINE:
                    _skip_rest(text, line)
                elif not line.strip():
                    continue
                yield number, line.rstrip("\r\n")


def _skip_rest(text: TextIO, piece: str) -> None:
    while piece and not piece.endswith("\n"):
        piece = text.readline(LONGEST_LINE)


Item = TypeVar("Item")


class LineRemarks:
    """What is odd about lines that were taken all the same, and how many are.

    A remark counts once its line has become a job.
    """

    def __init__(self) -> None:
        self.warnings: list[str] = []  #: about the file as a whole
        self._counts: Counter[str] = Counter()
        self._pending: list[str] = []

    def add(self, remark: str) -> None:
        self._pending.append(remark)

    def settle(self, has_job: bool) -> None:
        if has_job:
            self._counts.update(self._pending)
        self._pending.clear()

    def lines(self) -> tuple[str, ...]:
        counted = (f"{plural(number, 'job')}: {remark}" for remark, number in sorted(self._counts.items()))
        return (*self.warnings, *counted)


def records(
    items: Iterable[tuple[int, Item]], build: Callable[[int, Item], TraceJob], remarks: LineRemarks
) -> Iterator[tuple[int, TraceJob | Skipped]]:
    """(line, a checked job or why there is none) for each item.

    Args:
        build: makes a job of an item; may raise InvalidLine or NoJob.
    """
    for line, item in items:
        found = _build(line, item, build)
        deadline_s = found.deadline_s if isinstance(found, TraceJob) and not found.is_best_effort else None
        if isinstance(found, TraceJob) and deadline_s is not None and deadline_s <= found.submit_s:
            remarks.add("deadline not after the submission; kept as it is, it cannot be met")
        remarks.settle(isinstance(found, TraceJob))
        yield line, found


def _build(line: int, item: Item, build: Callable[[int, Item], TraceJob]) -> TraceJob | Skipped:
    try:
        if isinstance(item, str) and len(item) == LONGEST_LINE:
            raise InvalidLine(f"line of more than {LONGEST_LINE:,} characters")
        job = build(line, item)
        check(job)
    except InvalidLine as error:
        return Skipped(line, str(error))
    except NoJob as error:
        return Skipped(line, str(error), is_malformed=False)
    return job


def check(job: TraceJob) -> None:
    """Raises InvalidLine or NoJob if this cannot be simulated whatever is filled in."""
    for name, value in (
        ("submission", job.submit_s),
        ("duration", job.duration_s),
        ("number of devices", job.num_devices),
        ("number of steps", job.num_steps),
        ("global batch", job.global_batch),
        ("smallest batch", job.min_batch),
        ("largest batch", job.max_batch),
        ("least number of devices", job.min_devices),
        ("time limit", job.time_limit_s),
    ):
        if value is not None and value < 0:
            raise InvalidLine(f"{name} is negative: {value:g}")
    if not job.id:
        raise InvalidLine("id is missing")
    if job.cores_per_worker is not None and job.cores_per_worker <= 0.0:
        raise InvalidLine(f"cores_per_worker is not above 0: {job.cores_per_worker:g}")
    if job.global_batch == 0:
        raise InvalidLine("global batch is 0")
    if job.time_limit_s == 0:
        raise InvalidLine("time limit is 0")
    _check_range(job)
    if job.num_devices == 0:
        raise NoJob("asks for no device")
    if job.duration_s == 0 or job.num_steps == 0:
        raise NoJob("never ran")


def _check_range(job: TraceJob) -> None:
    if job.max_batch is None:
        if job.min_batch is not None:
            raise InvalidLine("min_batch without max_batch")
        return
    least = job.global_batch if job.min_batch is None else job.min_batch
    if least is None or least == 0:
        raise InvalidLine("max_batch without min_batch" if least is None else "min_batch is 0")
    if least > job.max_batch:
        raise InvalidLine(f"empty range of batches: {least} is above {job.max_batch}")
    if job.global_batch is not None and not least <= job.global_batch <= job.max_batch:
        raise InvalidLine(f"global batch outside of its range: {job.global_batch}")


def cut(job_id: str) -> str:
    """An id as messages show it."""
    return job_id if len(job_id) <= 60 else f"{job_id[:60]}..."


Records = Iterator[tuple[int, TraceJob | Skipped]]


@dataclass(frozen=True)
class Head:
    """The beginning of a file, by which its format is known."""

    text: str

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Its lines without blank ones and comments; the last may be cut."""
        lines = (line.strip("\r\n") for line in self.text.split("\n"))
        return tuple(line for line in lines if line.strip() and not line.startswith((";", "#")))

    def columns(self, delimiter: str) -> tuple[str, ...]:
        """Names in the first line, in lower case."""
        return split_header(self.lines[0], delimiter) if self.lines else ()


@dataclass(frozen=True, kw_only=True)
class Format:
    """A reader of one kind of file: of one that has a job in each line or item.

    Args:
        name: as `--format` takes it.
        title: what it is, for people.
        notes: how files of this format are understood where they leave it open.
        looks_so: whether a file with this beginning is of this format.
        build: makes a job of an item, which is a line unless `items` says otherwise; may raise InvalidLine or
            NoJob.
        items: of a file, numbered; may raise TraceError. None: its lines.
        comment: a line that begins so is none of them; empty: there are no comments.
        epoch: finds in the beginning of a file the time since 1970 at which its clock is 0.
    """

    name: str
    title: str
    notes: tuple[str, ...] = ()
    looks_so: Callable[[Head], bool] = lambda head: False
    build: Callable[[int, Any], TraceJob] | None = None
    items: Callable[[Source], Iterable[tuple[int, Any]]] | None = None
    comment: str = ""
    epoch: re.Pattern[str] | None = None

    def is_like(self, head: Head) -> bool:
        """Whether a file that begins so is of this format."""
        return self.looks_so(head)

    def lines(self, source: Source) -> Iterator[tuple[int, str]]:
        """Lines without comments."""
        comment = self.comment
        return (entry for entry in source.lines() if not (comment and entry[1].startswith(comment)))

    def records(self, source: Source, remarks: LineRemarks) -> Records:
        """(line, job or why there is none), in the order of the file and on its clock.

        Raises:
            TraceError: this cannot be such a file.
        """
        if self.build is not None:
            yield from records((self.items or self.lines)(source), self.build, remarks)

    def epoch_s(self, head: Head) -> float:
        """Seconds since 1970 when the clock of the file stood at 0; 0 if it does not say."""
        match = self.epoch.search(head.text) if self.epoch else None
        epoch_s = as_number(match[1]) if match else 0.0
        return epoch_s if abs(epoch_s) <= LARGEST else 0.0


def split_header(line: str, delimiter: str) -> tuple[str, ...]:
    return tuple(cell.strip().lower() for cell in split(line, delimiter))


def split(line: str, delimiter: str) -> list[str]:
    """Cells of one line. A quote that never ends takes no other line with it."""
    if '"' not in line:
        return line.split(delimiter)
    return next(csv.reader([line], delimiter=delimiter), [])
