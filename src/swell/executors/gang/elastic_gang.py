"""An elastic gang as one value: what its controller knows, and its hosts keep for the next controller.

Hosts get it when a command comes, and with all that follows from an input but reports of progress. What
workers have said since, of which nothing followed yet, the next controller hears again: see `takeover`.
"""

from __future__ import annotations

import msgspec

from swell.executors.gang.ending import Ending
from swell.executors.gang.hang_detection import HangDetector
from swell.executors.gang.member import Member, Slot
from swell.executors.gang.membership import Membership
from swell.executors.gang.replies import Replies
from swell.executors.gang.setback import Setback
from swell.executors.gang.suspension import Suspension
from swell.model.target import PLAIN_CONFIGURATION, Configuration
from swell.wire.messages import Finished


class Formation(msgspec.Struct, kw_only=True):
    """The latest round: which workers were told to be a group. Rounds are the wire's generations."""

    round: int = 0
    configuration: Configuration = PLAIN_CONFIGURATION  #: of the group
    group: list[int] = []  #: worker numbers by rank; some may have died since
    hosts: dict[int, str] = {}  #: of members, by the latest order of each
    former_host: str = ""  #: of the leader of the group before
    ordered_s: float = 0.0  #: when the latest order was given
    is_lateness_told: bool = False  #: of that order


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
    members: dict[int, Member] = {}  #: its live workers
    #: Members that have come to their end where another host speaks for the gang, and what each said of that.
    finished: dict[int, tuple[Member, Finished | None]] = {}
    final: Finished | None = None  #: the last word of a job that met its end condition
    next_worker: int = 0  #: number of the next worker that is started
    has_spawned: bool = False  #: a worker was started
    max_local_batch: int | None = None  #: samples of a pass, as far as is known
    mean_time_to_loss_s: float | None = None  #: as the head said last
    steps: int = 0  #: finished, as far as is known
    told_steps: int | None = None  #: losses up to this step have been heard
    hang_detector: HangDetector = msgspec.field(default_factory=HangDetector)
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
