"""The answer of policies that make no promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.plan import Allocation, Reason
from swell.model.snapshot import Snapshot
from swell.policies import wording
from swell.policies.levels import Levels, all_levels
from swell.policies.outlook import Outlook, finish_at, look_ahead


def without_promises(
    snapshot: Snapshot,
    levels: Levels,
    level: IntArray,
    order: Sequence[int] | IntArray,
    why_has: Callable[[int], str],
    why_waits: str,
    end_s: FloatArray | None = None,
) -> Allocation:
    """The answer of a policy that refuses no job.

    Every undecided job is let in. What the head then calls promised is only not refused: there are no
    floors, and deadlines play no part.

    Args:
        end_s: (J,) from now, of jobs of which the policy knows more than their rates say; NaN: of others.
    """
    return Allocation(
        options=snapshot.options,
        option=levels.options_at(level),
        floor=np.zeros_like(level),
        refusals={},
        wake_s=math.inf,
        account=_Account(snapshot, levels, level, order, why_has, why_waits, end_s),
        is_sated=bool((level == levels.num).all()),
    )


def chosen_without_promises(
    snapshot: Snapshot,
    option: IntArray,
    order: Sequence[int] | IntArray,
    why_has: Callable[[int], str],
    why_waits: str,
) -> Allocation:
    """The same for (J,) options: a table of levels is made only if reasons are asked for."""
    options = snapshot.options
    level = np.where(option >= 0, option - options.starts[:-1] + 1, 0)
    return Allocation(
        options=options,
        option=option,
        floor=np.zeros_like(option),
        refusals={},
        wake_s=math.inf,
        account=_Account(snapshot, None, level, order, why_has, why_waits),
        is_sated=bool((level == options.num).all()),
    )


@dataclass(frozen=True)
class _Account:
    """Worked out when asked for; see `model.plan.Account`."""

    snapshot: Snapshot
    given_levels: Levels | None
    level: IntArray
    order: Sequence[int] | IntArray
    why_has: Callable[[int], str]
    why_waits: str
    known_end_s: FloatArray | None = None

    @property
    def codes(self) -> Sequence[str]:
        return ["sharing" if level > 0 else "waiting" for level in self.level.tolist()]

    @cached_property
    def levels(self) -> Levels:
        return all_levels(self.snapshot) if self.given_levels is None else self.given_levels

    @property
    def finish_s(self) -> FloatArray:
        return finish_at(self.snapshot.now_s, self._end_s)

    def reason(self, row: int) -> Reason:
        if self.levels.num[row] == 0:
            return wording.fits_nowhere(self.snapshot)
        if self.level[row] == 0:
            is_higher = (self.level > 0) & (self.snapshot.priority > self.snapshot.priority[row])
            num_higher = int(np.count_nonzero(is_higher))
            return wording.waits(self.why_waits, float(self._outlook.start_s[row]), num_higher)
        workers = int(self.levels.workers[row, self.level[row] - 1])
        return wording.gets(workers, self.why_has(row), float(self._end_s[row]))

    @cached_property
    def _outlook(self) -> Outlook:
        order = np.asarray(self.order, dtype=np.int64)
        return look_ahead(self.snapshot, self.levels, self.level, order[self.level[order] == 0])

    @cached_property
    def _end_s(self) -> FloatArray:
        """(J,) from now."""
        ahead_s = self._outlook.end_s
        if self.known_end_s is None:
            return ahead_s
        ends_s: FloatArray = np.where(np.isnan(self.known_end_s), ahead_s, self.known_end_s)
        return ends_s
