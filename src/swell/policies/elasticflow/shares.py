"""What ElasticFlow works out on its way to an answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swell.arrays import IntArray
from swell.solvers.profile import Plans


@dataclass(frozen=True, slots=True)
class Queue:
    """Rows in the order in which they are served, each group by what matters in it."""

    promised: IntArray  #: by deadline
    soft: IntArray  #: by deadline: those that can be on time
    late: IntArray  #: soft ones that cannot, by deadline
    best_effort: IntArray  #: shortest remaining time first
    plans: Plans  #: (J,) of the soft jobs that can be on time

    @property
    def in_order(self) -> IntArray:
        """Rows of all groups in order of service, without refused jobs."""
        return np.concatenate([self.promised, self.soft, self.late, self.best_effort])


@dataclass(frozen=True, slots=True)
class Shares:
    """Levels that promises need now, and levels that jobs get."""

    floor: IntArray  #: (J,) level that promises need now
    level: IntArray  #: (J,) level given
