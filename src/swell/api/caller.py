"""Who sends a request, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Role(IntEnum):
    """Each may do what the ones before it may."""

    VIEW = 1
    SUBMIT = 2  #: jobs of the own tenant, and cancel these
    OPERATE = 3


@dataclass(frozen=True, slots=True)
class Caller:
    """Behind a token or a session of the page."""

    name: str
    role: Role
    tenant: str = ""  #: whose jobs they submit; empty: they may name any


#: Who holds the platform's own token.
OWNER = Caller("owner", Role.OPERATE)
