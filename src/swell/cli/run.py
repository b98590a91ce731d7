"""Where commands find the jobs that they show: on a platform, or in the record of a simulated run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from swell.cli.clock import RunTimes, Times
from swell.cli.selection import connect_to_read
from swell.model.errors import InvalidInput
from swell.model.job_query import choose

if TYPE_CHECKING:
    from swell.model.view import JobView, Story


@dataclass(frozen=True, slots=True)
class ShownJobs:
    """Jobs that can be shown."""

    times: Times
    find: Callable[[str], JobView]  #: raises UnknownJob if no job, or more than one, could be meant
    stories: Callable[[JobView], Sequence[Story]]  #: of the job's decisions, oldest first


@contextmanager
def shown_jobs(run: Path | None, policy: str | None, state: Path | None) -> Iterator[ShownJobs]:
    """The jobs that `--run`, `--policy` and `--state` mean; without the first a platform's.

    Raises:
        StateError: the folder holds no such record.
        InvalidInput: it holds those of several policies.
    """
    if run is None:
        if policy is not None:
            raise typer.BadParameter("--policy needs --run FOLDER; a platform has only one policy")
        with connect_to_read(state) as client:
            times = Times(client.cluster().now_s)
            yield ShownJobs(times, client.find_job, lambda view: client.stories(view.id))
        return
    if state is not None:
        raise typer.BadParameter("--run and --state exclude each other; give one of them")
    yield _recorded_jobs(run, policy)


def _recorded_jobs(run: Path, policy: str | None) -> ShownJobs:
    """Those of one policy; the run ends with its last job."""
    from swell.store.run_record import RunRecord

    record = RunRecord(run)
    known = record.policies()
    if policy is None and len(known) > 1:
        raise InvalidInput(f"the run in {run} has {', '.join(known)}; choose one with --policy")
    policy = policy or known[0]
    jobs = record.jobs(policy)

    times = RunTimes(max((view.finished_s or 0.0 for view in jobs), default=0.0))
    return ShownJobs(
        times,
        lambda one: choose(jobs, one, f"the run in {run} has {len(jobs):,} others"),
        lambda view: record.stories(policy, view.id),
    )
