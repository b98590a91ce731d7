"""Jobs that need looking after: few are, and they are known without a look at all the others."""

from __future__ import annotations

from typing import Literal, get_args

from swell.core.record import JobRecord
from swell.model.job import Phase
from swell.model.target import PLAIN_CONFIGURATION

Kind = Literal["new", "ailing", "leaving", "held back", "configured", "barred"]


class Watchlists:
    """Ids by kind, kept up to date with the records that change."""

    def __init__(self) -> None:
        self.jobs: dict[Kind, set[str]] = {kind: set() for kind in get_args(Kind)}
        self._kinds: dict[str, tuple[Kind, ...]] = {}  #: of each job that is of any

    def note(self, record: JobRecord) -> None:
        """This one may have changed."""
        kinds = kinds_of(record)
        before = self._kinds.get(record.id, ())
        if kinds == before:
            return
        for kind in before:
            self.jobs[kind].remove(record.id)
        for kind in kinds:
            self.jobs[kind].add(record.id)
        self._kinds[record.id] = kinds
        if not kinds:
            del self._kinds[record.id]


def kinds_of(record: JobRecord) -> tuple[Kind, ...]:
    """Which of the special ones it is."""
    if record.ended is not None:
        return ()
    kinds: list[Kind] = []
    is_untried = record.progress.total_steps is None and record.phase is Phase.QUEUED
    if is_untried and not record.is_profiling and not record.is_set_aside:
        kinds.append("new")
    if record.gang.is_broken or record.is_cancelled or (record.is_held and record.phase.holds_devices):
        kinds.append("ailing")
    if record.is_pinned and record.gang.is_leaving:
        kinds.append("leaving")
    if record.backoff.until_s > 0.0 or record.backoff.share_until_s > 0.0:
        kinds.append("held back")
    if record.gang.goal.configuration != PLAIN_CONFIGURATION:
        kinds.append("configured")
    if record.ruled_out:
        kinds.append("barred")
    return tuple(kinds)
