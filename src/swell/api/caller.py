"""Who sends a request, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

#: Key of an ASGI scope under which the authentication leaves the Caller.
CALLER = "swell.caller"


class Role(IntEnum):
    """Each may do what the ones before it may."""

    VIEW = 1
    SUBMIT = 2  #: jobs of the own tenant, and cancel these
    OPERATE = 3

    @property
    def word(self) -> str:
        """Name of the role as users write it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Caller:
    """Behind a token or a session of the page. Equal as long as nothing about them was changed."""

    name: str
    role: Role
    tenant: str = ""  #: whose jobs they submit; empty: they may name any
    added_s: float = 0.0  #: when the operator added them, seconds since 1970

    def may_change_jobs_of(self, tenant: str) -> bool:
        """Cancel them, say, or submit others."""
        return self.role >= Role.OPERATE or (self.role >= Role.SUBMIT and self.tenant == tenant)


#: Who holds the platform's own token.
OWNER = Caller("owner", Role.OPERATE)


def caller_of(scope: Mapping[str, Any]) -> Caller:
    """Who sends the request of an ASGI scope, which is not for a part of the page that is open to anybody."""
    caller: Caller = scope[CALLER]
    return caller
