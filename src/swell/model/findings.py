"""What a trial run found out about a job's script."""

from __future__ import annotations

import msgspec


class JobFinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A way in which the job's result depends on its number of workers, or on being resumed."""

    name: str  #: short and stable, by which its owner accepts it
    text: str  #: what differs, and the change that mends it
    place: str = ""  #: FILE:LINE
    holds: bool = True  #: the job keeps its smallest number of workers until its owner accepts it
