"""Head time: seconds since 1970 as the platform counts them, whatever the machine's clock does.

What people see is in calendar time; the head, its journal and its archive are in head time.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from swell.model.calendar import TOLD_STEP_S, Calendar
from swell.model.event import ClockStepped
from swell.model.quantities import span
from swell.model.view import JobView, Story

#: Offsets are whole multiples of 1/GRAIN s: sums of these and of times are exact.
GRAIN = 1024
#: A reading of both clocks that took longer says nothing of how far they are apart.
LONGEST_READING_S = 0.05
#: So far the two may be apart: readings are not exact, and time servers correct by less all the time.
TOLERANCE_S = 0.1
#: A step that is taken back sooner was a mistake, and changes nothing.
LASTS_S = 10.0

log = logging.getLogger("swell.clock")


def read_boot_id() -> str:
    """Another one after each boot; empty where the kernel names none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalClock:
    """Those of the machine."""

    boot_s: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)  #: never set, never back
    wall_s: Callable[[], float] = lambda: time.time()  #: the calendar; anybody may set it
    boot_id: str = field(default_factory=read_boot_id)


class HeadClock:
    """CLOCK_BOOTTIME and an offset, which stays the same for as long as the machine is up.

    It also compares the machine's calendar with the platform's: `find_step` belongs to the head's thread.
    Until `continue_from` is called this is the clock of a platform's first start, which begins by the
    calendar.
    """

    def __init__(self, system: LocalClock | None = None) -> None:
        self._system = system or LocalClock()
        self.boot_id = self._system.boot_id
        self.continue_from(Calendar(), 0.0)

    def continue_from(self, calendar: Calendar, last_s: float) -> None:
        """Continue the time of an earlier platform, whose journal ends at `last_s`.

        On the same boot the offset stays the same. On another boot, head time is what the calendar and the
        former boot's offset say, but not less than `last_s`. A boot on which CLOCK_BOOTTIME is less than
        before (another time namespace, a restored machine) counts as another boot.
        """
        boot_s, wall_s = self._system.boot_s(), self._system.wall_s()
        is_same_boot = self.boot_id != "" and self.boot_id == calendar.boot_id
        if is_same_boot and boot_s + calendar.boot_offset_s >= last_s:
            self.boot_offset_s = calendar.boot_offset_s  #: head time less CLOCK_BOOTTIME
        else:
            now_s = max(last_s, wall_s - calendar.offset_s)
            self.boot_offset_s = math.ceil((now_s - boot_s) * GRAIN) / GRAIN
        self.calendar_offset_s = calendar.offset_s  #: calendar less head time, as the platform has it
        self._suspicion: tuple[float, float] | None = None  #: offset that the machine has instead, since when

    def now_s(self) -> float:
        """Head time; never goes back."""
        return self.of_boot_s(self._system.boot_s())

    def of_boot_s(self, boot_s: float) -> float:
        """Head time of a CLOCK_BOOTTIME: other processes of this machine stamp with that."""
        return boot_s + self.boot_offset_s

    def wall_offset_s(self) -> float | None:
        """The machine's calendar less head time; None if something came between the two readings."""
        before_s = self._system.boot_s()
        wall_s = self._system.wall_s()
        after_s = self._system.boot_s()
        if after_s - before_s > LONGEST_READING_S:
            return None
        return round((wall_s - self.of_boot_s((before_s + after_s) / 2.0)) * GRAIN) / GRAIN

    # ------------------------------------------------------------ steps of the machine's clock
    def find_step(self) -> ClockStepped | None:
        """The step, once it has lasted. A step of TOLD_STEP_S or more is logged as soon as it is seen."""
        offset_s, now_s = self.wall_offset_s(), self.now_s()
        if offset_s is None:
            return None
        if abs(offset_s - self.calendar_offset_s) <= TOLERANCE_S:
            if self.ahead_s:
                log.warning("the machine's clock is right again: nothing has changed")
            self._suspicion = None
        elif self._suspicion is None or abs(offset_s - self._suspicion[0]) > TOLERANCE_S:
            self._suspicion = (offset_s, now_s)
            if self.ahead_s:
                log.warning("%s", suspected(self.ahead_s))
        elif now_s - self._suspicion[1] >= LASTS_S:
            level = logging.WARNING if self.ahead_s else logging.INFO
            log.log(
                level, "deadlines follow the machine's clock by %+.3f s", offset_s - self.calendar_offset_s
            )
            self.calendar_offset_s, self._suspicion = offset_s, None
            return ClockStepped(at_s=now_s, calendar_offset_s=offset_s)
        return None

    @property
    def ahead_s(self) -> float:
        """How far the machine's clock is ahead of the platform's calendar, which does not follow it yet.

        0 where that is nothing to speak of.
        """
        suspicion = self._suspicion
        ahead_s = 0.0 if suspicion is None else suspicion[0] - self.calendar_offset_s
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


# ---------------------------------------------------------------- by the calendar
#: Times of a view that lie ahead, or are compared with them: they move with the end of the job.
AHEAD = ("deadline_s", "asked_deadline_s", "counter_offer_s", "estimated_finish_s", "retry_s", "finished_s")


def shown_job(view: JobView, calendar: Calendar) -> JobView:
    """The view with times of the calendar.

    A deadline moves with the end of its job: what is shown agrees with whether it was kept.
    """
    if calendar.is_head_time:
        return view
    last_s = calendar.offset_s if view.finished_s is None else calendar.offset_at(view.finished_s)
    ahead = {name: None if (at_s := getattr(view, name)) is None else at_s + last_s for name in AHEAD}
    return msgspec.structs.replace(
        view,
        **ahead,
        submitted_s=calendar.time_of(view.submitted_s),
        started_s=None if view.started_s is None else calendar.time_of(view.started_s),
        stalled_since_s=None if (at_s := view.stalled_since_s) is None else calendar.time_of(at_s),
        idle_since_s=None if (at_s := view.idle_since_s) is None else calendar.time_of(at_s),
        used=tuple((calendar.time_of(at_s), used_s) for at_s, used_s in view.used),
        sizes=tuple((calendar.time_of(at_s), workers) for at_s, workers in view.sizes),
        resize_history=tuple(
            msgspec.structs.replace(resize, at_s=calendar.time_of(resize.at_s))
            for resize in view.resize_history
        ),
    )


def shown_story(story: Story, calendar: Calendar) -> Story:
    """The same line with its head time converted to calendar time."""
    if calendar.is_head_time:
        return story
    return msgspec.structs.replace(story, at_s=calendar.time_of(story.at_s))
