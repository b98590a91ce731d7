"""Pieces of workers' log files, and nothing else of the file system."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from swell.api.fields import InvalidField
from swell.executors.local.logs import files
from swell.executors.storage import work_folder

#: Most bytes of one file, and of all files, in one answer.
CHUNK_BYTES = 64 << 10
ANSWER_BYTES = 1 << 20
#: Of all files together, where only the last lines are wanted.
TAIL_BYTES = 128 << 10


class LogOwner(StrEnum):
    """Whose lines are asked for."""

    LEADER = "leader"  #: of each worker that was rank 0, from when it came to be
    WORKERS = "workers"  #: of all workers of the job's gangs
    TRIAL = "trial"  #: of the processes of its trial run


class LogChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Text of one worker's log. Asked again from `next_offset`, what was written since comes."""

    #: Its number among the job's workers, or among those of the trial run; or `2.1`, of one with several
    #: processes: that at position 1.
    worker: files.LogName
    is_trial: bool = False
    offset: int  #: position of the text in all that the worker has printed, in bytes
    next_offset: int
    text: str
    discarded_bytes: int = 0  #: that stood before the text, were asked for, and are no longer kept


def read_tail_offsets(
    log_dir: Path, whose: LogOwner, num_bytes: int = TAIL_BYTES
) -> dict[files.LogName, int]:
    """Worker -> where a line begins in the last part of its log. Of leaders the last one has a part."""
    log_dir, kind, _, begins = _list_logs(log_dir, whose)
    num_each = num_bytes if whose is LogOwner.LEADER else num_bytes // max(1, len(begins))
    found = {}
    for number, begin in begins.items():
        log = files.log_path(log_dir, kind, number)
        is_last = number == next(reversed(begins))
        size = num_each if whose is not LogOwner.LEADER or is_last else 0
        found[number] = max(
            begin, _line_begin(log, files.end_offset(log) - size) if size else files.end_offset(log)
        )
    return found


def _list_logs(log_dir: Path, whose: LogOwner) -> tuple[Path, str, files.Listing, dict[files.LogName, int]]:
    """Folder, kind and listing of these logs, and the first byte of each that counts."""
    kind = files.TRIAL if whose is LogOwner.TRIAL else files.WORKER
    folder = work_folder(log_dir)
    listing = files.list_logs(folder, kind)
    begins = _leaders(log_dir, listing) if whose is LogOwner.LEADER else dict.fromkeys(listing, 0)
    return folder, kind, listing, begins


def _line_begin(log: Path, offset: int) -> int:
    """The first line that begins at this position or later; the position, if that is far away."""
    if offset <= 0:
        return 0
    span = files.read_range(log, files.begins_of(log), offset, CHUNK_BYTES)
    return span.begin + (span.content.find(b"\n") + 1)


def read_chunks(
    log_dir: Path,
    offsets: Mapping[files.LogName, int],
    worker: files.LogName | None = None,
    whose: LogOwner = LogOwner.WORKERS,
) -> list[LogChunk]:
    """What stands behind the offsets (worker -> bytes; 0 if absent) in these logs, or in one of them.

    Leaders come in the order in which they led, and none before all is told of the one before.
    """
    log_dir, kind, listing, begins = _list_logs(log_dir, whose)
    wanted = {
        number: max(begin, offsets.get(number, 0))
        for number, begin in begins.items()
        if worker is None or str(worker) == str(number)
    }
    return _read_all(log_dir, kind, listing, wanted, whose is LogOwner.LEADER)


def is_news(chunk: LogChunk) -> bool:
    """Whether the chunk has text, or reports discarded text."""
    return chunk.next_offset > chunk.offset or chunk.discarded_bytes > 0


def _read_all(
    log_dir: Path, kind: str, listing: files.Listing, wanted: Mapping[files.LogName, int], is_story: bool
) -> list[LogChunk]:
    """`is_story`: nothing of a log before all is told of the one before."""
    chunks, budget = [], ANSWER_BYTES
    for number, offset in wanted.items():
        limit = budget if is_story else min(budget, CHUNK_BYTES)
        if limit > 0:
            log = files.log_path(log_dir, kind, number)
            chunk = _chunk(log, listing.get(number, ()), number, offset, limit)
            budget -= chunk.next_offset - chunk.offset
            chunks.append(chunk)
            if is_story and is_news(chunk):
                break
    return chunks


def parse_offsets(text: str, worker: files.LogName | None) -> dict[files.LogName, int]:
    """`0:1234,1:50` (worker:bytes), or plain bytes when one worker is asked for.

    Raises:
        InvalidField: it is neither.
    """
    if worker is not None and ":" not in text:
        text = f"{worker}:{text or 0}"
    pairs = [pair.split(":") for pair in text.split(",") if pair]
    forms = (files.LOG_NAME, r"\d{1,15}")
    if not all(len(pair) == 2 and all(map(re.fullmatch, forms, pair)) for pair in pairs):
        raise InvalidField(
            "offset", f"{text[:80]!r} is not WORKER:BYTES,...; leave it out to read from the start"
        )
    return {files.parse_log_name(name): int(offset) for name, offset in pairs}


def _leaders(log_dir: Path, listing: files.Listing) -> dict[files.LogName, int]:
    """Worker -> the first byte of its log that counts, in the order in which they led.

    The first worker, if none was noted.
    """
    begins: dict[files.LogName, int] = {}
    text = files.read_range(log_dir / files.LEADERS, (0,), 0, ANSWER_BYTES).content.decode("ascii", "replace")
    for number, begin in re.findall(r"^(\d{1,9}) (\d{1,15})\n", text, re.ASCII | re.MULTILINE):
        begins.setdefault(int(number), int(begin))
    return begins or dict.fromkeys(list(listing)[:1], 0)


def _chunk(log: Path, begins: tuple[int, ...], worker: files.LogName, offset: int, limit: int) -> LogChunk:
    span = files.read_range(log, begins, offset, limit)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(span.content)
    cut = len(decoder.getstate()[0])  # a character whose rest is not there yet
    return LogChunk(
        worker=worker,
        is_trial=log.name.startswith(files.TRIAL),
        offset=span.begin,
        next_offset=span.begin + len(span.content) - cut,
        text=text,
        discarded_bytes=span.begin - offset,
    )
