"""Lines out of a stream of bytes that comes in pieces. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

#: How a decoder refuses a line: besides what is no JSON, what is no UTF-8 and what is nested too deeply.
NO_MESSAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class LineTooLong(ValueError):
    """The other side sends a line that is longer than any of its messages may be."""


class LineBuffer:
    """What has been received, given back line by line, without the ends of lines.

    However the bytes were cut into pieces, the lines are the same. A line that is too long is an error as
    soon as so much of it is there, and stays one: nothing comes after it.
    """

    def __init__(self, max_line_bytes: int | None = None) -> None:
        """`max_line_bytes`: of a line without its end; None: no limit."""
        self.max_line_bytes = max_line_bytes  #: counts from the next line on, whether it has come or not
        self._received = bytearray()
        self._num_searched = 0  #: bytes at the begin that have no end of a line

    def feed(self, data: bytes) -> None:
        self._received += data

    def next_line(self) -> bytes | None:
        """The oldest complete line; None: there is none yet.

        Raises:
            LineTooLong: it is longer than the limit, complete or not.
        """
        end = self._received.find(b"\n", self._num_searched)
        num_bytes = len(self._received) if end < 0 else end
        if self.max_line_bytes is not None and num_bytes > self.max_line_bytes:
            raise LineTooLong(f"a line has more than the {self.max_line_bytes} bytes that are allowed")
        if end < 0:
            self._num_searched = num_bytes
            return None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        self._num_searched = 0
        return line

    def lines(self) -> Iterator[bytes]:
        """All complete lines, each taken out when it is asked for. Raises LineTooLong, see `next_line`."""
        while (line := self.next_line()) is not None:
            yield line
