"""What the state folder of a platform that is not up tells of its jobs, by the same requests. Read only."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import msgspec

from swell import __version__
from swell.api.client import Client
from swell.api.errors import NoPlatform
from swell.api.fields import parse_query
from swell.api.logs import LogChunk, LogOwner, parse_offsets, read_chunks
from swell.api.transport import TOKEN, Transport
from swell.api.verbs import Verb
from swell.assemble import open_lookup
from swell.model.view import ClusterView, JobView
from swell.store.folder import StateFolder
from swell.store.lock import find_holder


def read_stored(state: str | os.PathLike[str] | None, why: NoPlatform) -> Client:
    """Read jobs, stories, metrics and logs from a state folder, of which the caller must be the owner.

    Args:
        why: raised if there is nothing to read, or a platform is about to be up; and by the client's methods
            that need a platform.

    Raises:
        StateError: the journal cannot be read.
    """
    folder = StateFolder(state)
    if os.environ.get(TOKEN) or not folder.journal.exists() or find_holder(folder.lock) is not None:
        raise why
    return Client(SavedTransport(folder, why))


class SavedTransport(Transport):
    """Requests that are answered from a state folder, in the place of a line to a platform.

    Args:
        why: there is no such line; raised for every request that only a platform can answer.

    Raises:
        StateError: the journal cannot be read.
    """

    def __init__(self, folder: StateFolder, why: NoPlatform) -> None:
        self.folder, self._why = folder, why
        self._opened = ExitStack()
        self._lookup = lookup = self._opened.enter_context(open_lookup(folder.path))
        self._answers: dict[str, Callable[..., Any]] = {
            "cluster": _cluster,
            "count_jobs": lookup.count_jobs,
            "job": self._job,
            "jobs": self._jobs,
            "logs": self._logs,
            "metrics": lookup.metrics,
            "stories": lookup.stories,
        }

    def ask(self, verb: Verb, given: Mapping[str, Any]) -> Any:
        if verb.name not in self._answers:
            raise self._why
        return self._answers[verb.name](**msgspec.structs.asdict(verb.arguments(**given)))

    def close(self) -> None:
        self._opened.close()

    def find_again(self) -> None:
        """Do nothing: what is stored stays as it is."""

    def _job(self, job_id: str) -> JobView:
        return _left(self._lookup.job(job_id))

    def _jobs(
        self, match: str | None, phase: str, since_s: float | None, before: str, limit: int
    ) -> list[JobView]:
        if match is not None:
            return [_left(view) for view in self._lookup.candidates(match)]
        return [_left(view) for view in self._lookup.jobs(parse_query(phase, since_s, limit), before)]

    def _logs(
        self, job_id: str, offset: str, worker: str | None, whose: LogOwner, tail: int
    ) -> list[LogChunk]:
        folder = self.folder.jobs / self._lookup.found(job_id).id
        return read_chunks(folder, parse_offsets(offset, worker), worker, whose)


def _left(view: JobView) -> JobView:
    """The view of a job that no platform runs: it is expected to end at no time."""
    return view if view.phase.is_end else msgspec.structs.replace(view, estimated_finish_s=None)


def _cluster() -> ClusterView:
    now_s = time.time()
    return ClusterView(
        version=__version__,
        policy="",
        now_s=now_s,
        started_s=now_s,
        nodes=(),
        num_devices=0,
        num_free=0,
        num_stale_reports=0,
        journal_bytes=0,
    )
