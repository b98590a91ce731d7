"""Notices that the machine's clock was set."""

from __future__ import annotations

import logging

from swell.live.clock import HeadClock
from swell.model.calendar import TOLD_STEP_S
from swell.model.event import ClockStepped
from swell.model.lengths import span

#: So far the two may be apart: readings are not exact, and time servers correct by less all the time.
TOLERANCE_S = 0.1
#: A step that is taken back sooner was a mistake, and changes nothing.
LASTS_S = 10.0

log = logging.getLogger("swell.clock")


class ClockWatch:
    """Compares the machine's calendar with the platform's. `look` belongs to the head's thread."""

    def __init__(self, clock: HeadClock) -> None:
        self._clock = clock
        self.offset_s = 0.0  #: calendar less head time, as the platform has it
        self._suspicion: tuple[float, float] | None = None  #: offset that the machine has instead, since when

    def begin(self, offset_s: float) -> None:
        """Start with the offset that the journal ends with, in seconds."""
        self.offset_s, self._suspicion = offset_s, None

    def look(self) -> ClockStepped | None:
        """The step, once it has lasted. A step of TOLD_STEP_S or more is logged as soon as it is seen."""
        offset_s, now_s = self._clock.wall_offset_s(), self._clock.now_s()
        if offset_s is None:
            return None
        if abs(offset_s - self.offset_s) <= TOLERANCE_S:
            if self.ahead_s:
                log.warning("the machine's clock is right again: nothing has changed")
            self._suspicion = None
        elif self._suspicion is None or abs(offset_s - self._suspicion[0]) > TOLERANCE_S:
            self._suspicion = (offset_s, now_s)
            if self.ahead_s:
                log.warning("%s", suspected(self.ahead_s))
        elif now_s - self._suspicion[1] >= LASTS_S:
            level = logging.WARNING if self.ahead_s else logging.INFO
            log.log(level, "deadlines follow the machine's clock by %+.3f s", offset_s - self.offset_s)
            self.offset_s, self._suspicion = offset_s, None
            return ClockStepped(at_s=now_s, calendar_offset_s=offset_s)
        return None

    @property
    def ahead_s(self) -> float:
        """How far the machine's clock is ahead of the platform's calendar, which does not follow it yet.

        0 where that is nothing to speak of.
        """
        suspicion = self._suspicion
        ahead_s = 0.0 if suspicion is None else suspicion[0] - self.offset_s
        return ahead_s if abs(ahead_s) > TOLD_STEP_S else 0.0


def suspected(ahead_s: float) -> str:
    """Text for users: the machine's clock differs from the platform's, and what follows if that lasts."""
    way = "ahead of" if ahead_s > 0 else "behind"
    return (
        f"the machine's clock is {span(ahead_s)} {way} the platform's; deadlines follow it once that has "
        f"lasted for {span(LASTS_S)}"
    )


def followed(step_s: float, ago_s: float) -> str:
    """Text for users: the machine's clock was set, and deadlines follow it."""
    way = "forward" if step_s > 0 else "back"
    return f"the machine's clock was set {way} by {span(step_s)}, {span(ago_s)} ago; deadlines follow it"
