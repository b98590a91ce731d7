"""Pieces of workers' log files, and nothing else of the file system."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

#: Most bytes of one file, and of all files, in one answer.
CHUNK_BYTES = 64 << 10
ANSWER_BYTES = 1 << 20


class Whose(StrEnum):
    """Whose lines are asked for."""

    LEADER = "leader"  #: of whoever was rank 0, each from when it came to be
    WORKERS = "workers"  #: of all workers of the job's gangs
    TRIAL = "trial"  #: of the processes of its trial run


class LogChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Text of one worker's log. Asked again from `next_offset`, what was written since comes."""

    worker: int  #: its number among the job's workers, or among those of the trial run
    is_trial: bool = False
    offset: int  #: bytes
    next_offset: int
    text: str


def read_chunks(
    log_dir: Path, offsets: Mapping[int, int], worker: int | None = None, whose: Whose = Whose.WORKERS
) -> list[LogChunk]:
    """What stands behind the offsets (worker -> bytes; 0 if absent) in these logs, or in one of them.

    Leaders come in the order in which they led, and none before all is told of the one before.
    """
    is_story = whose is Whose.LEADER
    begins = _leaders(log_dir) if is_story else dict.fromkeys(_numbers(log_dir, whose), 0)
    chunks = []
    budget = ANSWER_BYTES
    for number, begin in begins.items():
        if worker in (None, number) and budget > 0:
            path = log_dir / f"{_kind(whose)}-{number}.log"
            limit = min(budget, CHUNK_BYTES)
            chunk = _chunk(path, number, max(begin, offsets.get(number, 0)), limit, whose is Whose.TRIAL)
            budget -= chunk.next_offset - chunk.offset
            chunks.append(chunk)
            if is_story and chunk.next_offset > chunk.offset:
                break
    return chunks


def parse_offsets(text: str, worker: int | None) -> dict[int, int]:
    """`0:1234,1:50` (worker:bytes), or plain bytes when one worker is asked for.

    Raises:
        ValueError: it is neither.
    """
    if worker is not None and ":" not in text:
        text = f"{worker}:{text or 0}"
    pairs = [pair.split(":") for pair in text.split(",") if pair]
    if not all(
        len(pair) == 2 and all(part.isdecimal() and len(part) < 16 for part in pair) for pair in pairs
    ):
        raise ValueError(f"offset {text[:80]!r} is not WORKER:BYTES,...; leave it out to read from the start")
    return {int(number): int(offset) for number, offset in pairs}


def _kind(whose: Whose) -> str:
    return "trial" if whose is Whose.TRIAL else "worker"


def _numbers(log_dir: Path, whose: Whose) -> list[int]:
    form = re.compile(rf"{_kind(whose)}-(\d{{1,9}})\.log", re.ASCII)
    try:
        names = os.listdir(log_dir)
    except (FileNotFoundError, NotADirectoryError):  # no worker has started yet
        return []
    return sorted(int(match[1]) for match in map(form.fullmatch, names) if match)


def _leaders(log_dir: Path) -> dict[int, int]:
    """Worker -> the first byte of its log that counts, in the order in which they led.

    The first worker, if nobody was noted.
    """
    begins: dict[int, int] = {}
    text = _read(log_dir / "leaders", 0, ANSWER_BYTES).decode("ascii", "replace")
    for number, begin in re.findall(r"^(\d{1,9}) (\d{1,15})\n", text, re.ASCII | re.MULTILINE):
        begins.setdefault(int(number), int(begin))
    return begins or dict.fromkeys(_numbers(log_dir, Whose.LEADER)[:1], 0)


def _chunk(path: Path, worker: int, offset: int, limit: int, is_trial: bool) -> LogChunk:
    content = _read(path, offset, limit)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(content)
    cut = len(decoder.getstate()[0])  # a character whose rest is not there yet
    return LogChunk(
        worker=worker,
        is_trial=is_trial,
        offset=offset,
        next_offset=offset + len(content) - cut,
        text=text,
    )


def _read(path: Path, offset: int, limit: int) -> bytes:
    """Empty if there is no such file."""
    try:
        # A link in the folder could lead anywhere, a pipe could block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.pread(descriptor, limit, offset) if is_file else b""
    finally:
        os.close(descriptor)
