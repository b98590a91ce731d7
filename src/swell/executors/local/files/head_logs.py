"""Logs of workers on joined hosts, kept in the controller's state folder as those of its own machine are."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from swell.executors.gang.gang_settings import LogLimits
from swell.executors.hosts.file_messages import LogPiece
from swell.executors.local.files.background import Background
from swell.executors.local.files.forwarded_log import LogName
from swell.executors.local.logs.files import TRIAL, WORKER, discard_logs, job_folder, log_path, note_leaders
from swell.executors.local.logs.writer import LogWriter

log = logging.getLogger("swell.agent")


@dataclass(slots=True)
class _Log:
    """Touched by one piece of work at a time."""

    pieces: deque[tuple[LogPiece, Callable[[int], None]]] = field(default_factory=deque)  #: to be written
    writer: LogWriter | None = None
    at: int = 0  #: up to there it was taken, if there is a writer
    is_busy: bool = False
    is_left: bool = False  #: its host is gone


class HeadLogs:
    """Logs of the workers on all hosts. A piece is kept once, however often a host sends it."""

    def __init__(self, state_dir: Path, limits: LogLimits, background: Background) -> None:
        self._state_dir, self._limits, self._background = state_dir, limits, background
        self._logs: dict[LogName, _Log] = {}

    def hear(self, piece: LogPiece, written: Callable[[int], None]) -> None:
        """`written` is called with the position of the log's end when it is written, as far as it can be."""
        name = name_of(piece)
        entry = self._logs.setdefault(name, _Log())
        entry.is_left = False
        entry.pieces.append((piece, written))
        self._go_on(name, entry)

    def leave(self, names: Iterable[LogName]) -> None:
        """Their host is gone: what had come stays, and more may come when it is back."""
        for name in names:
            if (entry := self._logs.get(name)) is not None:
                entry.is_left = True
                self._go_on(name, entry)

    def _go_on(self, name: LogName, entry: _Log) -> None:
        if entry.is_busy:
            return
        if not entry.pieces:
            if entry.writer is None or entry.is_left:
                del self._logs[name]
                _close(entry)
            return
        piece, written = entry.pieces.popleft()
        entry.is_busy = True

        def settle(end: int) -> None:
            entry.is_busy = False
            written(end)
            if not entry.is_busy:
                self._go_on(name, entry)

        self._background(lambda: self._take(entry, piece), settle)

    # ------------------------------------------------------------ in the background
    def _take(self, entry: _Log, piece: LogPiece) -> int:
        folder = self._folder(piece.job_id)
        if folder is None:
            return piece.at
        if entry.writer is None:
            entry.writer = self._open(folder, piece)
            taken, end = piece.since
            entry.at = taken + max(0, entry.writer.end - end)
        writer = entry.writer
        if piece.is_leading and piece.at >= entry.at:
            _note_leader(folder, piece, writer.end)
        writer.append(piece.content[max(0, entry.at - piece.at) :])
        entry.at = max(entry.at, piece.at + len(piece.content))
        if piece.is_last:
            writer.try_again(at_once=True)
            _close(entry)
        return writer.end

    def _folder(self, job_id: str) -> Path | None:
        """None: the job was pruned, or never was."""
        try:
            folder = job_folder(self._state_dir, job_id)
        except ValueError:
            return None
        return folder if folder.is_dir() else None

    def _open(self, folder: Path, piece: LogPiece) -> LogWriter:
        if not piece.is_trial and self._limits.job_log_bytes:
            try:
                discard_logs(folder, self._limits.job_log_bytes, live=())
            except OSError as error:
                log.warning("cannot discard old logs of %s: %s", piece.job_id, error)
        path = log_path(folder, TRIAL if piece.is_trial else WORKER, piece.worker)
        return LogWriter(path, self._limits.log_bytes)


def name_of(piece: LogPiece) -> LogName:
    """The log that this is a piece of."""
    return LogName(piece.job_id, piece.worker, piece.is_trial)


def _close(entry: _Log) -> None:
    if entry.writer is not None:
        entry.writer.close()
        entry.writer = None


def _note_leader(folder: Path, piece: LogPiece, position: int) -> None:
    try:
        note_leaders(folder, [(piece.worker, position)])
    except OSError as error:
        log.warning("cannot note the leader of %s: %s", piece.job_id, error)
