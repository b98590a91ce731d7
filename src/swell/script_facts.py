"""What is found out about a job's script, by its trial run or while it trains."""

from __future__ import annotations

import msgspec

#: Accepted as a finding is: each worker of a script that a library drives takes a whole batch.
WHOLE = "whole-batches"
#: Findings that tell what was not looked at, and why.
NOT_COMPARED, NOT_RESUMED = "not-compared", "not-resumed"

#: The job's batch or end is not that of its script.
OTHER_NUMBERS = "other-numbers"


def is_unchecked(name: str) -> bool:
    """Whether a finding of this name is none, but says that something was not checked."""
    return name in (NOT_COMPARED, NOT_RESUMED)


class ScriptFinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A way in which a script's result depends on its sizes or on being resumed.

    The trial run finds it, or a worker while its job trains.
    """

    name: str  #: short and stable, for `--accept-differences NAME`, e.g. "script-state"
    text: str  #: what differs, and the change that mends it
    place: str = ""  #: FILE:LINE
    holds: bool = True  #: the job is limited to one worker until its owner accepts it

    @property
    def sentence(self) -> str:
        """Its text, with the place if there is one."""
        return f"{self.text} ({self.place})" if self.place else self.text


def not_compared(why: str) -> ScriptFinding:
    """Return the hint that the comparison came to nothing."""
    text = f"one worker and two were not compared ({why.strip()}); whether the result depends on the number "
    return ScriptFinding(
        name=NOT_COMPARED,
        text=f"{text}of workers is not known. `swell check` shows the same with the script's output",
        holds=False,
    )


class ScriptNumbers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The batch and the end of a script by itself, as it gives them to `elastic`."""

    batch: int  #: samples of a step, of its loader
    epochs: int | None = None
    steps: int | None = None
    num_steps: int = 0  #: until its end; 0: that is not known
    has_schedule: bool = False  #: of learning rates

    def unlike(self, batch: int, num_steps: int) -> tuple[ScriptFinding, ...]:
        """Return the hint that a job has another batch, or another end."""
        pairs = ((batch, self.batch, "samples a step"), (num_steps, self.num_steps, "steps"))
        told = [f"{num} {what} where its script has {its}" for num, its, what in pairs if its not in (0, num)]
        if not told:
            return ()
        text = f"the job has {', and '.join(told)}: the job's count"
        if self.has_schedule and num_steps > self.num_steps > 0:
            text += f". A schedule of learning rates for {self.num_steps} steps ends before the job does"
        return (ScriptFinding(name=OTHER_NUMBERS, text=text, holds=False),)


class BetweenSteps(msgspec.Struct, frozen=True, kw_only=True):
    """Time that a job's script spends between two epochs, in evaluation for example, where no step is made.

    Several epochs may be told of together. `num_epochs` of 0 says that the time was at least so long: who
    measured it did not see its end.
    """

    time_s: float  #: after `num_steps` steps
    num_steps: int  #: of the own batch, > 0
    num_epochs: int = 1

    @property
    def per_step_s(self) -> float:
        """Mean seconds for each step of the own batch."""
        return self.time_s / self.num_steps

    def plus(self, other: BetweenSteps | None) -> BetweenSteps:
        """Both together."""
        if other is None:
            return self
        return BetweenSteps(
            time_s=self.time_s + other.time_s,
            num_steps=self.num_steps + other.num_steps,
            num_epochs=self.num_epochs + other.num_epochs,
        )
