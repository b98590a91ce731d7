"""Times that the head keeps to, as a platform sets them: to know them takes no head."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSettings:
    """All in seconds."""

    min_hold_s: float = 5.0  #: a gang keeps its size at least so long, promises apart
    report_plan_s: float = 2.0  #: progress reports alone lead to a new plan at most so often
    yield_s: float = 60.0  #: a gang that does not give up devices which a promise lacks is stopped after that
    checkpoint_interval_s: float = 30.0  #: of running jobs that name none; 0: chosen for each gang
    half_life_s: float = 0.0  #: of what accounts have used; 0: jobs are not ordered by it, nor by their wait
    unheard_s: float = 0.0  #: at most, from the loss of a node until the head hears of it
