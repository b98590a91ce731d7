"""What a resize was to bring and to cost, and what it did."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

#: A launch until its first step; what a growth, or a shrink, takes from steps.
CostKind = Literal["start", "growth", "shrink"]


class Verdict(StrEnum):
    """What came of a resize, in a word."""

    UNDER_WAY = "under way"
    FAILED = "failed"  #: the gang kept its size
    OVERTAKEN = "overtaken"  #: the job ended, or was stopped, first
    PAID = "paid"  #: a growth that has saved more than it cost
    UNPAID = "not paid"  #: a growth that has not, or not yet
    UNKNOWN = "unknown"  #: a growth of which nothing was reported
    MADE_ROOM = "made room"  #: a shrink: others have the devices
    MOVED = "moved"  #: the same size on other devices
    REPAIRED = "repaired"  #: workers were lost and the others went on


class Resize(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a running gang. Gains are seconds saved, costs taken off; negative where it cost time."""

    at_s: float  #: decided
    before: int  #: workers
    after: int  #: workers
    verdict: Verdict
    reason_code: str
    reason: str  #: of the policy, in a sentence
    expected_cost_s: float | None  #: None where there was no choice: workers had been lost
    expected_gain_s: float | None  #: if the new size is held as long as sizes are held here
    wait_s: float | None  #: from the decision to the new gang; a live gang trains on meanwhile
    cost_s: float | None  #: time in which no worker trained; None while that is not known
    gain_s: float | None  #: against the size before, as long as this one was held; None if unreported
    held_s: float  #: how long the new size was, or has been, held
    is_held: bool  #: still
    #: Steps/s of the old size as this was decided: believed; of a restart job measured, None if unreported.
    rate_before_per_s: float | None
    rate_after_per_s: float | None  #: steps/s measured at the new size
