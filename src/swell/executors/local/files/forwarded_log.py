"""The output of one worker on its way to the controller's state folder: how far it was said, and taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from swell.executors.hosts.file_messages import LogPiece
from swell.executors.local.logs.pieces import begins_of, read_range
from swell.executors.local.logs.writer import gap_line

PIECE_BYTES = 256 << 10
#: Why a part of it is missing at the head, for people.
LATE = "they came faster than they were sent to the head"


class LogName(NamedTuple):
    job_id: str
    worker: int
    is_trial: bool


class LogMark(NamedTuple):
    """How far it has come."""

    read: int = 0  #: position in the log here
    at: int = 0  #: position in the log there
    num_leads: int = 0  #: of the positions from which it is its job's, so many were told
    is_line_begun: bool = False
    is_new: bool = True  #: nothing was said of it; its number is taken at the head, too, once something is
    is_over: bool = False  #: that it has ended was said


BEGIN = LogMark()


@dataclass(slots=True, eq=False)
class ForwardedLog:
    """Log of one worker, and how far it was sent and taken.

    What was not taken can be read again until it is rotated away.
    """

    name: LogName
    path: Path
    leads_from: list[int] = field(default_factory=list)  #: positions from which on it is its job's
    is_ended: bool = False
    said: LogMark = BEGIN
    taken: LogMark = BEGIN  #: the controller has it
    since: tuple[int, int] = (0, 0)  #: see `LogPiece`
    told: Callable[[], None] | None = None  #: waits until all of it was said or taken
    told_by_s: float = 0.0

    def go_back(self) -> None:
        """What was said and not taken is said again."""
        self.said = self.taken


class ReadPiece(NamedTuple):
    """What a log has to tell next."""

    log: ForwardedLog
    message: LogPiece | None  #: None: it has ended, and nothing need be told of it
    mark: LogMark  #: after it


def read_piece(log: ForwardedLog, mark: LogMark) -> ReadPiece | None:
    """What comes after a mark; None: nothing now. Reads the disk."""
    if mark.is_over:
        return None
    is_ended, name = log.is_ended, log.name  # asked first: nothing is written after the end
    leads = log.leads_from[mark.num_leads :]
    is_leading = bool(leads) and leads[0] <= mark.read
    later = leads[is_leading:]
    limit = max(0, min(PIECE_BYTES, later[0] - mark.read)) if later else PIECE_BYTES
    begins = begins_of(log.path)
    begin, content = read_range(log.path, begins, mark.read, limit)
    if begins_of(log.path) != begins:
        return None  # it was rotated meanwhile
    if later:
        content = content[: max(0, later[0] - begin)]
    end = begin + len(content)
    if begin > mark.read:
        content = gap_line(begin - mark.read, LATE, mark.is_line_begun) + content
    is_over = is_ended and not content and not leads
    if not (content or is_leading or is_over) and (name.is_trial or not mark.is_new):
        return None
    after = LogMark(
        read=end,
        at=mark.at + len(content),
        num_leads=mark.num_leads + is_leading,
        is_line_begun=not content.endswith(b"\n") if content else mark.is_line_begun,
        is_new=False,
        is_over=is_over,
    )
    if is_over and name.is_trial and mark.is_new:
        return ReadPiece(log, None, after)
    piece = LogPiece(
        job_id=name.job_id,
        worker=name.worker,
        is_trial=name.is_trial,
        at=mark.at,
        since=log.since,
        content=content,
        is_leading=is_leading,
        is_last=is_over,
    )
    return ReadPiece(log, piece, after)


def read_rest(log: ForwardedLog, limit: int) -> list[ReadPiece]:
    """All that comes after what was said, but no more than a piece above `limit` bytes of it."""
    pieces: list[ReadPiece] = []
    begun = mark = log.said
    while mark.at - begun.at < limit and (piece := read_piece(log, mark)) is not None:
        pieces.append(piece)
        mark = piece.mark
    return pieces
