"""Times as people at this machine read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from swell.model.lengths import relative


@dataclass(frozen=True, slots=True)
class Times:
    """How moments are written: of a platform by the clock on the wall, in seconds since 1970."""

    now_s: float  #: the present, to which other times are compared

    def clock(self, at_s: float) -> str:
        """The time in a short form."""
        return clock(at_s, self.now_s)

    def moment(self, at_s: float) -> str:
        """The time, with its distance from now where that is of interest."""
        return moment(at_s, self.now_s)


@dataclass(frozen=True, slots=True)
class RunTimes(Times):
    """Seconds since the first submission of a simulated run, which is over at `now_s`."""

    def clock(self, at_s: float) -> str:
        """`00:12:05`, `3d 07:00:00`."""
        minutes, seconds = divmod(int(at_s), 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        return f"{f'{days}d ' if days else ''}{hours:02}:{minutes:02}:{seconds:02}"

    def moment(self, at_s: float) -> str:
        return self.clock(at_s)


def clock(at_s: float, now_s: float) -> str:
    """`14:05:22`; on another day `Jan 15 14:05`, in another year `2027-01-15`."""
    at = datetime.fromtimestamp(at_s).astimezone()
    now = datetime.fromtimestamp(now_s).astimezone()
    if at.date() == now.date():
        return f"{at:%H:%M:%S}"
    return f"{at:%b %d %H:%M}" if at.year == now.year else f"{at:%Y-%m-%d}"


def moment(at_s: float, now_s: float) -> str:
    """`14:05:22 (in 41 s)`."""
    return f"{clock(at_s, now_s)} ({relative(at_s - now_s)})"
