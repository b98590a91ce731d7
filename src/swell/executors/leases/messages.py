"""What a host and the controller say about leases.

They may be lost, late, doubled or overtaken by others: each says all that it depends on. They are sent as
they arise, and never again.
"""

from __future__ import annotations

import msgspec


class LeaseMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pass


class LeaseAsked(LeaseMessage, frozen=True, kw_only=True):
    """A host asks for its lease, or for a longer one. No worker of an earlier term is left there."""

    term: int
    asked_s: float  #: by the host's clock; the answer says it again


class LeaseGranted(LeaseMessage, frozen=True, kw_only=True):
    """The lease lasts this long *from when the host asked*."""

    term: int
    asked_s: float  #: as in the question
    lease_s: float


class TermOver(LeaseMessage, frozen=True, kw_only=True):
    """There will be no lease in this term or an earlier one: what its workers held may be with others."""

    term: int


FromController = LeaseGranted | TermOver
