"""The stories of a simulated run, told as a live platform's are."""

from __future__ import annotations

from swell.core.platform_core import PlatformCore
from swell.model.view import JobView, Story


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
