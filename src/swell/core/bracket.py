"""The rungs of successive halving, and what each trial of a group had when it reached them."""

from __future__ import annotations

import math

import msgspec


class TrialState(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """How far a trial has come among the others of its group."""

    rung: int = 0  #: the highest that it has reached; 0: none yet
    rank: int = 0  #: among those that were there, when it got there
    num_there: int = 0
    num_reports: int = 0  #: values of the metric so far
    stopped: str = ""  #: why it is to end before its time; empty: it is not


class Rung(msgspec.Struct):
    """Trials that have reached it, and what each had when it did."""

    values: dict[str, float | None] = {}  #: by job, in the order in which they came; None: no number

    def place(self, job_id: str, value: float, rises: bool) -> tuple[int, int]:
        """Add a trial; return its rank, from 1, and how many there are.

        Equal values rank in the order in which they came; what is no number ranks behind all others.
        """
        self.values.pop(job_id, None)
        worth = _worth(value, rises)
        num_ahead = sum(_worth(other, rises) >= worth for other in self.values.values())
        self.values[job_id] = None if math.isnan(value) else value
        return num_ahead + 1, len(self.values)

    def replace(self, earlier: str, job_id: str, rises: bool) -> tuple[int, int]:
        """Give a trial the value of an earlier one that is there; return what `place` does."""
        value = self.values.pop(earlier)
        return self.place(job_id, math.nan if value is None else value, rises)


def _worth(value: float | None, rises: bool) -> float:
    if value is None or math.isnan(value):
        return -math.inf
    return value if rises else -value


class Bracket(msgspec.Struct):
    """The trials of one group."""

    rungs: list[Rung] = []
    open_trials: list[str] = []

    def rung(self, number: int) -> Rung:
        """Rung 1, 2, ..."""
        while len(self.rungs) < number:
            self.rungs.append(Rung())
        return self.rungs[number - 1]

    def enter(self, job_id: str) -> None:
        """The trial is submitted."""
        self.open_trials.append(job_id)


def bracket_of(brackets: dict[str, Bracket], group: str) -> Bracket:
    """Return the bracket of the group, which may be new."""
    return brackets.setdefault(group, Bracket())


def leave(brackets: dict[str, Bracket], group: str, job_id: str) -> None:
    """The job has ended. A group of which no trial is open is forgotten."""
    bracket = brackets.get(group)
    if bracket is None or job_id not in bracket.open_trials:
        return
    bracket.open_trials.remove(job_id)
    if not bracket.open_trials:
        del brackets[group]
