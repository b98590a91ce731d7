"""What a gang's controller has in mind, as the gang's hosts keep it for the controller that comes after.

What workers do is not in it: that is told by what they have said; see `kept_worker`. No time is in it: a new
controller has another clock, and each limit begins anew.
"""

from __future__ import annotations

import msgspec

from swell.executors.gang.member import Slot
from swell.model.event import AnyEvent, GangEnded, GangSuspended, Outcome, WorkersLost
from swell.wire.messages import Regroup


class RecordPart(msgspec.Struct, frozen=True, kw_only=True):
    pass


class CommandRepliesRecord(RecordPart, frozen=True, kw_only=True):
    """See `replies.CommandReplies`."""

    generation: int
    asked: tuple[str, int] | None  #: the name of the latest command's kind, and its generation
    answer: AnyEvent | None
    end: GangEnded | GangSuspended | None
    warnings: dict[str, str]
    losses: tuple[WorkersLost, ...]


class ChangeRecord(RecordPart, frozen=True, kw_only=True):
    """See `membership.PendingChange`."""

    aim: str
    failure: str
    lost: tuple[Slot, ...]


class MembershipRecord(RecordPart, frozen=True, kw_only=True):
    """See `membership.Membership`."""

    slots: tuple[Slot, ...]
    batch: int | None
    generation: int
    change: ChangeRecord | None
    is_unheard: bool


class SetbackRecord(RecordPart, frozen=True, kw_only=True):
    """See `setback.Setback`; there is one while it is open."""

    why: str
    has_lost: bool
    is_of_death: bool
    is_cut_back: bool
    is_over_memory: bool = False


class SuspensionRecord(RecordPart, frozen=True, kw_only=True):
    """See `suspension.Suspension`."""

    round: int | None
    is_void: bool
    is_saved: bool
    has_left: bool


class EndingRecord(RecordPart, frozen=True, kw_only=True):
    """See `ending.Ending`."""

    outcome: Outcome
    message: str
    is_over_memory: bool = False  #: a worker was killed for its job's memory limit


class ElasticRecord(RecordPart, frozen=True, kw_only=True, tag=True):
    """Record of a gang whose processes live through its changes."""

    dialogue: CommandRepliesRecord
    membership: MembershipRecord
    target: tuple[Slot, ...]
    batch: int | None
    setback: SetbackRecord | None
    num_failed_rounds: int
    suspension: SuspensionRecord
    ending: EndingRecord | None
    round: int
    round_batch: int | None
    group: tuple[int, ...]
    orders: dict[int, Regroup]  #: of the latest round, by worker
    members: dict[int, Slot]
    next_worker: int
    has_started: bool
    max_local_batch: int | None
    steps: int
    saved_steps: int


class RestartRecord(RecordPart, frozen=True, kw_only=True, tag=True):
    """Record of a gang whose processes are stopped and started at each change."""

    dialogue: CommandRepliesRecord
    running: int
    target: tuple[Slot, ...]
    members: dict[int, Slot]  #: in rank order
    aim: str
    ending: EndingRecord
    num_starts: int
    next_worker: int
    steps: int
    steps_before: int  #: the gang of now began with so many
    is_new: bool  #: it has made none
    votes: dict[int, int] = {}  #: in which step to stop, by worker


GangRecord = ElasticRecord | RestartRecord
