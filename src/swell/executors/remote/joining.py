"""The host's end: connects to a controller, and trusts the certificate that its token names, no other."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

import msgspec

from swell.executors.local.lines import LineLink, LineRefused
from swell.executors.remote.certificate import has_fingerprint, host_context
from swell.executors.remote.join_tokens import JoinToken
from swell.executors.remote.messages import (
    JOIN_PROTOCOL,
    Join,
    JoinAccepted,
    Opening,
)
from swell.model.lengths import span
from swell.wire.lines import NO_MESSAGE

#: From the first packet to the controller's answer.
JOIN_S = 10.0
#: Said in TLS; it is compared with nothing.
SERVER_NAME = "swell"


class CannotJoin(Exception):
    """The text names thing, rule and remedy."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final  #: to try again is of no use


async def join(
    host: str,
    port: int,
    token: JoinToken,
    join: Join,
    joined: Callable[[LineLink, JoinAccepted], None],
) -> LineLink:
    """A line on which both sides may send. `join`: without the token.

    `joined` sets `heard` and `closed` of the line. It is called before anything else can arrive, and raises
    CannotJoin if the host cannot be one of this platform.

    Raises:
        CannotJoin: see `is_final`.
    """
    line, head = _AnsweredLine(joined), f"the head at {host}:{port}"
    try:
        async with asyncio.timeout(JOIN_S):
            await asyncio.get_running_loop().create_connection(
                lambda: line, host, port, ssl=host_context(), server_hostname=SERVER_NAME
            )
            if line.tls is None or not has_fingerprint(line.tls, token.fingerprint):
                raise CannotJoin(
                    f"{head} has another certificate than join token {token.name!r} names; no other is "
                    "trusted: get a new token if the head is new, else find out who answers there",
                    is_final=True,
                )
            secret = {"protocol": JOIN_PROTOCOL, "token": token.name, "secret": token.secret.hex()}
            line.send(msgspec.structs.replace(join, **secret))
            answer = await line.answer
    except TimeoutError as error:
        why = f"{head} did not answer within {span(JOIN_S)}; a host must reach it: check address and network"
        raise CannotJoin(why) from error
    except ssl.SSLError as error:
        raise CannotJoin(
            f"{head} does not speak TLS 1.3 ({error.reason}); hosts speak nothing else: "
            "use the address that the head printed for hosts"
        ) from error
    except OSError as error:
        why = f"{head} cannot be reached ({error}); a host must reach it: check address and network"
        raise CannotJoin(why) from error
    finally:
        if not line.is_joined:
            line.close()
    if isinstance(answer, LineRefused):
        raise CannotJoin(f"{head} refuses: {answer.why}", is_final=answer.is_final)
    return line


class _AnsweredLine(LineLink):
    """Its first line is the controller's answer; what follows is for its owner."""

    def __init__(self, joined: Callable[[LineLink, JoinAccepted], None]) -> None:
        super().__init__(self._hear_answer, self._lose)
        self._joined = joined
        self.answer: asyncio.Future[Opening] = asyncio.get_running_loop().create_future()
        self.is_joined = False

    def _hear_answer(self, link: LineLink, text: bytes) -> None:
        try:
            answer = msgspec.json.decode(text, type=Opening)
        except NO_MESSAGE:
            self.close()
            self._fail("what it answered is no answer to a host")
            return
        if isinstance(answer, JoinAccepted):
            try:
                self._joined(self, answer)
            except CannotJoin as error:
                self.answer.set_exception(error)
                return
            self.is_joined = True
        if not self.answer.done():
            self.answer.set_result(answer)

    def _lose(self, link: LineLink) -> None:
        self._fail("it closed the connection without a word")

    def _fail(self, why: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(ConnectionAbortedError(why))
            self.answer.exception()  # it may not be waited for
