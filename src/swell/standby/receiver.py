"""The standby: one head at a time keeps a copy of its state here, over a line that its token opens."""

from __future__ import annotations

import logging
import socket
import threading
from pathlib import Path

import msgspec

from swell import __version__
from swell.executors.rate_limited_log import RateLimitedLog
from swell.executors.remote.certificate import controller_context
from swell.executors.remote.head_term import read_head_term
from swell.executors.remote.token_list import TokenList
from swell.standby.copied_folder import CopiedFolder, NotCopied
from swell.standby.framed_line import FramedLine
from swell.standby.messages import STANDBY_PROTOCOL, CopyOpened, CopyRefused, MessageTaken, ToStandby

#: From the connection to the end of the first message.
OPENING_S = 10.0
FIRST_BYTES = 4096
#: So many connections may be about to say who they are.
MOST_UNKNOWN = 16
#: A head says something every second.
SILENT_S = 30.0

log = logging.getLogger("swell.standby")
_first = msgspec.msgpack.Decoder(CopyOpened)
_later = msgspec.msgpack.Decoder(ToStandby)


class CopyReceiver:
    """Serves each connection in a thread of its own, and copies for one of them: the newest."""

    def __init__(self, folder: Path, certificate: Path, tokens: TokenList) -> None:
        """`folder`: of the copy. Raises UnusableCertificate."""
        self._folder, self._tokens = folder, tokens
        self._context = controller_context(certificate)
        self._unknown = threading.Semaphore(MOST_UNKNOWN)
        self._present: FramedLine | None = None
        self._choosing, self._copying = threading.Lock(), threading.Lock()
        self._faults = RateLimitedLog()

    def serve(self, listener: socket.socket) -> None:
        """Until the listener is closed."""
        while True:
            try:
                connection, (peer, *_) = listener.accept()
            except OSError:
                return
            if not self._unknown.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve_one, args=(connection, peer), daemon=True).start()

    def _serve_one(self, connection: socket.socket, peer: str) -> None:
        try:
            line = self._identified(connection)
        except OSError as error:
            connection.close()
            if self._faults.take():
                log.warning("refused %s: %s", peer, error)
            return
        finally:
            self._unknown.release()
        if line is not None:
            self._copy(line, peer)

    def _identified(self, connection: socket.socket) -> FramedLine | None:
        """None: it was refused, and told why. Raises OSError."""
        connection.settimeout(OPENING_S)
        secured = self._context.wrap_socket(connection, server_side=True)
        line = FramedLine(secured)
        opened: CopyOpened = line.receive(_first, FIRST_BYTES)
        if why := self._why_not(opened):
            line.send(CopyRefused(why=why))
            line.close()
            return None
        secured.settimeout(SILENT_S)
        return line

    def _why_not(self, opened: CopyOpened) -> str:
        """Empty: it may go on."""
        if why := self._tokens.why_refused(opened.token, opened.secret):
            return why
        if opened.protocol != STANDBY_PROTOCOL:
            return (
                f"the head has Swell {opened.version}, the standby has {__version__}, and both must be of "
                "one version: install the same on both"
            )
        if opened.reign < (reign := read_head_term(self._folder)):
            return (
                f"another head has taken over from this copy (reign {reign}, the one that asks has "
                f"{opened.reign}): end this one with `swell down --force`"
            )
        return ""

    def _copy(self, line: FramedLine, peer: str) -> None:
        """Until it is closed, or another one comes."""
        with self._choosing:
            former, self._present = self._present, line
        if former is not None:
            former.close()
        with self._copying:
            log.info("the head at %s copies its state here", peer)
            try:
                self._take_all(line)
            except OSError as error:
                log.warning("the head at %s copies no more: %s", peer, error)
            finally:
                line.close()

    def _take_all(self, line: FramedLine) -> None:
        """Raises OSError."""
        copied = CopiedFolder(self._folder)
        try:
            line.send(MessageTaken())
            while True:
                message = line.receive(_later)
                try:
                    copied.take(message)
                except (NotCopied, OSError) as error:
                    line.send(CopyRefused(why=f"the standby cannot keep the copy: {error}"))
                    raise OSError(str(error)) from error
                line.send(MessageTaken())
        finally:
            copied.close()
