"""The log of a job as its open pages show it: its last lines, and those that come, in whole lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

import msgspec

from swell.api.logs import CHUNK_BYTES, LogChunk, LogOwner, is_news, read_chunks, read_tail_offsets
from swell.executors.local.logs.files import LEADERS, TRIAL, WORKER, log_path

#: Of the end of a log, with which a page begins.
SHOWN_BYTES = 128 << 10
FIRST_READS = 4
#: Of what was written between two looks. If it was more, the last lines are shown.
NEWS_BYTES = 64 << 10
#: Of a line that has no end yet, the last characters are kept.
MOST_UNFINISHED = 4000
#: A look reads nothing where no file and no folder has changed. Two changes of a folder within a tick of the
#: kernel's clock look like one: after so long it reads in any case.
READ_EVERY_S = 5.0

LEFT_OUT = "[swell: lines are left out here: there were too many for a page]"

#: The number of a worker, None if it is not to be told, and lines of its log without the last line break.
LogPiece = tuple[int | None, str]


class LogNews(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that a page puts behind those that it has, or in their place."""

    pieces: list[LogPiece]
    is_whole: bool = False
    is_over: bool = False  #: the job has ended, and these are its last lines


class FollowedLog:
    """Holds the lines that a page begins with. Not thread-safe."""

    def __init__(self, folder: Path, whose: LogOwner) -> None:
        self._folder = folder
        leaders_first = (LogOwner.LEADER, LogOwner.TRIAL) if whose is LogOwner.LEADER else (whose,)
        self._logs = [_Lines(folder, one) for one in leaders_first]
        self._pieces: deque[LogPiece] = deque()
        self._num_characters = 0
        self._marks: tuple[int, ...] = ()  #: before the last look that read
        self._is_quiet = False  #: that look found nothing
        self._is_unreadable = False  #: and that has been told
        self._read_s = float("-inf")
        self.is_over = False
        for _ in range(FIRST_READS):
            if self._num_characters >= SHOWN_BYTES or self._read(SHOWN_BYTES) is None:
                break

    def whole(self) -> LogNews:
        """All lines that a page shows at first."""
        return LogNews(pieces=list(self._pieces), is_whole=True, is_over=self.is_over)

    def look(self, now_s: float, has_ended: bool) -> LogNews | None:
        """Lines written since the last look; None: there are none.

        Args:
            now_s: by a steady clock.
            has_ended: the job has, and writes nothing more.
        """
        if self.is_over:
            return None
        marks = self._present_marks() if self._is_quiet else ()
        is_same = self._is_quiet and marks == self._marks
        if is_same and not has_ended and now_s - self._read_s < READ_EVERY_S:
            return None
        pieces = self._read(NEWS_BYTES)
        self._read_s, self._marks, self._is_quiet = now_s, marks, pieces is None
        if has_ended and pieces is None:
            pieces, self.is_over = self._keep([piece for log in self._logs for piece in log.rest()]), True
        return LogNews(pieces=pieces or [], is_over=self.is_over) if pieces or self.is_over else None

    def _read(self, most_bytes: int) -> list[LogPiece] | None:
        """None: nothing was written. A log that cannot be read says so in its place, and is read again."""
        try:
            pieces = self._read_first(most_bytes)
        except OSError as error:
            was_unreadable, self._is_unreadable = self._is_unreadable, True
            told = f"[swell: the log cannot be read ({error.strerror}); it is tried again]"
            return None if was_unreadable else self._keep([(None, told)])
        self._is_unreadable = False
        return pieces

    def _read_first(self, most_bytes: int) -> list[LogPiece] | None:
        """Lines of the trial run are shown until workers of the job print. Raises OSError."""
        for log in self._logs:
            if (pieces := log.read(most_bytes)) is not None:
                if log.whose is LogOwner.LEADER:
                    self._logs = [log]
                return self._keep(pieces)
        return None

    def _keep(self, pieces: list[LogPiece]) -> list[LogPiece]:
        """Each with its last line break: blank lines are bounded, too."""
        self._pieces.extend(pieces)
        self._num_characters += sum(len(text) + 1 for _, text in pieces)
        while self._num_characters > SHOWN_BYTES and len(self._pieces) > 1:
            self._num_characters -= len(self._pieces.popleft()[1]) + 1
        return pieces

    def _present_marks(self) -> tuple[int, ...]:
        """A file that comes, goes or is renamed changes the time of its folder."""
        logs = [path for log in self._logs for path in log.paths()]
        return (_modified_ns(self._folder), *(_size(path) for path in (self._folder / LEADERS, *logs)))


