"""A gang whose script knows nothing of Swell as one value: its hosts keep it for the next controller."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from swell.executors.gang.member import Member, Slot
from swell.executors.gang.replies import Replies
from swell.executors.gang.step_tally import StepTally
from swell.model.event import Outcome
from swell.model.target import PLAIN_CONFIGURATION, Configuration


class RestartAim(StrEnum):
    RUN = "RUN"
    RESTART = "RESTART"  #: all processes are to go, then a new set starts
    SUSPEND = "SUSPEND"
    END = "END"


class RestartGang(msgspec.Struct, kw_only=True, tag=True):
    """A gang whose processes are stopped and started at each change."""

    replies: Replies = msgspec.field(default_factory=Replies)
    running: int = 0  #: generation of the processes that run
    wanted_slots: tuple[Slot, ...] = ()  #: the devices of the workers there should be
    wanted_configuration: Configuration = PLAIN_CONFIGURATION
    known_configuration: Configuration = PLAIN_CONFIGURATION  #: how it runs, as the head knows
    members: dict[int, Member] = {}  #: its live workers, in rank order: spawned so
    aim: RestartAim = RestartAim.RUN
    outcome: Outcome = Outcome.SUCCEEDED  #: how it ends
    message: str = ""  #: why
    is_over_memory: bool = False  #: a worker was killed for its job's memory limit
    num_starts: int = 0
    asked_port: Slot | None = None  #: of the worker on whose host a port is looked for
    terminate_at_s: float | None = None
    kill_at_s: float | None = None
    is_distributed: bool = False  #: its script works with other workers
    is_held: bool = False  #: at its smallest size, by what was found in its script
    port: int = 0  #: that rank 0 of the latest start was told to listen at
    next_worker: int = 0  #: number of the next worker that is started
    tally: StepTally = msgspec.field(default_factory=StepTally)
    votes: dict[int, int] = {}  #: by worker: steps that it had ended when it was asked to stop

    @property
    def steps(self) -> int:
        """Finished, as far as is known."""
        return self.tally.steps
