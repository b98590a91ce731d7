"""The table of transitions between phases of a job; states of its gang are in `gang`.

Anything absent from it is a bug, and raises with the job's story.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from swell.model.job import Phase

#: Of a job that has a gang.
_ENDS = (Phase.SUCCEEDED, Phase.ENDED_EARLY, Phase.FAILED, Phase.CANCELLED)

ALLOWED: Mapping[Phase, frozenset[Phase]] = {
    Phase.QUEUED: frozenset({Phase.STARTING, Phase.SUCCEEDED, Phase.REJECTED, Phase.FAILED, Phase.CANCELLED}),
    Phase.STARTING: frozenset({Phase.RUNNING, Phase.QUEUED, Phase.STOPPING, *_ENDS}),
    Phase.RUNNING: frozenset({Phase.STOPPING, Phase.QUEUED, *_ENDS}),
    Phase.STOPPING: frozenset({Phase.QUEUED, Phase.RUNNING, *_ENDS}),
    Phase.SUCCEEDED: frozenset(),
    Phase.ENDED_EARLY: frozenset(),
    Phase.FAILED: frozenset(),
    Phase.CANCELLED: frozenset(),
    Phase.REJECTED: frozenset(),
}


class IllegalTransition(RuntimeError):
    """A defect of the head: no event may lead from the one phase to the other."""


def check_transition(job_id: str, old: Phase, new: Phase, story: Callable[[], str]) -> None:
    if new not in ALLOWED[old]:
        raise IllegalTransition(f"job {job_id!r} cannot go from {old} to {new}; its story: {story()}")
