"""What came of each turn of the head, and how long its parts took."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from swell.core.explanations import TurnChanges
from swell.core.platform_core import PlatformCore
from swell.model.calendar import Calendar
from swell.model.command import AnyCommand
from swell.model.event import AnyEvent
from swell.model.view import JobView, Story


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnNews:
    """What came of a batch for people to see. Times are head time."""

    now_s: float
    calendar: Calendar
    ended: Sequence[JobView]
    changes: Sequence[TurnChanges]  #: of open jobs, by core
    stories: Sequence[tuple[str, Story]]
    warned: Collection[str]  #: names of nodes that are to be left

    @classmethod
    def of(cls, core: PlatformCore) -> TurnNews:
        """What is new with the core after the turn that it has just made."""
        return cls(
            now_s=core.now_s,
            calendar=core.calendar,
            ended=core.ended_views(),
            changes=core.changes(),
            stories=core.stories(),
            warned=core.warned,
        )

    @property
    def changed(self) -> list[JobView]:
        """Open jobs of which something is new, without what the plan says of them."""
        return [view for of_core in self.changes for view in of_core.views]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDurations:
    """Seconds."""

    journal_s: float  #: until the batch was on disk
    decision_s: float  #: from then on, until the head had decided
    turn_s: float  #: from the batch to the end of what came of it, both included


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One batch and what came of it."""

    batch: Sequence[AnyEvent]
    news: TurnNews
    took: TurnDurations


@dataclass(slots=True)
class TurnUnderWay:
    """A turn that is not over; times by `time.perf_counter`."""

    batch: Sequence[AnyEvent]
    begun_s: float = 0.0
    written_s: float = 0.0
    decided_s: float = 0.0
    computed_s: float = 0.0  #: of a processor, to decide
    commands: list[AnyCommand] = field(default_factory=list)

    def took(self, now_s: float) -> TurnDurations:
        """How long its parts took, if it ends now."""
        return TurnDurations(
            journal_s=self.written_s - self.begun_s,
            decision_s=self.decided_s - self.written_s,
            turn_s=now_s - self.begun_s,
        )
