"""The head's end of a line to its standby: TLS to the certificate that the token names, and to no other."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from swell import __version__
from swell.executors.remote.certificate import has_fingerprint, host_context
from swell.executors.remote.head_term import UnusableHeadTerm, read_head_term
from swell.executors.remote.host_address import HostAddress
from swell.executors.remote.join_token import InvalidToken, read_token
from swell.standby.framed_line import FramedLine
from swell.standby.messages import STANDBY_PROTOCOL, CopyOpened, CopyRefused, FromStandby, ToStandby
from swell.standby.sender import StandbyError
from swell.store.folder import StateFolder

#: From a message to its answer: a file may be large, and its disk slow.
ANSWER_S = 30.0

_decoder = msgspec.msgpack.Decoder(FromStandby)


class TlsLine:
    """A `StandbyLine`."""

    def __init__(self, line: FramedLine) -> None:
        self._line = line

    def tell(self, message: ToStandby | CopyOpened) -> None:
        """Raises StandbyError, OSError."""
        self._line.send(message)
        answer = self._line.receive(_decoder)
        if isinstance(answer, CopyRefused):
            raise StandbyError(answer.why)


@contextmanager
def standby_line(folder: StateFolder, address: HostAddress) -> Iterator[TlsLine]:
    """A line for the head of this state folder. Raises StandbyError, OSError."""
    try:
        token, reign = read_token(folder.standby_token), read_head_term(folder.path)
    except (InvalidToken, UnusableHeadTerm) as error:
        raise StandbyError(str(error)) from error
    with (
        socket.create_connection((address.host, address.port), timeout=ANSWER_S) as connection,
        host_context().wrap_socket(connection) as secured,
    ):
        if not has_fingerprint(secured, token.fingerprint):
            raise StandbyError(
                f"what answers at {address} has another certificate than {folder.standby_token} names; no "
                "other is trusted: copy the token that `swell standby` wrote there"
            )
        line = TlsLine(FramedLine(secured))
        line.tell(
            CopyOpened(
                protocol=STANDBY_PROTOCOL,
                version=__version__,
                token=token.name,
                secret=token.secret.hex(),
                reign=reign,
            )
        )
        yield line
