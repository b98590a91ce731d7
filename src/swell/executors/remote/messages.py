"""What a host and the controller say: first who they are, and then, term by term, in their stream.

Each message of the stream has the term that it belongs to, which is that of the host's lease.
"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import msgspec

from swell import __version__
from swell.executors.hosts.messages import FromHost, ToHost
from swell.executors.local.agent.options import PlatformSettings
from swell.executors.local.lines import LineRefused

#: Raised when a host and a controller of two versions would not understand each other.
JOIN_PROTOCOL = 3


class OpeningMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Fields are added with a default and never taken away: other versions have to read what is wrong."""


class Join(OpeningMessage, frozen=True, kw_only=True):
    """First line of a host."""

    protocol: int
    version: str  #: of Swell, for people
    host: str  #: the name of the node
    machine: str  #: of the state folder on its machine, which no other one has
    token: str  #: its name
    secret: str = ""  #: in hexadecimal digits
    session: str = ""  #: of the host's process, which no other one has
    python: str = ""  #: version
    torch: str = ""  #: version, without that of its build; empty: none is installed
    advertise: str = ""  #: where workers of other hosts are to reach its own
    probe_port: int = 0  #: of that address, which takes connections and closes them; 0: none


class JoinAccepted(OpeningMessage, frozen=True, kw_only=True):
    """The host is known; from now on both send what they like."""

    protocol: int
    version: str
    settings: PlatformSettings | None = None  #: None: the controller knows none; as by default
    mark: str = ""  #: what the head has just written into its storage, see `storage.why_not_shared`


Opening = JoinAccepted | LineRefused


class StreamMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pass


# ---------------------------------------------------------------- controller -> host
class ToldInTerm(StreamMessage, frozen=True, kw_only=True):
    """See `NodeHost.tell`."""

    term: int
    message: ToHost


class LeaveOrdered(StreamMessage, frozen=True, kw_only=True):
    """The host is to end its workers, say `HostLeft`, and end."""

    why: str


ToJoined = ToldInTerm | LeaveOrdered


# ---------------------------------------------------------------- host -> controller
class SaidInTerm(StreamMessage, frozen=True, kw_only=True):
    """What the host answers."""

    term: int
    message: FromHost


class HostLeft(StreamMessage, frozen=True, kw_only=True):
    """No worker of this term is left, and none will be started in it. The process is about to end."""

    term: int


FromJoined = SaidInTerm | HostLeft


def introduction(host: str, machine: str, session: str, advertise: str = "", probe_port: int = 0) -> Join:
    """Return the first message of a host, without its token."""
    return Join(
        protocol=JOIN_PROTOCOL,
        version=__version__,
        host=host,
        machine=machine,
        token="",
        session=session,
        python=python_version(),
        torch=torch_version(),
        advertise=advertise,
        probe_port=probe_port,
    )


def why_not_understood(join: Join, version: str) -> str | None:
    """What separates a host from a controller of this version; None: nothing."""
    if join.protocol == JOIN_PROTOCOL:
        return None
    return (
        f"host {join.host!r} has Swell {join.version} (protocol {join.protocol}), this head has {version} "
        f"(protocol {JOIN_PROTOCOL}); both must speak the same protocol: install Swell {version} on the host"
    )


def python_version() -> str:
    """Return the version of this interpreter."""
    return platform.python_version()


def torch_version() -> str:
    """That this interpreter would import: `2.6.0`, whatever it was built for. Empty: none."""
    try:
        return version("torch").partition("+")[0]
    except PackageNotFoundError:
        return ""
