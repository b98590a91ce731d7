"""Where commands find the jobs that they show: on a platform, or in the record of a simulated run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import typer

from swell.api.named_job import choose
from swell.cli.clock import RunTimes, Times
from swell.cli.selection import connect_to_read, find_job
from swell.model.errors import InvalidInput

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.model.view import JobView, Story
    from swell.store.run_record import RunRecord


class Jobs(Protocol):
    """Jobs that can be shown."""

    times: Times

    def find(self, wanted: str) -> JobView:
        """Raises UnknownJob if no job, or more than one, could be meant."""

    def stories(self, view: JobView) -> Sequence[Story]:
        """The history of the job's decisions, oldest first."""


@contextmanager
def shown_jobs(run: Path | None, policy: str | None, state: Path | None) -> Iterator[Jobs]:
    """The jobs that `--run`, `--policy` and `--state` mean; without the first a platform's.

    Raises:
        StateError: the folder holds no such record.
        InvalidInput: it holds those of several policies.
    """
    if run is None:
        if policy is not None:
            raise typer.BadParameter("--policy needs --run FOLDER; a platform has only one policy")
        with connect_to_read(state) as client:
            yield _LiveJobs(client)
        return
    if state is not None:
        raise typer.BadParameter("--run and --state exclude each other; give one of them")
    from swell.store.run_record import RunRecord

    record = RunRecord(run)
    known = record.policies()
    if policy is None and len(known) > 1:
        raise InvalidInput(f"the run in {run} has {', '.join(known)}; choose one with --policy")
    yield _RecordedJobs(record, policy or known[0])


class _LiveJobs:
    def __init__(self, client: Client) -> None:
        self._client = client
        self.times = Times(client.cluster().now_s)

    def find(self, wanted: str) -> JobView:
        return find_job(self._client, wanted)

    def stories(self, view: JobView) -> Sequence[Story]:
        return self._client.stories(view.id)


class _RecordedJobs:
    """Those of one policy; the run ends with its last job."""

    def __init__(self, record: RunRecord, policy: str) -> None:
        self._record, self._policy = record, policy
        self._jobs = record.jobs(policy)
        self.times: Times = RunTimes(max((view.finished_s or 0.0 for view in self._jobs), default=0.0))

    def find(self, wanted: str) -> JobView:
        remedy = f"the run in {self._record.folder} has {len(self._jobs):,} others"
        return choose(self._jobs, wanted, remedy)

    def stories(self, view: JobView) -> Sequence[Story]:
        told = self._record.stories(self._policy, view.id)
        return told if view.share_changes is None else [*told, view.share_changes]
