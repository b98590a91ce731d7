"""One worker as its host knows it, by what passed between it and its controller.

A host keeps no more than that, so the memory that it takes is bounded, however long no controller is there.
"""

from __future__ import annotations

import msgspec

from swell.executors.gang.worker_messages import WorkerExited
from swell.wire.messages import (
    Alive,
    Broken,
    CheckpointDamaged,
    CheckpointSaved,
    Distributed,
    Drifted,
    Failed,
    Finished,
    FromAgent,
    FromWorker,
    Joined,
    JoinFailed,
    OutOfMemory,
    Progress,
    Regroup,
    SaveFailed,
    ScriptFound,
    Stepped,
)

#: Of these kinds the latest message stands, and may be heard twice.
STANDING = (
    Stepped
    | Distributed
    | Drifted
    | ScriptFound
    | CheckpointSaved
    | CheckpointDamaged
    | SaveFailed
    | OutOfMemory
    | Failed
    | Finished
)


class WorkerFacts(msgspec.Struct, kw_only=True):
    """What a new controller is told of a worker."""

    number: int
    devices: tuple[str, ...]  #: that it sees
    pid: int | None = None  #: None: its process is still being started
    is_stopped: bool = False  #: by a signal
    steps: int = 0  #: finished, as it said last
    order: Regroup | None = None  #: the newest that it was given
    is_forming: bool = False  #: it has neither carried that out nor failed to
    joined: int | None = None  #: the group that it was in last
    is_broken: bool = False  #: that has failed
    standing: list[STANDING] = []  #: the latest of each kind
    exit: WorkerExited | None = None

    def enters(self, round: int) -> bool:
        """Whether it is in the group of this round, or was told to be and has not said that it cannot."""
        is_told = self.order is not None and self.order.generation == round and self.order.rank is not None
        return is_told and (self.is_forming or (self.joined == round and not self.is_broken))

    def note_order(self, said: FromAgent) -> None:
        """The worker is told this."""
        if isinstance(said, Regroup):
            self.order, self.is_forming = said, True

    def note(self, said: FromWorker) -> None:
        """The worker says this."""
        match said:
            case Joined() | JoinFailed() | Broken():
                self.steps = said.steps
                if self.order is not None and said.generation == self.order.generation:
                    self.is_forming = False
                if isinstance(said, Joined):
                    self.joined = said.generation
                if not isinstance(said, JoinFailed):
                    self.is_broken = isinstance(said, Broken)
            case Alive() | Progress():
                self.steps = max(self.steps, said.steps)
            case _ if isinstance(said, STANDING):
                others = [each for each in self.standing if type(each) is not type(said)]
                self.standing = [*others, said]
