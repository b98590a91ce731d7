"""Log files of workers: rotated files, whose bytes have positions in the whole stream.

A job's folder holds `worker-N.log` for each worker of its gangs, `trial-N.log` for those of its trial run
that printed something, and `leaders`: a line `WORKER OFFSET` for each worker that came to be rank 0, with the
position in its log from which on it speaks for the job. `swell logs` follows the leaders.

A log begins in `worker-3.log`, and goes on in `worker-3.log.BEGIN`: BEGIN is the position of the file's first
byte. Positions count all bytes that were ever written to the log, discarded ones too, so that a reader's
position stays right when a file is removed. All logs of a job together have a limit: see `discard_logs`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from swell.wire.untrusted_files import open_regular

TAIL_BYTES = 4000
#: Before the number in the names of logs: of a gang's workers, and of a trial run's.
WORKER, TRIAL = "worker", "trial"
LEADERS = "leaders"
LOG_NAME = r"\d{1,9}(?:\.[1-9]\d{0,3})?"

#: The number of a worker, or `2.1`: that of its process at position 1.
LogName = int | str
Listing = Mapping[LogName, tuple[int, ...]]


class LogRange(NamedTuple):
    """A part of a log."""

    begin: int  #: where it was asked for, or where the log begins if that is later
    content: bytes


# ------------------------------------------------------------ names
def log_name(worker: int, position: int = 0) -> LogName:
    """What the log of a worker's process is called."""
    return f"{worker}.{position}" if position else worker


def parse_log_name(text: str) -> LogName:
    """The name that is written like this."""
    return int(text) if text.isdecimal() else text


def _order(name: LogName) -> tuple[int, ...]:
    """Logs are sorted by worker and position."""
    return tuple(map(int, str(name).split(".")))


def log_path(folder: Path, kind: str, name: LogName) -> Path:
    """Path of a log file, such as `worker-3.log`, `worker-3.1.log` or `trial-0.log`."""
    return folder / f"{kind}-{name}.log"


def piece_path(log: Path, begin: int) -> Path:
    """The file of a log whose first byte has this position."""
    return log.with_name(f"{log.name}.{begin}") if begin else log


def list_logs(folder: Path, kind: str) -> Listing:
    """Name -> positions at which the files of this log begin, ascending."""
    form = re.compile(rf"{re.escape(kind)}-({LOG_NAME})\.log(?:\.(\d{{1,18}}))?", re.ASCII)
    found: dict[LogName, list[int]] = {}
    for match in map(form.fullmatch, _names(folder)):
        if match is not None:
            found.setdefault(parse_log_name(match[1]), []).append(int(match[2] or 0))
    return {name: tuple(sorted(found[name])) for name in sorted(found, key=_order)}


def next_number(folder: Path, kind: str) -> int:
    """The lowest number that no log of this kind has had, in this agent's life or before."""
    return max((_order(name)[0] for name in list_logs(folder, kind)), default=-1) + 1


def begins_of(log: Path) -> tuple[int, ...]:
    """Return the positions at which the files of one log begin, ascending."""
    rests = [name.removeprefix(log.name) for name in _names(log.parent) if name.startswith(log.name)]
    return tuple(sorted(int(rest[1:] or 0) for rest in rests if not rest or rest[1:].isdecimal()))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


# ------------------------------------------------------------ reading
def end_offset(log: Path) -> int:
    """The position behind the last byte that is written."""
    return _end_offset(log, begins_of(log))


def _end_offset(log: Path, begins: Sequence[int]) -> int:
    return begins[-1] + _size(piece_path(log, begins[-1])) if begins else 0


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def read_tail(path: Path, num_tail_bytes: int = TAIL_BYTES) -> str:
    """The last lines of a log; empty if there is none."""
    begins = begins_of(path)
    offset = max(0, _end_offset(path, begins) - num_tail_bytes)
    return read_range(path, begins, offset, num_tail_bytes).content.decode(errors="replace").strip()


def read_range(log: Path, begins: Sequence[int], offset: int, limit: int) -> LogRange:
    """Up to `limit` bytes from position `offset` on, or from the next one that is kept, in one piece."""
    place, content = offset, b""
    for begin in begins:
        place = place if content else max(place, begin)
        content += _read(piece_path(log, begin), place + len(content) - begin, limit - len(content))
    return LogRange(place, content)


def _read(path: Path, offset: int, limit: int) -> bytes:
    """What stands there; nothing if it cannot be read."""
    try:
        file = os.fdopen(open_regular(path), "rb", buffering=0)
    except OSError:
        return b""
    with file:
        num_left = os.fstat(file.fileno()).st_size - offset if offset >= 0 else 0
        length = min(limit, num_left)  # not `limit`: so much memory would be allocated
        return os.pread(file.fileno(), length, offset) if length > 0 else b""


# ------------------------------------------------------------ changing
def note_leaders(folder: Path, leaders: Iterable[tuple[int, int]]) -> None:
    """(worker, position): from there on the lines of its log are the job's. Raises OSError: none is noted."""
    lines = "".join(f"{worker} {offset}\n" for worker, offset in leaders).encode()
    descriptor = open_regular(folder / LEADERS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with os.fdopen(descriptor, "ab", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if file.write(lines) < len(lines):
            file.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / LEADERS))


def discard_logs(folder: Path, keep_bytes: int) -> None:
    """Remove files of a job's logs while they hold more than this, the farthest from their logs' ends first.

    Those of its trial run go first. The first file of the job's first worker stays, and the last of each log.
    Then ended workers' logs go, the oldest first, but the newest: its number says which were given.

    Raises:
        OSError: one of them cannot be removed.
    """
    logs = {
        (kind, number): {begin: _size(piece_path(log_path(folder, kind, number), begin)) for begin in begins}
        for kind in (TRIAL, WORKER)
        for number, begins in list_logs(folder, kind).items()
    }
    newest = dict(logs.keys())  # of each kind: the last number stands
    first = next((log for log in logs if log[0] == WORKER), None)
    excess = sum(sum(sizes.values()) for sizes in logs.values()) - keep_bytes
    ends = {log: next(reversed(sizes)) for log, sizes in logs.items()}
    parts = sorted(
        (begin == 0, log[0] == WORKER, begin - ends[log], order, log, begin)
        for order, (log, sizes) in enumerate(logs.items())
        for begin in sizes
        if begin < ends[log] and (begin or log != first)
    )
    for *_, log, begin in parts:
        if excess > 0:
            piece_path(log_path(folder, *log), begin).unlink(missing_ok=True)
            excess -= logs[log].pop(begin)
    for (kind, number), sizes in logs.items():
        path = log_path(folder, kind, number)
        # A worker on another host may write it.
        if excess > 0 and number != newest[kind] and not is_written(piece_path(path, ends[kind, number])):
            for begin in sizes:
                piece_path(path, begin).unlink(missing_ok=True)
            excess -= sum(sizes.values())


def mark_as_written(descriptor: int) -> None:
    """Lock this file of a log, so that `is_written` holds while it is open. No effect without file locks."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)


def is_written(path: Path) -> bool:
    """Whether a process has this file of a log open to write."""
    try:
        descriptor = open_regular(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
