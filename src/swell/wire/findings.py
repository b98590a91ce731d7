"""What a trial run found out about a script's results, for the job's owner."""

from __future__ import annotations

import msgspec


class ScriptFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A way in which a script's result depends on its sizes or on being resumed, as the trial run found."""

    name: str  #: short and stable, for `--accept-differences NAME`, e.g. "script-state"
    text: str  #: what differs, and the change that mends it
    place: str = ""  #: FILE:LINE
    holds: bool = True  #: the job is held to one worker until its owner accepts it
