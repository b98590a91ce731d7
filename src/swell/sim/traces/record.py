"""What a format of traces is, and the rules that hold in every format for a line to become a job."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from swell.sim.traces.entry import Malformed, Outside, Skipped, TraceJob
from swell.sim.traces.source import LONGEST_LINE, Source

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


def plural(number: int, noun: str) -> str:
    """`1 job`, `2,400 jobs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def records(
    items: Iterable[tuple[int, Item]], build: Callable[[int, Item], TraceJob], remarks: LineRemarks
) -> Iterator[tuple[int, TraceJob | Skipped]]:
    """(line, a checked job or why there is none) for each item.

    Args:
        build: makes a job of an item; may raise Malformed or Outside.
    """
    for line, item in items:
        found = _build(line, item, build)
        if isinstance(found, TraceJob) and _is_hopeless(found):
            remarks.add("deadline not after the submission; kept as it is, it cannot be met")
        remarks.settle(isinstance(found, TraceJob))
        yield line, found


def _build(line: int, item: Item, build: Callable[[int, Item], TraceJob]) -> TraceJob | Skipped:
    try:
        if isinstance(item, str) and len(item) == LONGEST_LINE:
            raise Malformed(f"line of more than {LONGEST_LINE:,} characters")
        job = build(line, item)
        check(job)
    except Malformed as error:
        return Skipped(line, str(error))
    except Outside as error:
        return Skipped(line, str(error), is_malformed=False)
    return job


def _is_hopeless(job: TraceJob) -> bool:
    return job.deadline_s is not None and job.deadline_s <= job.submit_s and not job.is_best_effort


def check(job: TraceJob) -> None:
    """Raises Malformed or Outside if this cannot be simulated whatever is filled in."""
    for name, value in (
        ("submission", job.submit_s),
        ("duration", job.duration_s),
        ("number of devices", job.num_devices),
        ("number of steps", job.num_steps),
        ("global batch", job.global_batch),
        ("smallest batch", job.min_batch),
        ("largest batch", job.max_batch),
        ("least number of devices", job.min_devices),
    ):
        if value is not None and value < 0:
            raise Malformed(f"{name} is negative: {value:g}")
    if not job.id:
        raise Malformed("id is missing")
    if job.cores_per_worker is not None and job.cores_per_worker <= 0.0:
        raise Malformed(f"cores_per_worker is not above 0: {job.cores_per_worker:g}")
    if job.global_batch == 0:
        raise Malformed("global batch is 0")
    _check_range(job)
    if job.num_devices == 0:
        raise Outside("asks for no device")
    if job.duration_s == 0 or job.num_steps == 0:
        raise Outside("never ran")


def _check_range(job: TraceJob) -> None:
    if job.max_batch is None:
        if job.min_batch is not None:
            raise Malformed("min_batch without max_batch")
        return
    least = job.global_batch if job.min_batch is None else job.min_batch
    if least is None or least == 0:
        raise Malformed("max_batch without min_batch" if least is None else "min_batch is 0")
    if least > job.max_batch:
        raise Malformed(f"empty range of batches: {least} is above {job.max_batch}")
    if job.global_batch is not None and not least <= job.global_batch <= job.max_batch:
        raise Malformed(f"global batch outside of its range: {job.global_batch}")


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
