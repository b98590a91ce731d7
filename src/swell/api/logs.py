"""Pieces of workers' log files, and nothing else of the file system."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

LOG_NAME = re.compile(r"worker-(\d{1,9})\.log", re.ASCII)

#: Most bytes of one file, and of all files, in one answer.
CHUNK_BYTES = 64 << 10
ANSWER_BYTES = 1 << 20


class LogChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Text of one worker's log. Asked again from `next_offset`, what was written since comes."""

    worker: int
    offset: int  #: bytes
    next_offset: int
    text: str


def read_chunks(log_dir: Path, offsets: Mapping[int, int], worker: int | None = None) -> list[LogChunk]:
    """What stands behind the offsets (worker -> bytes; 0 if absent) in the logs of all workers, or of one."""
    chunks = []
    budget = ANSWER_BYTES
    for number in sorted(_workers(log_dir)):
        if worker in (None, number) and budget > 0:
            path = log_dir / f"worker-{number}.log"
            chunk = _read(path, number, offsets.get(number, 0), min(budget, CHUNK_BYTES))
            budget -= chunk.next_offset - chunk.offset
            chunks.append(chunk)
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


def _workers(log_dir: Path) -> list[int]:
    try:
        names = os.listdir(log_dir)
    except FileNotFoundError:  # no worker has started yet
        return []
    return [int(match[1]) for match in map(LOG_NAME.fullmatch, names) if match]


def _read(path: Path, worker: int, offset: int, limit: int) -> LogChunk:
    try:
        # A link in the folder could lead anywhere, a pipe could block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return LogChunk(worker=worker, offset=offset, next_offset=offset, text="")
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        content = os.pread(descriptor, limit, offset) if is_file else b""
    finally:
        os.close(descriptor)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(content)
    cut = len(decoder.getstate()[0])  # a character whose rest is not there yet
    return LogChunk(worker=worker, offset=offset, next_offset=offset + len(content) - cut, text=text)
