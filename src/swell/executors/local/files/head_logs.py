"""Logs of workers on joined hosts, kept in the controller's state folder as those of its own machine are."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from swell.executors.gang.gang_settings import LogLimits
from swell.executors.hosts.file_messages import LeaderNoted, LogPiece
from swell.executors.local.files.background import Background
from swell.executors.local.logs.files import TRIAL, WORKER, discard_logs, job_folder, log_path, note_leaders
from swell.executors.local.logs.pieces import end_offset
from swell.executors.local.logs.writer import LogWriter

log = logging.getLogger("swell.agent")


class _Key(NamedTuple):
    job_id: str
    worker: int
    is_trial: bool


class HeadLogs:
    """Of one host, which says the next once it hears that the former is written."""

    def __init__(
        self, state_dir: Path, limits: LogLimits, background: Background, written: Callable[[], None]
    ) -> None:
        """`written`: tells the host."""
        self._state_dir, self._limits, self._background = state_dir, limits, background
        self._written = written
        self._writers: dict[_Key, LogWriter] = {}
        self._lock = threading.Lock()  # of the writers
        self._is_closed = False

    def hear(self, message: LogPiece | LeaderNoted) -> None:
        self._background(lambda: self._take(message), lambda _: self._written())

    def close(self) -> None:
        """The host is gone: what had come of its logs stays."""
        self._background(self._close, lambda _: None)

    def _take(self, message: LogPiece | LeaderNoted) -> None:
        if isinstance(message, LogPiece):
            self._append(message)
        else:
            self._lead(message)

    def _close(self) -> None:
        with self._lock:
            self._is_closed = True
            for writer in self._writers.values():
                writer.close()
            self._writers.clear()

    def _append(self, piece: LogPiece) -> None:
        with self._lock:
            if not self._is_closed:
                self._write(piece)

    def _write(self, piece: LogPiece) -> None:
        key = _Key(piece.job_id, piece.worker, piece.is_trial)
        writer = self._writers.get(key) or self._begin(key)
        if writer is None:
            return
        if piece.num_dropped:
            writer.note_gap(piece.num_dropped, "they came faster than they were sent to the head")
        writer.append(piece.content)
        if piece.is_last:
            writer.try_again(at_once=True)
            self._writers.pop(key).close()

    def _begin(self, key: _Key) -> LogWriter | None:
        """None: the job was pruned, or never was."""
        try:
            folder = job_folder(self._state_dir, key.job_id)
        except ValueError:
            return None
        if not folder.is_dir():
            return None
        if not key.is_trial and self._limits.job_log_bytes:
            try:
                discard_logs(folder, self._limits.job_log_bytes, live=())
            except OSError as error:
                log.warning("cannot discard old logs of %s: %s", key.job_id, error)
        path = log_path(folder, TRIAL if key.is_trial else WORKER, key.worker)
        self._writers[key] = writer = LogWriter(path, self._limits.log_bytes)
        return writer

    def _lead(self, leader: LeaderNoted) -> None:
        try:
            folder = job_folder(self._state_dir, leader.job_id)
            note_leaders(folder, [(leader.worker, end_offset(log_path(folder, WORKER, leader.worker)))])
        except (OSError, ValueError) as error:
            log.warning("cannot note the leader of %s: %s", leader.job_id, error)
