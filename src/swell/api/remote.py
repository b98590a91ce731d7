"""The line to a platform on another machine: TLS to the one known certificate, resumed where it breaks."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ssl import SSLContext, SSLSocket
from typing import Any

import h11

from swell.api.errors import AccessRefused, NoAnswer, NoPlatform
from swell.api.login import Login
from swell.api.transport import HEALTH_WITHIN_S, RESUME_WITHIN_S, Headers, Line, Transport, check_token
from swell.api.verbs import ANSWER_WITHIN_S, TERMINAL_UPGRADE, TerminalAddress, Verb
from swell.executors.local.terminal import MOST_LINE_BYTES
from swell.model.errors import InvalidOption
from swell.model.quantities import span
from swell.wire.peers import pinning_context

#: Seconds between two tries.
TRY_EVERY_S = 0.3


class RemoteTransport(Transport):
    """Requests over TLS."""

    is_far = True

    def __init__(self, login: Login) -> None:
        self._login = login
        self._context = pinning_context()

    def __getattr__(self, name: str) -> Any:
        raise InvalidOption(f"the platform at {self._login.url} is on another machine: it has no {name} here")

    def ask(self, verb: Verb, given: Mapping[str, Any]) -> Any:
        """Ask again where the line broke. A verb that makes a job has a key, by which the client does so."""
        give_up_s = time.monotonic() + RESUME_WITHIN_S
        while True:
            try:
                return super().ask(verb, given)
            except (NoPlatform, NoAnswer):
                is_over = time.monotonic() >= give_up_s
                if is_over or verb.makes_job or not verb.is_repeatable:
                    raise
                time.sleep(TRY_EVERY_S)

    async def open_terminal(
        self, job_id: str, address: TerminalAddress
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """See `Transport`. The head passes on what is said."""
        host, port = self._login.address
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(host, port, ssl=self._context, limit=MOST_LINE_BYTES), ANSWER_WITHIN_S
        )
        try:
            self._check_certificate(writer.get_extra_info("ssl_object").getpeercert(True))
            lines = {**self._headers(), "Connection": "Upgrade", "Upgrade": TERMINAL_UPGRADE}
            asked = h11.Request(method="GET", target=f"/v1/jobs/{job_id}/terminal", headers=[*lines.items()])
            writer.write(h11.Connection(h11.CLIENT).send(asked) or b"")
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), ANSWER_WITHIN_S)
            if head.split(b" ", 2)[1] != b"101":
                raise ConnectionError(
                    f"the platform does not lead to the terminal ({head.splitlines()[0]!r})"
                )
        except BaseException:
            writer.close()
            raise
        return reader, writer

    # ------------------------------------------------------------ lines
    def _headers(self) -> Headers:
        return {
            "Host": self._login.url.removeprefix("https://"),
            "Connection": "close",
            "Authorization": f"Bearer {self._login.token}",
        }

    @contextmanager
    def _line(self, within_s: float) -> Iterator[Line]:
        with _tls(self._login, within_s, self._context) as connection:
            self._check_certificate(connection.getpeercert(True))
            yield connection, h11.Connection(h11.CLIENT)

    def _check_certificate(self, certificate: bytes | None) -> None:
        """Before anything is sent, the token above all. Raises AccessRefused: it is not the known one."""
        found = _fingerprint(certificate)
        if not hmac.compare_digest(found, self._login.fingerprint):
            raise AccessRefused(
                f"{self._login.url} has a certificate with fingerprint {found}, and not "
                f"{self._login.fingerprint}: another machine may answer in its place, and nothing was sent; "
                "ask the owner of the platform, and log in again if it has another certificate now"
            )

    def _gone(self) -> NoPlatform:
        return NoPlatform(f"no platform answers at {self._login.url}; try again, or ask its owner")

    def _silent(self, within_s: float) -> NoAnswer:
        return NoAnswer(f"the platform at {self._login.url} has not answered for {span(within_s)}; try again")


def open_remote(login: Login) -> RemoteTransport:
    """Connect to a platform on another machine.

    Raises:
        NoPlatform, NoAnswer: it does not answer.
        AccessRefused: it has another certificate, or the token is not in force.
    """
    check_token(login.token)
    transport = RemoteTransport(login)
    transport.health()
    return transport


def seen_fingerprint(url: str) -> str:
    """The fingerprint of the certificate that is shown at an address. Raises NoPlatform."""
    login = Login(url=url, fingerprint="", token="")
    try:
        with _tls(login, HEALTH_WITHIN_S, pinning_context()) as connection:
            return _fingerprint(connection.getpeercert(True))
    except OSError as error:
        raise NoPlatform(f"no platform answers at {url} ({error}); correct it, or ask its owner") from error


@contextmanager
def _tls(login: Login, within_s: float, context: SSLContext) -> Iterator[SSLSocket]:
    """A connection, before its certificate was looked at. Raises OSError."""
    with socket.create_connection(login.address, within_s) as plain, context.wrap_socket(plain) as connection:
        yield connection


def _fingerprint(certificate: bytes | None) -> str:
    return hashlib.sha256(certificate or b"").hexdigest()
