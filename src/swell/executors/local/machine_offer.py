"""What a machine offers to a platform, or why it does not."""

from __future__ import annotations

from typing import NamedTuple


class MachineOffer(NamedTuple):
    """One way to limit gangs, or to run containers, on this machine."""

    name: str
    why_not: str = ""  #: empty: it can be used
    remedy: str = ""  #: how it could be, or could do more
    note: str = ""  #: what to know of it: where it is, or its version

    @property
    def is_offered(self) -> bool:
        return not self.why_not
