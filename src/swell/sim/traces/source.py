"""A file of text that is read piece by piece, however long it or its lines are, packed or not."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO, cast

from swell.sim.traces.entry import TraceError

#: A longer line is cut there, and is malformed in every format.
LONGEST_LINE = 1 << 20
HEAD_CHARS = 1 << 16
#: By what a packed file begins with.
UNPACKERS: dict[bytes, Callable[[IO[bytes]], IO[bytes]]] = {
    b"\x1f\x8b": lambda raw: cast("IO[bytes]", gzip.GzipFile(fileobj=raw)),
    b"BZh": lambda raw: cast("IO[bytes]", bz2.BZ2File(raw)),
    b"\xfd7zXZ\0": lambda raw: cast("IO[bytes]", lzma.LZMAFile(raw)),  # noqa: SIM115
}
OTHER_PACKERS = {b"PK\x03\x04": "zip", b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf": "7z"}
MAGIC_BYTES = 6


class Source:
    """Where a trace is read from. Text is UTF-8; bytes that are none become U+FFFD."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def open(self) -> Iterator[TextIO]:
        """Raises TraceError if the file cannot be read, then or while it is."""
        if self.path.is_fifo():  # what its format was known by would be missing from its jobs
            raise TraceError(f"{self.path} is a pipe, and a trace is opened twice; write it to a file first")
        try:
            with self.path.open("rb") as raw:
                yield io.TextIOWrapper(self._unpacked(raw), "utf-8-sig", "replace")
        except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
            raise TraceError(f"{self.path} is damaged ({error}); fetch it again") from error
        except OSError as error:
            raise TraceError(f"cannot read {self.path}: {error.strerror or error}") from error

    def _unpacked(self, raw: io.BufferedReader) -> IO[bytes]:
        begin = raw.peek(MAGIC_BYTES)
        for magic, packer in OTHER_PACKERS.items():
            if begin.startswith(magic):
                raise TraceError(
                    f"{self.path} is packed with {packer}; unpack it, or pack it with gzip, bzip2 or xz"
                )
        unpackers = [unpack for magic, unpack in UNPACKERS.items() if begin.startswith(magic)]
        return unpackers[0](raw) if unpackers else raw

    def head(self) -> str:
        """The beginning, as far as a format is known by it."""
        with self.open() as text:
            return text.read(HEAD_CHARS)

    def lines(self) -> Iterator[tuple[int, str]]:
        """(number from 1, text without its end) of every line that is not blank."""
        with self.open() as text:
            number = 0
            while line := text.readline(LONGEST_LINE):
                number += 1
                if len(line) == LONGEST_LINE:
                    _skip_rest(text, line)
                elif not line.strip():
                    continue
                yield number, line.rstrip("\r\n")


def _skip_rest(text: TextIO, piece: str) -> None:
    while piece and not piece.endswith("\n"):
        piece = text.readline(LONGEST_LINE)
