"""What the pool of slices has the door do."""

from __future__ import annotations

import msgspec


class PoolOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Order of the pool to the door."""


class SubmitSlice(PoolOrder, frozen=True, kw_only=True):
    """Ask Slurm for one more slice. `node`: on which; empty: on any."""

    node: str = ""


class CancelSlice(PoolOrder, frozen=True, kw_only=True):
    """Have Slurm end a job."""

    job: int


class ReleaseHost(PoolOrder, frozen=True, kw_only=True):
    """Have a host leave, on which nothing runs."""

    host: str


class GiveUpHost(PoolOrder, frozen=True, kw_only=True):
    """Slurm has ended the job of a host: it is lost, unless it has a line."""

    host: str
    why: str


class WarnNode(PoolOrder, frozen=True, kw_only=True):
    """A node is to be left. `within_s`: until it is gone; None: it stays."""

    host: str
    within_s: float | None
    why: str


class TellEnd(PoolOrder, frozen=True, kw_only=True):
    """A node is to be left after this time, for good; inf: no end is known. Until then it takes work."""

    host: str
    within_s: float


class ClearNode(PoolOrder, frozen=True, kw_only=True):
    """What was said of a node is no longer so."""

    host: str
    why: str


class TellCause(PoolOrder, frozen=True, kw_only=True):
    """Why there is no slice, for people. `about`: in place of the name of a node."""

    about: str
    why: str
    job: int = 0  #: whose output may say more; 0: none


Order = SubmitSlice | CancelSlice | ReleaseHost | GiveUpHost | WarnNode | TellEnd | ClearNode | TellCause
