"""From the log of a run to the pause that a change of size meant for training.

A step has ended when the last of its workers has ended it. The pause of a change is the time from the end
of the last step before it to the end of the first step of the group that was wanted, less one steady step:
the median of the steps after that. What was trained on the way, by groups that formed while not all had
come, is no pause: those steps are taken off too.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.training.steplog import Line


@dataclass
class Stretch:
    """The steps of one group, from its forming to its end."""

    group: str
    num_workers: int
    ends_s: dict[int, float] = field(default_factory=dict)  #: by step: when its last worker ended it
    num_ended: dict[int, int] = field(default_factory=dict)  #: by step: workers that have

    @property
    def last_s(self) -> float:
        return max(self.ends_s.values())

    @property
    def num_whole(self) -> int:
        """Steps that all workers have ended."""
        return sum(num == self.num_workers for num in self.num_ended.values())

    def durations_s(self) -> list[float]:
        """Of each step but the first, whose beginning is not known."""
        ends_s = [self.ends_s[step] for step in sorted(self.ends_s)]
        return [after - before for before, after in pairwise(ends_s)]


@dataclass(frozen=True)
class Pause:
    """What one change cost. Seconds."""

    pause_s: float
    steady_step_s: float  #: median at the new size
    to_next_step_s: float  #: from the cause (a command, a kill) to the end of the next finished step
    num_repeated: int  #: steps that were done again, for the state was of an earlier one
    slowed_s: float = 0.0  #: that steps at the old size took longer since the command: newcomers get ready
    old_step_s: float = 0.0  #: median at the old size before that
    expected_s: float | None = (
        None  #: the pause, by those of the same change before it; None: there were none
    )


def stretches(lines: Iterable[Line]) -> list[Stretch]:
    """The groups of a run in the order of their first steps."""
    groups: dict[str, Stretch] = {}
    for line in lines:
        stretch = groups.setdefault(line.group, Stretch(line.group, line.num_workers))
        stretch.ends_s[line.step] = max(line.end_s, stretch.ends_s.get(line.step, 0.0))
        stretch.num_ended[line.step] = stretch.num_ended.get(line.step, 0) + 1
    return sorted(groups.values(), key=lambda stretch: min(stretch.ends_s.values()))


def pause_of(history: Sequence[Stretch], before: int, after: int, cause_s: float) -> Pause:
    """What lies between the stretches `before` and `after`, whose change was caused at `cause_s`.

    Raises:
        ValueError: after the change there is no steady step to compare with.
    """
    old, new = history[before], history[after]
    steady_s = _steady_s(new)
    on_the_way_s = sum(
        len(stretch.ends_s) * (_steady_s(stretch) if len(stretch.ends_s) > 1 else steady_s)
        for stretch in history[before + 1 : after]
    )
    first_step = min(new.ends_s)
    left_s = old.last_s
    next_s = min(end_s for stretch in history[before + 1 :] for end_s in stretch.ends_s.values())
    old_step_s, slowed_s = _slowed(old, cause_s)
    return Pause(
        pause_s=new.ends_s[first_step] - left_s - steady_s - on_the_way_s,
        steady_step_s=steady_s,
        to_next_step_s=next_s - cause_s,
        num_repeated=max(0, max(old.ends_s) + 1 - min(min(s.ends_s) for s in history[before + 1 :])),
        slowed_s=slowed_s,
        old_step_s=old_step_s,
    )


def _slowed(stretch: Stretch, since_s: float) -> tuple[float, float]:
    """A steady step before this moment, and by how much longer the steps after it took, all together.

    The step that was under way then counts in neither.
    """
    ends_s = [stretch.ends_s[step] for step in sorted(stretch.ends_s)]
    before = [end_s for end_s in ends_s if end_s <= since_s]
    after = [end_s for end_s in ends_s if end_s > since_s]
    if len(before) < 2 or len(after) < 2:
        return 0.0, 0.0
    steady_s = statistics.median(later - earlier for earlier, later in pairwise(before))
    return steady_s, after[-1] - after[0] - (len(after) - 1) * steady_s


def _steady_s(stretch: Stretch) -> float:
    durations_s = stretch.durations_s()
    if not durations_s:
        raise ValueError(
            f"a group of {stretch.num_workers} finished {len(stretch.ends_s)} step; a steady step takes two"
        )
    return statistics.median(durations_s)
