"""Trial runs that were lost, in the platform's log: they are tried again, and no job's page keeps them."""

from __future__ import annotations

import logging

from swell.live.turn_feed import Turn
from swell.model.event import Outcome, ProfilingFailed

log = logging.getLogger("swell.platform")


class TrialLog:
    """Listens to turns, and writes a line for each lost trial run."""

    def hear(self, turn: Turn) -> None:
        """See `TurnListener`."""
        for event in turn.batch:
            if isinstance(event, ProfilingFailed) and event.outcome is Outcome.LOST and not event.is_taken:
                log.warning("the trial run of %s was lost: %s", event.job_id, event.message.strip())

    def look(self) -> None:
        """Nothing is lost between turns."""
