"""Jobs of a simulated run, for the commands that show jobs of a platform."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from swell.api.named_job import choose
from swell.cli.clock import RunTimes
from swell.model.errors import InvalidInput

if TYPE_CHECKING:
    from swell.model.view import JobView, Story
    from swell.store.run_record import RunRecord


def recorded(run: Path | None, policy: str | None, state: Path | None) -> RecordedRun | None:
    """What `--run` and `--policy` mean; None without them: a platform is meant.

    Raises:
        StateError: the folder holds no such record.
        InvalidInput: it holds those of several policies.
    """
    if run is None:
        if policy is not None:
            raise typer.BadParameter("--policy needs --run FOLDER; a platform has only one policy")
        return None
    if state is not None:
        raise typer.BadParameter("--run and --state exclude each other; give one of them")
    from swell.store.run_record import RunRecord

    record = RunRecord(run)
    known = record.policies()
    if policy is None and len(known) > 1:
        raise InvalidInput(f"the run in {run} has {', '.join(known)}; choose one with --policy")
    return RecordedRun(record, policy or known[0])


class RecordedRun:
    """One policy's."""

    def __init__(self, record: RunRecord, policy: str) -> None:
        self._record = record
        self._policy = policy
        self._jobs = record.jobs(policy)

    def find(self, wanted: str) -> JobView:
        """Raises UnknownJob if no job, or more than one, could be meant."""
        remedy = f"the run in {self._record.folder} has {len(self._jobs):,} others"
        return choose(self._jobs, wanted, remedy)

    def stories(self, view: JobView) -> Sequence[Story]:
        """The history of the job's decisions, oldest first."""
        told = self._record.stories(self._policy, view.id)
        return told if view.share_changes is None else [*told, view.share_changes]

    @property
    def times(self) -> RunTimes:
        """The run ends with its last job."""
        return RunTimes(max((view.finished_s or 0.0 for view in self._jobs), default=0.0))