class _Lines:
    """Lines of one kind of logs, from the last ones on."""

    def __init__(self, folder: Path, whose: LogOwner) -> None:
        self.whose = whose
        self._folder = folder
        self._offsets: dict[int, int] | None = None
        self._unfinished: dict[int, str] = {}

    def paths(self) -> list[Path]:
        """Paths of the log files that may still grow."""
        kind = TRIAL if self.whose is LogOwner.TRIAL else WORKER
        numbers = list(self._offsets or ())
        return [log_path(self._folder, kind, number) for number in self._growing(numbers)]

    def _growing(self, numbers: list[int]) -> list[int]:
        return numbers[-1:] if self.whose is LogOwner.LEADER else numbers

    def read(self, most_bytes: int) -> list[LogPiece] | None:
        """None: nothing was written. No line may have come to its end."""
        if self._offsets is None:
            self._offsets = read_tail_offsets(self._folder, self.whose, SHOWN_BYTES)
        chunks, skipped = self._chunks(self._offsets, most_bytes)
        if not chunks:
            return None
        for chunk in chunks:
            self._offsets[chunk.worker] = chunk.next_offset
        is_alone = self.whose is LogOwner.LEADER or len(self._offsets) < 2
        return [
            (None if is_alone else chunk.worker, lines)
            for chunk in chunks
            if (lines := self._whole_lines(chunk, chunk.worker in skipped)) is not None
        ]

    def _chunks(self, offsets: dict[int, int], most_bytes: int) -> tuple[Sequence[LogChunk], set[int]]:
        """Those that have news, and the workers of which lines before them are left out."""
        chunks = self._read_from(offsets, most_bytes)
        lengths = [chunk.next_offset - chunk.offset for chunk in chunks]
        if max(lengths, default=0) < CHUNK_BYTES and sum(lengths) < most_bytes:
            return chunks, set()
        tail = read_tail_offsets(self._folder, self.whose, most_bytes)
        skipped = {worker for worker, offset in tail.items() if offset > offsets.get(worker, 0)}
        if not skipped:
            return chunks, skipped
        offsets |= {worker: tail[worker] for worker in skipped}
        for worker in skipped:
            self._unfinished.pop(worker, None)
        return self._read_from(offsets, most_bytes), skipped

    def _read_from(self, offsets: dict[int, int], most_bytes: int) -> list[LogChunk]:
        chunks = read_chunks(self._folder, offsets, whose=self.whose, most_bytes=most_bytes)
        for chunk in chunks:
            if not is_news(chunk):  # the sizes of empty logs are looked at, too
                offsets.setdefault(chunk.worker, chunk.offset)
        return [chunk for chunk in chunks if is_news(chunk)]

    def _whole_lines(self, chunk: LogChunk, is_sequel_of_more: bool) -> str | None:
        """None: no line has ended."""
        told = [LEFT_OUT] if is_sequel_of_more else []
        if chunk.discarded_bytes:
            told.append(f"[swell: {chunk.discarded_bytes} bytes before this were discarded]")
        lines, is_ended, rest = (self._unfinished.get(chunk.worker, "") + chunk.text).rpartition("\n")
        self._unfinished[chunk.worker] = rest[-MOST_UNFINISHED:]
        told += [lines] if is_ended else []
        return "\n".join(told) if told else None

    def rest(self) -> list[LogPiece]:
        """The last lines, if they lack their ends."""
        is_alone = self.whose is LogOwner.LEADER or len(self._offsets or ()) < 2
        found = [(None if is_alone else worker, text) for worker, text in self._unfinished.items() if text]
        self._unfinished.clear()
        return found


def _modified_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
