"""Values of several workers that become one: their mean, sum, least or most in each step."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from swell.tally import Reduction
from swell.wire.messages import WorkerValues
from swell.wire.reports import MOST_STEPS, value_of

#: A worker that has gone on for so many steps without a word has none to say: it tells within `GRACE_S`.
STEPS_LATER = 2
GRACE_S = 2.0
#: Steps of one name that wait for workers.
MAX_WAITING = 256


@dataclass(slots=True)
class _Ballot:
    """Values of one name in one step."""

    reduction: Reduction
    steps: int  #: that the gang had made when the first of them was told
    values: dict[int, float] = field(default_factory=dict)  #: by worker
    passed_s: float | None = None  #: since when the gang is `STEPS_LATER` further on


class Reductions:
    """Reduces what the workers of one gang report to one value for each name and step.

    No worker waits. A worker that has reported nothing when the others have gone on is left out.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, dict[int, _Ballot]] = {}
        self._settled: dict[str, int] = {}  #: by name: up to which step values come too late
        self._round: int | None = None  #: of the group that was the last to begin

    def note_shares(self, worker: int, shares: Mapping[str, WorkerValues], steps: int) -> None:
        """What a worker has told, when it had made so many steps."""
        for name, share in shares.items():
            waiting = self._waiting.setdefault(name, {})
            for step, value in share.values:
                if self._settled.get(name, -1) < step < MOST_STEPS:
                    ballot = waiting.setdefault(step, _Ballot(share.reduction, steps))
                    ballot.values[worker] = value_of(value)

    def begin_round(self, round: int, steps: int) -> None:
        """A worker has joined the group of this round, which goes on after so many steps.

        Steps that are made again are told again: of a worker that is gone nothing may be left in them.
        """
        if round == self._round:
            return  # the first to join may have told of steps by now
        self._round = round
        self._settled.clear()
        for waiting in self._waiting.values():
            for step in [step for step in waiting if step > steps]:
                del waiting[step]

    def take_reduced(
        self, workers: Collection[int], steps: int, now_s: float, is_last: bool = False
    ) -> dict[str, tuple[Reduction, list[tuple[int, float]]]]:
        """Return the values that have become one, of steps that all `workers` have reported, or never will.

        By name: how they were reduced, and the steps with their values, oldest first.

        Args:
            steps: number of steps that the gang has made.
            is_last: nothing more will be reported.
        """
        taken: dict[str, tuple[Reduction, list[tuple[int, float]]]] = {}
        for name, waiting in self._waiting.items():
            ready = [step for step, one in waiting.items() if is_last or _is_over(one, workers, steps, now_s)]
            ready += sorted(waiting)[: max(0, len(waiting) - MAX_WAITING)]
            if ready:
                self._settled[name] = max(ready)
                chosen = sorted(step for step in waiting if step <= self._settled[name])
                ballots = [waiting.pop(step) for step in chosen]
                values = [(step, _reduced(one)) for step, one in zip(chosen, ballots, strict=True)]
                taken[name] = ballots[-1].reduction, values
        self._waiting = {name: waiting for name, waiting in self._waiting.items() if waiting}
        return taken


def _is_over(ballot: _Ballot, workers: Collection[int], steps: int, now_s: float) -> bool:
    if ballot.values.keys() >= set(workers):
        return True
    if ballot.passed_s is None and steps >= ballot.steps + STEPS_LATER:
        ballot.passed_s = now_s
    return ballot.passed_s is not None and now_s - ballot.passed_s >= GRACE_S


def _reduced(ballot: _Ballot) -> float:
    """NaN if one of them is."""
    values = list(ballot.values.values())
    if any(map(math.isnan, values)):
        return math.nan
    if ballot.reduction == "mean":
        return sum(value / len(values) for value in values)
    return {"min": min, "max": max}.get(ballot.reduction, sum)(values)
