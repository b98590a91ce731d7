"""Jobs that follow others: which jobs are meant, and what a follower hears once these have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from swell.live.job_lookup import JobLookup
from swell.model.errors import InvalidJob
from swell.model.event import CancelRequested, PredecessorsSucceeded
from swell.model.job import JobSpec, Phase
from swell.model.view import JobView


def with_predecessors(spec: JobSpec, lookup: JobLookup) -> JobSpec:
    """The request with ids in place of the names of the jobs that it follows.

    Raises InvalidJob: there is no such job, or it has ended without success.
    """
    if not spec.after:
        return spec
    found = [_predecessor(word, lookup.candidates(word)) for word in spec.after]
    return msgspec.structs.replace(spec, after=tuple(dict.fromkeys(view.id for view in found)))


def _predecessor(word: str, candidates: list[JobView]) -> JobView:
    if len(candidates) != 1:
        known = ", ".join(view.id for view in candidates)
        why = (
            f"could be any of {known}; give more of the id" if known else "is no job; `swell jobs` lists all"
        )
        raise InvalidJob(f"after: {word!r} {why}")
    (view,) = candidates
    if view.phase.is_end and view.phase is not Phase.SUCCEEDED:
        raise InvalidJob(
            f"after: job {view.id!r} is {view.phase}, so a job that follows it would never start; leave it "
            "out, or name another one"
        )
    return view


class FollowerWatch:
    """Jobs that wait for others to succeed. Belongs to the head's thread; what it finds goes to the inbox.

    It compares what is with what was asked for, whenever a job has ended or a follower is new. So an answer
    that was lost with a daemon is found again by the next one.

    Args:
        find: a job that is open or has ended; None: it was pruned.
        put: takes an event for the head.
        now_s: head time.
    """

    def __init__(
        self,
        find: Callable[[str], JobView | None],
        put: Callable[[CancelRequested | PredecessorsSucceeded], None],
        now_s: Callable[[], float],
    ) -> None:
        self._find, self._put, self._now_s = find, put, now_s
        self._awaits: dict[str, tuple[str, ...]] = {}  #: by job

    def note(self, changed: Iterable[JobView], ended: Iterable[JobView]) -> None:
        """What a turn has changed: tell followers of which all predecessors, or one of them, has ended."""
        is_any_news = False
        for view in changed:
            if view.awaits != self._awaits.get(view.id, ()):
                self._awaits[view.id] = view.awaits
                is_any_news = True
        for view in ended:
            self._awaits.pop(view.id, None)
            is_any_news = True
        if not self._awaits or not is_any_news:
            return
        self._awaits = {job_id: awaited for job_id, awaited in self._awaits.items() if awaited}
        for event in list(self._events()):
            self._put(event)

    def _events(self) -> Iterator[CancelRequested | PredecessorsSucceeded]:
        for job_id, awaited in self._awaits.items():
            states = {one: self._state(one) for one in awaited}
            if failed := [one for one, state in states.items() if state not in ("open", "succeeded")]:
                why = f"was cancelled: {failed[0]}, which it was to follow, {_told(states[failed[0]])}"
                yield CancelRequested(at_s=self._now_s(), job_id=job_id, why=why)
            elif "open" not in states.values():
                yield PredecessorsSucceeded(at_s=self._now_s(), job_id=job_id)

    def _state(self, job_id: str) -> str:
        view = self._find(job_id)
        if view is None:
            return "pruned"
        return str(view.phase) if view.phase.is_end else "open"


def _told(state: str) -> str:
    return "has failed" if state == "failed" else f"was {state}"
