"""What workers of this host print, on its way to the controller's state folder.

One piece at a time is under way, of the logs in turn, and not more than `RATE_BYTES_PER_S` on average. What
is rotated away before its turn comes is missing there; a line says how much. When a worker has ended and the
controller takes nothing, the rest is put on the way before the end is told. What no controller has taken is
said again to the next one, or in the next term of the lease: it knows by the positions what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from swell.executors.hosts.file_messages import LogPiece, LogTaken
from swell.executors.local.files.background import Background
from swell.executors.local.files.forwarded_log import (
    PIECE_BYTES,
    ForwardedLog,
    LogName,
    ReadPiece,
    read_piece,
    read_rest,
)

RATE_BYTES_PER_S = 4 << 20
#: So much may follow at once after a quiet time.
BURST_BYTES = 8 << 20
#: The end of a worker waits so long until its last words are at the head; then they go on their way unasked.
LAST_WORDS_S = 2.0
#: So many of them, in bytes. What is above that comes after the end was told.
LAST_WORDS_BYTES = 1 << 20


class LogForwarder:
    """Forwarder of one host's logs in one term. All methods but the reading of logs take no time."""

    def __init__(
        self,
        say: Callable[[LogPiece], None],
        now_s: Callable[[], float],
        background: Background,
        left: Iterable[ForwardedLog] = (),
    ) -> None:
        """
        Args:
            say: tells the controller, which answers each message by `LogTaken`.
            left: see `leave`.
        """
        self._say, self._now_s, self._background = say, now_s, background
        self._logs = {log.name: log for log in left}  #: the one whose turn it is first
        self._under_way: dict[int, ReadPiece] = {}  #: said and not taken, by number
        self._num_said = self._num_restarts = 0
        self._is_looking = self._is_closed = False
        self._may_send = float(BURST_BYTES)
        self._seen_s = now_s()

    def begin(self, name: LogName, path: Path) -> None:
        """A worker is about to print."""
        self._logs[name] = ForwardedLog(name, path)
        self.tick()

    def lead(self, name: LogName, position: int) -> None:
        """What it prints from here on is its job's."""
        if (log := self._logs.get(name)) is not None:
            log.leads_from.append(position)
            self.tick()

    def end(self, name: LogName, told: Callable[[], None]) -> None:
        """The worker is gone. `told` is called once its last words are at the head, or on their way."""
        log = self._logs.get(name)
        if log is None:
            told()
            return
        log.is_ended, log.told, log.told_by_s = True, told, self._now_s() + LAST_WORDS_S
        self.tick()

    def taken(self, message: LogTaken) -> None:
        """The controller has this piece."""
        piece = self._under_way.pop(message.number, None)
        if piece is None:
            return
        log = piece.log
        log.taken, log.since = piece.mark, (piece.mark.at, message.end)
        if piece.mark.is_over:
            self._finish(log)
        self.tick()

    @property
    def unsent(self) -> tuple[LogName, ...]:
        """Logs whose end the controller has not taken."""
        return tuple(self._logs)

    def restart(self) -> None:
        """Another controller is there now, or another term: what was not taken is said again."""
        self._num_restarts += 1
        self._under_way.clear()
        for log in self._logs.values():
            log.go_back()
        self.tick()

    def leave(self) -> tuple[ForwardedLog, ...]:
        """No worker is left, and the controller hears nothing more of this term.

        Returns:
            Logs of which it may not have all: for the forwarder of the next term.
        """
        self._is_closed = True
        for log in self._logs.values():
            log.go_back()
            log.is_ended, log.told = True, None
        return tuple(self._logs.values())

    def tick(self) -> None:
        """Send what there is. To be called several times a second."""
        now_s = self._now_s()
        self._may_send += RATE_BYTES_PER_S * (now_s - self._seen_s)
        self._may_send = min(self._may_send, float(BURST_BYTES))
        self._seen_s = now_s
        if self._is_looking or self._is_closed or not self._logs:
            return
        logs = list(self._logs.values())
        due = [log for log in logs if log.told is not None and log.told_by_s <= now_s]
        if due:
            self._look(lambda: _rest_of(due), lambda pieces: self._say_rest(due, pieces))
        elif not self._under_way and self._may_send >= PIECE_BYTES:
            self._look(lambda: _first_of(logs), self._say_all)

    def _look(self, read: Callable[[], list[ReadPiece]], found: Callable[[list[ReadPiece]], None]) -> None:
        """Read in the background. What was read before a restart is read again."""
        self._is_looking, num_restarts = True, self._num_restarts

        def settle(pieces: list[ReadPiece]) -> None:
            self._is_looking = False
            if num_restarts != self._num_restarts:
                self.tick()
            elif not self._is_closed:
                found(pieces)

        self._background(read, settle)

    def _say_rest(self, logs: list[ForwardedLog], pieces: list[ReadPiece]) -> None:
        """Send the rest of logs whose workers have ended, and then let these ends be reported."""
        self._say_all(pieces)
        for log in logs:
            self._tell(log)

    def _say_all(self, pieces: list[ReadPiece]) -> None:
        for piece in pieces:
            log = piece.log
            log.said = piece.mark
            self._logs[log.name] = self._logs.pop(log.name)
            if piece.message is None:
                self._finish(log)
                continue
            self._may_send -= len(piece.message.content)
            self._num_said += 1
            self._under_way[self._num_said] = piece
            self._say(msgspec.structs.replace(piece.message, number=self._num_said))
        if pieces and not self._under_way:
            self.tick()

    def _finish(self, log: ForwardedLog) -> None:
        """Nothing of it is left to be said."""
        self._logs.pop(log.name, None)
        self._tell(log)

    def _tell(self, log: ForwardedLog) -> None:
        told, log.told = log.told, None
        if told is not None:
            told()


def _first_of(logs: list[ForwardedLog]) -> list[ReadPiece]:
    """Return the next piece of the first log that has one; empty: none has."""
    return next(([piece] for log in logs if (piece := read_piece(log, log.said)) is not None), [])


def _rest_of(logs: list[ForwardedLog]) -> list[ReadPiece]:
    return [piece for log in logs for piece in read_rest(log, LAST_WORDS_BYTES)]
