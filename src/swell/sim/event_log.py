"""The stories of a simulated run, told as a live platform's are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from swell.core.platform_core import PlatformCore
from swell.model.view import JobView, Story
from swell.sim.outcome import JobOutcome
from swell.sim.segments import Segment, gangs


class EventLog:
    """Keeps every line of every job's story, and each job as it was at its end.

    Lines are written out where they are kept: a run without this log does not pay for them.
    """

    def __init__(self) -> None:
        self.stories: list[tuple[str, Story]] = []  #: (job id, line), in order of time
        self._ended: dict[str, JobView] = {}

    def listen(self, core: PlatformCore) -> None:
        """Collect the head's new story lines and the jobs that have ended. To be called after each turn."""
        self.stories += core.stories()
        self._ended |= {view.id: view for view in core.ended_views()}

    def jobs(self, core: PlatformCore) -> list[JobView]:
        """All that the head has known, those last that are open at the end of the run."""
        return [*self._ended.values(), *core.views()]


def with_gangs(
    stories: Iterable[tuple[str, Story]], outcomes: Sequence[JobOutcome]
) -> list[tuple[str, Story]]:
    """The same with lines of what gangs really did, to a millisecond.

    Of one moment a gang's end comes before what the head makes of it, all else after.
    """
    return [*_ends(outcomes), *stories, *_segments(outcomes)]


def _ends(outcomes: Sequence[JobOutcome]) -> Iterator[tuple[str, Story]]:
    for outcome in outcomes:
        for last in (gang[-1] for gang in gangs(outcome.segments) if gang[-1].end):
            text = f"{last.end} at {last.until_s:.3f} s, step {last.until_step:.3f}"
            yield outcome.id, Story(at_s=last.until_s, code="gone", text=text)


def _segments(outcomes: Sequence[JobOutcome]) -> Iterator[tuple[str, Story]]:
    for outcome in outcomes:
        for gang in gangs(outcome.segments):
            for number, segment in enumerate(gang):
                if segment.until_s > segment.from_s:
                    yield outcome.id, _told(segment, is_first=number == 0)


def _told(segment: Segment, is_first: bool) -> Story:
    where = f"on {' '.join(segment.devices)}"
    if segment.joining:
        where += f", while {' '.join(segment.joining)} start"
    if segment.trains:
        pause_s = segment.trains_from_s - segment.from_s
        text = (
            f"trains from {segment.trains_from_s:.3f} s, after a pause of {pause_s:.3f} s"
            if pause_s
            else (f"trains from {segment.from_s:.3f} s")
        )
        text = f"{text}, at {segment.rate_per_s:.6g} steps/s from step {segment.from_step:.3f} {where}"
        return Story(at_s=segment.from_s, code="trains", text=text)
    verb = "launched" if is_first else "stands still"
    return Story(
        at_s=segment.from_s,
        code="launched" if is_first else "stands",
        text=f"{verb} at {segment.from_s:.3f} s for {segment.until_s - segment.from_s:.3f} s {where}",
    )
