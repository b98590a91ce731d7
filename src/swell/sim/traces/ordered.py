"""Jobs in order of their submission, however many: those that memory should not hold wait in a file."""

from __future__ import annotations

import heapq
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import msgspec

from swell.sim.traces.entry import TraceJob, order
from swell.sim.traces.errors import TraceError

#: So many jobs are in memory at most, 60 MB of them. Half of them are put away when it is full.
NUM_HELD = 1 << 17
#: Jobs that are written and read at once; of each run one block is in memory while runs are merged.
NUM_IN_BLOCK = 128
LENGTH_BYTES = 8


class Ordered:
    """Jobs that are put in as they come and come out by `order`, as often as one likes.

    Where no job stands farther than half of `NUM_HELD` from its place, as in nearly every log, all that is
    put away is one sorted run. Where jobs stand in any order, as many runs are merged as that half goes into
    their number. Takes no more jobs once one has gone through it.
    """

    def __init__(self) -> None:
        self._held: list[TraceJob] = []
        self._runs: Runs | None = None
        self._num = 0

    def add(self, job: TraceJob) -> None:
        """Raises TraceError if there is no room for the file."""
        self._held.append(job)
        self._num += 1
        if len(self._held) >= NUM_HELD:
            self._put_away()

    def __len__(self) -> int:
        return self._num

    @property
    def is_held(self) -> bool:
        """Whether all are in memory."""
        return self._runs is None

    def __iter__(self) -> Iterator[TraceJob]:
        self._held.sort(key=order)
        if self._runs is None:
            return iter(self._held)
        return heapq.merge(*self._runs.open(), self._held, key=order)

    def _put_away(self) -> None:
        if self._runs is None:
            self._runs = Runs()
        self._held.sort(key=order)
        half = len(self._held) // 2
        self._runs.write(self._held[:half])
        del self._held[:half]


class Runs:
    """Sorted runs of jobs in a file that has no name and is gone with its last user. Raises TraceError."""

    def __init__(self) -> None:
        self._folder = "the folder for temporary files"
        self._spans: list[tuple[int, int]] = []  #: (begin, end) of each run, in bytes
        self._last: tuple[float, int, str] | None = None  #: the latest job's place
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(list[TraceJob])
        with self._speaking():
            self._folder = tempfile.gettempdir()
            self._file: IO[bytes] = tempfile.TemporaryFile(dir=self._folder, prefix="swell-trace-")  # noqa: SIM115

    def write(self, jobs: list[TraceJob]) -> None:
        """Sorted ones: they go on with the latest run if they can, else they begin one."""
        begin = self._file.tell()
        with self._speaking():
            for at in range(0, len(jobs), NUM_IN_BLOCK):
                block = self._encoder.encode(jobs[at : at + NUM_IN_BLOCK])
                self._file.write(len(block).to_bytes(LENGTH_BYTES, "little"))
                self._file.write(block)
        if self._last is not None and self._last <= order(jobs[0]):
            begin, _ = self._spans.pop()
        self._spans.append((begin, self._file.tell()))
        self._last = order(jobs[-1])

    def open(self) -> list[Iterator[TraceJob]]:
        """The jobs of each run."""
        with self._speaking():
            self._file.flush()
        return [self._read(begin, end) for begin, end in self._spans]

    def _read(self, at: int, end: int) -> Iterator[TraceJob]:
        while at < end:
            with self._speaking():
                length = int.from_bytes(os.pread(self._file.fileno(), LENGTH_BYTES, at), "little")
                block = os.pread(self._file.fileno(), length, at + LENGTH_BYTES)
            yield from self._decoder.decode(block)
            at += LENGTH_BYTES + length

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TraceError(
                f"cannot keep the jobs of a long trace in {self._folder}: {error.strerror or error}; set "
                "TMPDIR to a folder with as much room as the trace takes unpacked"
            ) from error
