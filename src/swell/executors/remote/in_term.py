"""What the controller and a joined host say in their stream: messages, each with the term that it belongs to.

A term is that of the host's lease. What was said in one that is over is about workers that are gone, so both
sides drop it, however late it comes.
"""

from __future__ import annotations

import msgspec

from swell.executors.hosts.messages import FromHost, ToHost


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
