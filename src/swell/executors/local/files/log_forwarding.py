"""What workers of this host print, on its way to the controller's state folder.

One piece at a time is under way, of the logs in turn, and not more than `RATE_BYTES_PER_S` on average. What
is rotated away before its turn comes is missing there; a line says how much.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from swell.executors.hosts.file_messages import LeaderNoted, LogPiece
from swell.executors.local.files.background import Background
from swell.executors.local.logs.pieces import begins_of, read_range

PIECE_BYTES = 256 << 10
RATE_BYTES_PER_S = 4 << 20
#: So much may follow at once after a quiet time.
BURST_BYTES = 8 << 20
#: The end of a worker is told when its last words are at the head, but no later than so long after it.
LAST_WORDS_S = 2.0

LogMessage = LogPiece | LeaderNoted


class LogName(NamedTuple):
    job_id: str
    worker: int
    is_trial: bool


@dataclass(slots=True)
class _Log:
    name: LogName
    path: Path
    sent: int = 0  #: position up to which it was sent
    leads_from: deque[int] = field(default_factory=deque)  #: positions, not told yet
    is_new: bool = True  #: nothing was said of it; its number is taken at the head, too, once something is
    is_ended: bool = False
    is_done: bool = False  #: the last piece was sent
    told: Callable[[], None] | None = None  #: waits for that
    told_by_s: float = 0.0


class _Found(NamedTuple):
    """What a log has to tell next."""

    log: _Log
    message: LogMessage | None  #: None: nothing now
    sent: int
    is_last: bool = False


class LogForwarder:
    """Of one host. All methods but the reading of logs take no time."""

    def __init__(
        self, say: Callable[[LogMessage], None], now_s: Callable[[], float], background: Background
    ) -> None:
        """`say`: tells the controller, which answers each message by `LogTaken`."""
        self._say, self._now_s, self._background = say, now_s, background
        self._logs: dict[LogName, _Log] = {}  #: the one whose turn it is first
        self._is_looking = self._is_untaken = False
        self._untaken_lead: tuple[_Log, int] | None = None
        self._may_send = float(BURST_BYTES)
        self._seen_s = now_s()

    def begin(self, name: LogName, path: Path) -> None:
        """A worker is about to print."""
        self._logs[name] = _Log(name, path)
        self.tick()

    def lead(self, name: LogName, position: int) -> None:
        """What it prints from here on is its job's."""
        if (log := self._logs.get(name)) is not None:
            log.leads_from.append(position)
            self.tick()

    def end(self, name: LogName, told: Callable[[], None]) -> None:
        """The worker is gone. `told` is called once its last words are at the head, or cannot be soon."""
        log = self._logs.get(name)
        if log is None:
            told()
            return
        log.is_ended, log.told, log.told_by_s = True, told, self._now_s() + LAST_WORDS_S
        self.tick()

    def taken(self) -> None:
        """The controller has what was said last."""
        self._is_untaken, self._untaken_lead = False, None
        for log in [log for log in self._logs.values() if log.is_done]:
            del self._logs[log.name]
            self._tell(log)
        self.tick()

    @property
    def unsent(self) -> tuple[LogName, ...]:
        """Of which the end was not taken."""
        return tuple(self._logs)

    def restart(self) -> None:
        """Another controller is there now. Output that was under way to the former one may be missing."""
        for log in self._logs.values():
            log.is_new, log.is_done = True, False
        if self._untaken_lead is not None:  # nothing has followed it: told twice it says the same
            log, position = self._untaken_lead
            log.leads_from.appendleft(position)
        self._is_untaken, self._untaken_lead = False, None
        self.tick()

    def tick(self) -> None:
        """Send what there is. To be called several times a second."""
        now_s = self._now_s()
        self._may_send += RATE_BYTES_PER_S * (now_s - self._seen_s)
        self._may_send = min(self._may_send, float(BURST_BYTES))
        self._seen_s = now_s
        for log in [log for log in self._logs.values() if log.told is not None and log.told_by_s <= now_s]:
            self._tell(log)
        if self._is_looking or self._is_untaken or self._may_send < PIECE_BYTES or not self._logs:
            return
        self._is_looking = True
        logs = [log for log in self._logs.values() if not log.is_done]
        self._background(lambda: _look(logs), self._found)

    def _tell(self, log: _Log) -> None:
        told, log.told = log.told, None
        if told is not None:
            told()

    def _found(self, found: _Found | None) -> None:
        self._is_looking = False
        if found is None:
            return
        log = found.log
        log.sent, log.is_new, log.is_done = found.sent, False, found.is_last
        self._logs[log.name] = self._logs.pop(log.name)
        if found.message is None:  # it has ended, and nothing need be told of it
            self._is_untaken = False
            self.taken()
            return
        if isinstance(found.message, LeaderNoted):
            self._untaken_lead = log, log.leads_from.popleft()
        else:
            self._may_send -= len(found.message.content)
        self._is_untaken = True
        self._say(found.message)


def _look(logs: list[_Log]) -> _Found | None:
    """The first that has something to tell."""
    return next((found for log in logs if (found := _next_of(log)) is not None), None)


def _next_of(log: _Log) -> _Found | None:
    is_ended, name = log.is_ended, log.name  # asked first: nothing is written after the end
    limit = PIECE_BYTES
    if log.leads_from:
        if log.sent >= log.leads_from[0] and not log.is_new:
            return _Found(log, LeaderNoted(job_id=name.job_id, worker=name.worker), log.sent)
        limit = max(0, min(limit, log.leads_from[0] - log.sent))
    begins = begins_of(log.path)
    begin, content = read_range(log.path, begins, log.sent, limit)
    if begins_of(log.path) != begins:
        return None  # it was rotated meanwhile
    is_last = is_ended and not content and not log.leads_from
    if not content and not is_last and (name.is_trial or not log.is_new):
        return None
    if is_last and name.is_trial and log.is_new:
        return _Found(log, None, log.sent, is_last=True)
    piece = LogPiece(
        job_id=name.job_id,
        worker=name.worker,
        is_trial=name.is_trial,
        content=content,
        num_dropped=begin - log.sent,
        is_last=is_last,
    )
    return _Found(log, piece, begin + len(content), is_last)
