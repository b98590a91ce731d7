"""How a host and a controller come to have a line: what both say first, and the host's end of it.

The host trusts the certificate that its token names, and no other.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import msgspec

from swell import __version__
from swell.executors.local.agent.options import LOOPBACK, PlatformSettings
from swell.executors.local.lines import LineLink, LineRefused
from swell.executors.remote.host_address import check_address
from swell.executors.remote.join_tokens import JoinToken
from swell.model.quantities import span
from swell.wire.lines import NO_MESSAGE
from swell.wire.peers import pinning_context

#: From the first packet to the controller's answer.
JOIN_S = 10.0
#: Raised when a host and a controller of two versions would not understand each other.
JOIN_PROTOCOL = 8
#: Without its patches: code that one version reads another may not.
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class Join(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """First line of a host.

    Fields are added with a default and never taken away: other versions have to read what is wrong.
    """

    protocol: int
    version: str  #: of Swell, for people
    host: str  #: the name of the node
    machine: str  #: of the state folder on its machine, which no other one has
    token: str  #: its name
    secret: str = ""  #: in hexadecimal digits
    session: str = ""  #: of the host's process, which no other one has
    python: str = ""  #: see `PYTHON`
    torch: str = ""  #: version, without that of its build; empty: none is installed
    advertise: str = ""  #: where workers of other hosts are to reach its own

    def __post_init__(self) -> None:
        """Raises InvalidOption."""
        check_address(self.advertise or LOOPBACK)


class JoinAccepted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The host is known; from now on both send what they like."""

    settings: PlatformSettings
    mark: str  #: what the head has just written into its storage, see `storage.why_not_shared`


Opening = JoinAccepted | LineRefused


def introduction(host: str, machine: str, session: str, advertise: str = "") -> Join:
    """Return the first message of a host, without its token."""
    return Join(
        protocol=JOIN_PROTOCOL,
        version=__version__,
        host=host,
        machine=machine,
        token="",
        session=session,
        python=PYTHON,
        torch=torch_version(),
        advertise=advertise,
    )


def why_unlike(join: Join, torch: str) -> str:
    """Why workers of a host cannot be in one gang with others; empty: they can. `torch`: empty: any."""
    if join.protocol != JOIN_PROTOCOL:
        has = f"Swell {join.version} (protocol {join.protocol})"
        needed = f"Swell {__version__} (protocol {JOIN_PROTOCOL})"
    elif torch and join.torch != torch:
        has, needed = f"torch {join.torch or '(none)'}", f"torch {torch}"
    elif join.python and join.python != PYTHON:
        has, needed = f"Python {join.python}", f"Python {PYTHON}"
    else:
        return ""
    return (
        f"host {join.host!r} has {has}, this platform has {needed}; workers of one job need the same "
        f"version: install {needed} on the host"
    )


def torch_version() -> str:
    """That this interpreter would import: `2.6.0`, whatever it was built for. Empty: none."""
    try:
        return version("torch").partition("+")[0]
    except PackageNotFoundError:
        return ""


# ---------------------------------------------------------------- the host's end
class JoinRefused(Exception):
    """The text names thing, rule and remedy."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final  #: to try again is of no use


async def join(
    host: str, port: int, token: JoinToken, join: Join, joined: Callable[[LineLink, JoinAccepted], None]
) -> LineLink:
    """A line on which both sides may send. `join`: without the token.

    `joined` sets `heard` and `closed` of the line. It is called before anything else can arrive, and raises
    JoinRefused if the host cannot be one of this platform.

    Raises:
        JoinRefused: see `is_final`.
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
                raise JoinRefused(f"{head} refuses: {answer.why}", is_final=answer.is_final)
            if not answered.done():
                joined(line, answer)
                answered.set_result(None)
        except JoinRefused as error:
            fail(error)
        except NO_MESSAGE:
            fail(ConnectionAbortedError("what it answered is no answer to a host"))

    def lose(line: LineLink) -> None:
        fail(ConnectionAbortedError("it closed the connection without a word"))

    line = LineLink(hear_answer, lose)
    try:
        async with asyncio.timeout(JOIN_S):
            await asyncio.get_running_loop().create_connection(
                lambda: line, host, port, ssl=pinning_context()
            )
            shown = line.tls and line.tls.getpeercert(binary_form=True)  # it has proved that it has the key
            if not shown or hashlib.sha256(shown).digest() != token.fingerprint:
                raise JoinRefused(
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
            raise JoinRefused(f"{head} {_why(error)}") from error
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
