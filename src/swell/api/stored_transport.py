"""What the state folder of a platform that is not up tells of its jobs, by the same requests. Read only."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any
from urllib.parse import unquote

import msgspec

from swell import __version__
from swell.api.client import Client
from swell.api.errors import NoPlatform
from swell.api.logs import LogOwner, parse_offsets, read_chunks
from swell.api.pages import parse_query
from swell.api.token_file import named_token_file
from swell.api.transport import Query, Transport
from swell.assemble import open_lookup
from swell.live.job_lookup import JobLookup
from swell.model.coding import encode
from swell.model.view import ClusterView, JobView
from swell.store.folder import StateFolder


def read_stored(state: str | os.PathLike[str] | None, why: NoPlatform) -> Client:
    """Read jobs, stories, metrics and logs from a state folder, of which the caller must be the owner.

    Args:
        why: raised if there is nothing to read, or a platform is about to be up; and by the client's methods
            that need a platform.

    Raises:
        StateError: the journal cannot be read.
    """
    folder = StateFolder(state)
    is_user = named_token_file(None) is not None
    if is_user or not folder.journal.exists() or folder.read_recovery() is not None:
        raise why
    return Client(StoredTransport(folder, why))


class StoredTransport(Transport):
    """Requests that are answered from a state folder, in the place of a line to a platform.

    Args:
        why: there is no such line; raised for every request that only a platform can answer.

    Raises:
        StateError: the journal cannot be read.
    """

    def __init__(self, folder: StateFolder, why: NoPlatform) -> None:
        self.folder, self._why = folder, why
        self._opened = ExitStack()
        self._lookup: JobLookup = self._opened.enter_context(open_lookup(folder.path))

    def call(self, method: str, path: str, *, query: Query | None = None, **_: object) -> bytes:
        answer = self._read(path, query or {}) if method == "GET" else None
        if answer is None:
            raise self._why
        return encode(answer)

    def find_again(self) -> None:
        """Do nothing: what is stored stays as it is."""

    def _read(self, path: str, query: Mapping[str, Any]) -> object:
        """Return the answer to a request; None: only a platform has it."""
        lookup = self._lookup
        since_s = float(query["since"]) if "since" in query else None
        match [unquote(part) for part in path.split("/")[2:]]:
            case ["cluster"]:
                return _cluster()
            case ["counts"]:
                return lookup.count_jobs()
            case ["jobs"] if "match" in query:
                return [_left(view) for view in lookup.candidates(query["match"])]
            case ["jobs"]:
                wanted = parse_query(query.get("phase", ""), since_s, int(query.get("limit", 0)))
                return [_left(view) for view in lookup.jobs(wanted, query.get("before", ""))]
            case ["jobs", job_id]:
                return _left(lookup.job(job_id))
            case ["jobs", job_id, "stories"]:
                return lookup.stories(job_id)
            case ["jobs", job_id, "metrics"]:
                return lookup.metrics(job_id, query.get("name", ()), since_s)
            case ["jobs", job_id, "logs"]:
                worker = int(query["worker"]) if "worker" in query else None
                offsets = parse_offsets(query["offset"], worker)
                folder = self.folder.jobs / lookup.found(job_id).id
                return read_chunks(folder, offsets, worker, LogOwner(query["whose"]))
        return None


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
