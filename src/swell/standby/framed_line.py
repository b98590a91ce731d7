"""One end of a line between a head and its standby: packed messages, each behind its length, over TLS."""

from __future__ import annotations

import socket
import struct
from typing import Any

import msgspec

LENGTH = struct.Struct(">I")
#: Of one message: a file of a job's code may be as large as that.
MAX_MESSAGE_BYTES = 1 << 30
_encode = msgspec.msgpack.Encoder().encode


class LineBroken(OSError):
    """The other side is gone, or says what is no message."""


class FramedLine:
    """Blocking: each call takes as long as the time-out of the socket at most, between two of its bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, message: msgspec.Struct) -> None:
        """Raises OSError."""
        body = _encode(message)
        self._connection.sendall(LENGTH.pack(len(body)) + body)

    def receive(self, decoder: msgspec.msgpack.Decoder[Any], limit: int = MAX_MESSAGE_BYTES) -> Any:
        """The next message. Raises OSError."""
        (length,) = LENGTH.unpack(self._read(LENGTH.size))
        if length > limit:
            raise LineBroken(f"a message has {length} bytes, and may have {limit}")
        try:
            return decoder.decode(self._read(length))
        except msgspec.MsgspecError as error:
            raise LineBroken(f"what was said is no message ({error})") from error

    def _read(self, length: int) -> bytearray:
        body = bytearray()
        while len(body) < length:
            part = self._connection.recv(min(1 << 20, length - len(body)))
            if not part:
                raise LineBroken("the line was closed")
            body += part
        return body

    def close(self) -> None:
        """The other side hears of it; a call in another thread raises."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is gone already
        self._connection.close()
