"""What a host and the controller say: first who they are, and then, term by term, in their stream.

Each message of the stream has the term that it belongs to, which is that of the host's lease.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version

import msgspec

from swell import __version__
from swell.executors.hosts.messages import FromHost, ToHost
from swell.executors.local.agent.options import PlatformSettings
from swell.executors.local.lines import LineRefused

#: Raised when a host and a controller of two versions would not understand each other.
JOIN_PROTOCOL = 4
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
    probe_port: int = 0  #: of that address, which takes connections and closes them; 0: none


class JoinAccepted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The host is known; from now on both send what they like."""

    settings: PlatformSettings
    mark: str  #: what the head has just written into its storage, see `storage.why_not_shared`


Opening = JoinAccepted | LineRefused


# ---------------------------------------------------------------- controller -> host
class ToldInTerm(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """See `NodeHost.tell`."""

    term: int
    message: ToHost


class LeaveOrdered(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The host was removed: it is to end its workers, say `HostLeft`, and end."""


ToJoined = ToldInTerm | LeaveOrdered


# ---------------------------------------------------------------- host -> controller
class SaidInTerm(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the host answers."""

    term: int
    message: FromHost


class HostLeft(msgspec.Struct, frozen=True, kw_only=True, tag=True):
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
        python=PYTHON,
        torch=torch_version(),
        advertise=advertise,
        probe_port=probe_port,
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
