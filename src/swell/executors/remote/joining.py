"""The host's end: connects to a controller, and trusts the certificate that its token names, no other."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Callable

import msgspec

from swell.executors.local.lines import LineLink, LineRefused
from swell.executors.remote.certificate import host_context
from swell.executors.remote.join_tokens import JoinToken
from swell.executors.remote.messages import Join, JoinAccepted, Opening
from swell.model.lengths import span
from swell.wire.lines import NO_MESSAGE

#: From the first packet to the controller's answer.
JOIN_S = 10.0


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
    head = f"the head at {host}:{port}"
    answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fail(error: Exception) -> None:
        if not answered.done():
            answered.set_exception(error)
            answered.exception()  # it may not be waited for

    def hear_answer(line: LineLink, text: bytes) -> None:
        try:
            answer = msgspec.json.decode(text, type=Opening)
            if isinstance(answer, LineRefused):
                raise CannotJoin(f"{head} refuses: {answer.why}", is_final=answer.is_final)
            if not answered.done():
                joined(line, answer)
                answered.set_result(None)
        except CannotJoin as error:
            fail(error)
        except NO_MESSAGE:
            fail(ConnectionAbortedError("what it answered is no answer to a host"))

    def lose(line: LineLink) -> None:
        fail(ConnectionAbortedError("it closed the connection without a word"))

    line = LineLink(hear_answer, lose)
    try:
        async with asyncio.timeout(JOIN_S):
            await asyncio.get_running_loop().create_connection(lambda: line, host, port, ssl=host_context())
            shown = line.tls and line.tls.getpeercert(binary_form=True)  # it has proved that it has the key
            if not shown or hashlib.sha256(shown).digest() != token.fingerprint:
                raise CannotJoin(
                    f"{head} has another certificate than join token {token.name!r} names; no other is "
                    "trusted: get a new token if the head is new, else find out who answers there",
                    is_final=True,
                )
            line.send(msgspec.structs.replace(join, token=token.name, secret=token.secret.hex()))
            await answered
    except BaseException as error:
        answered.cancel()
        line.close()
        if isinstance(error, OSError):
            raise CannotJoin(f"{head} {_why(error)}") from error
        raise
    return line


def _why(error: OSError) -> str:
    """Why there is no line."""
    if isinstance(error, TimeoutError):
        return f"did not answer within {span(JOIN_S)}; a host must reach it: check address and network"
    if isinstance(error, ssl.SSLError):
        return (
            f"does not speak TLS 1.3 ({error.reason}); hosts speak nothing else: "
            "use the address that the head printed for hosts"
        )
    return f"cannot be reached ({error}); a host must reach it: check address and network"
