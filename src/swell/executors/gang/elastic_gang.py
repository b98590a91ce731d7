"""An elastic gang as one value: what its controller knows, and its hosts keep for the next controller.

What workers do is not in it: that is told by what they have said; see `kept_worker`. Hosts get it when a
command comes, and with all that follows from an input but reports of progress: its numbers of steps may be
old, and are learnt again of the workers. Times are those of one controller's clock (`restart_clocks`).
"""

from __future__ import annotations

import msgspec

from swell.executors.gang.ending import Ending
from swell.executors.gang.member import Slot
from swell.executors.gang.membership import Membership
from swell.executors.gang.replies import Replies
from swell.executors.gang.setback import Setback
from swell.executors.gang.suspension import Suspension
from swell.model.target import PLAIN_CONFIGURATION, Configuration
from swell.wire.messages import Regroup


class Formation(msgspec.Struct, kw_only=True):
    """The latest round: which workers were told to be a group. Rounds are the wire's generations."""

    round: int = 0
    configuration: Configuration = PLAIN_CONFIGURATION  #: of the group
    group: list[int] = []  #: worker numbers by rank; some may have died since
    orders: dict[int, Regroup] = {}  #: by worker
    ordered_s: float = 0.0  #: when the latest order was given
    #: Groups that workers were told are broken, of those that some may still be in.
    aborted: list[int] = []


class ElasticGang(msgspec.Struct, kw_only=True, tag=True):
    """A gang whose processes live through its changes.

    It ends once it has an `ending`, and is over once `replies` has an end.
    """

    replies: Replies = msgspec.field(default_factory=Replies)
    membership: Membership = msgspec.field(default_factory=Membership)
    wanted_slots: tuple[Slot, ...] = ()  #: the devices of the workers there should be
    wanted_configuration: Configuration = PLAIN_CONFIGURATION
    setback: Setback = msgspec.field(default_factory=Setback)
    suspension: Suspension = msgspec.field(default_factory=Suspension)
    ending: Ending | None = None
    formation: Formation = msgspec.field(default_factory=Formation)
    slots_by_worker: dict[int, Slot] = {}  #: of live workers
    next_worker: int = 0  #: number of the next worker that is started
    has_spawned: bool = False  #: a worker was started
    max_local_batch: int | None = None  #: samples of a pass, as far as is known
    mean_time_to_loss_s: float | None = None  #: as the head said last
    steps: int = 0  #: finished, as far as is known
    saved_steps: int = 0  #: of the newest checkpoint

    @property
    def known_configuration(self) -> Configuration:
        """How it runs, as the head knows."""
        return self.membership.configuration

    @property
    def is_ending(self) -> bool:
        return self.ending is not None

    @property
    def is_broken(self) -> bool:
        """Whether its group has broken, and the next one does not form yet."""
        return self.setback.is_open and not self.is_ending

    @property
    def is_safe(self) -> bool:
        """The gang is being suspended, and its state is saved."""
        return self.membership.is_suspending and self.suspension.is_safe

    def restart_clocks(self, now_s: float) -> None:
        """Have the limits of orders, breaks and changes begin now; `shutdown.resume` does it for endings."""
        self.formation.ordered_s = now_s
        if self.setback.is_open:
            self.setback.since_s = now_s
        if self.membership.change is not None:
            self.membership.change.since_s = now_s
