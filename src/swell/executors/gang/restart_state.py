"""The further state of a gang whose script knows nothing of Swell: one set of processes at a time."""

from __future__ import annotations

import msgspec

from swell.executors.gang.member import Slot
from swell.wire.messages import Stepped


class StepTally(msgspec.Struct, kw_only=True):
    """Steps of a gang through its restarts, by what rank 0's optimizer did.

    An optimizer that counts its own steps (Adam and its kin) finds its count in the script's checkpoint. Of
    another one only the steps since the start are known: those that are done again count twice.
    """

    steps: int = 0
    begun_with: int = 0  #: what `steps` was when the gang of now began
    is_new: bool = True  #: the gang of now has not made a step
    heard_s: float | None = None  #: when the latest step was told; None: not to this controller
    step_s: float = 0.0

    @property
    def num_before(self) -> int:
        """Steps that were finished when the gang of now began."""
        return self.steps if self.is_new else self.begun_with

    def restart(self) -> None:
        """A new gang starts."""
        self.is_new = True

    def note(self, message: Stepped, now_s: float) -> tuple[float | None, str]:
        """What a gang's first step tells of the change before it: seconds taken from training, and a warning.

        The seconds are the time from the old gang's last step to this one, less a step, and the time of the
        steps that have to be done again. None and '' for any later step, and for the very first gang.
        """
        pause_s, warning = None, ""
        if self.is_new and self.heard_s is not None:
            again = 0 if message.own_steps is None else max(0, self.steps - _found(message))
            pause_s = max(0.0, now_s - self.heard_s - self.step_s) + again * self.step_s
            if message.own_steps is not None and _found(message) == 0:
                warning = _began_again(self.steps)
        if self.is_new:
            self.begun_with, self.is_new = self.steps, False
        self.steps = self.begun_with + message.steps if message.own_steps is None else message.own_steps
        self.heard_s = now_s
        self.step_s = message.step_s or self.step_s
        return pause_s, warning


def _found(message: Stepped) -> int:
    """Steps that were in the checkpoint from which the script went on."""
    return (message.own_steps or 0) - message.steps


def _began_again(steps: int) -> str:
    return (
        f"the script was stopped after step {steps} and began again: it found no checkpoint; let it save "
        "more often, and continue from its newest checkpoint when it starts"
    )


class Restarts(msgspec.Struct, kw_only=True):
    """The set of processes that was started last, and how far the next one is."""

    slots: tuple[Slot, ...] = ()  #: that it was started on, in rank order
    num_starts: int = 0
    leaving_s: float | None = None  #: when it was told to stop after a step; None: it was not
    terminated_s: float | None = None  #: when it had SIGTERM, from us or from itself after that step
    is_distributed: bool = False  #: its script works with other workers
    tally: StepTally = msgspec.field(default_factory=StepTally)
    votes: dict[int, int] = {}  #: by worker: steps that it had ended when it was asked to stop
