"""A running platform from Python: `swell.connect().submit(script="train.py", ...)`."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from swell.api.errors import ApiError, NoPlatform
from swell.api.job_file import load
from swell.api.judgement import has_verdict
from swell.api.logs import LogChunk, Whose
from swell.api.submission import Submission, parse, request_key
from swell.model.coding import decoder, encode
from swell.model.errors import InvalidJob, Unavailable, UnknownJob
from swell.model.job import Phase
from swell.model.view import ClusterView, JobView, Story, SubmitResult
from swell.store.folder import Endpoint, StateFolder

__all__ = [
    "ApiError",
    "Client",
    "InvalidJob",
    "NoPlatform",
    "Unavailable",
    "UnknownJob",
    "Whose",
    "connect",
    "has_ended",
    "has_verdict",
    "is_refused",
]

T = TypeVar("T")

#: Seconds between two looks at a job that is waited for, and for an answer of the platform.
LOOK_EVERY_S = 0.2
ANSWER_WITHIN_S = 30.0
#: A submission that heard no answer is sent again for so long: the daemon may be on its way up.
RETRY_WITHIN_S = 10.0


def has_ended(job: JobView) -> bool:
    return job.phase.is_end


def is_refused(job: JobView) -> bool:
    return job.phase is Phase.REJECTED


def connect(state: str | os.PathLike[str] | None = None) -> Client:
    """The platform of a state folder; by default that of `swell up` without options.

    Raises:
        NoPlatform: none is running.
    """
    folder = StateFolder(state)
    endpoint = folder.read_endpoint()
    if endpoint is None or not _is_ours(endpoint.pid):
        raise _no_platform(folder)
    client = Client(folder, endpoint, folder.read_token())
    try:
        client.health()
    except (NoPlatform, ApiError) as error:  # another program has the port by now
        client.close()
        raise _no_platform(folder) from error
    return client


class Client:
    """Calls of the control API. Made by `connect`; close it, or use it in a `with` statement."""

    def __init__(self, folder: StateFolder, endpoint: Endpoint, token: str) -> None:
        self.folder = folder
        self.endpoint = endpoint
        self._http = httpx.Client(
            base_url=endpoint.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=ANSWER_WITHIN_S,
            trust_env=False,  # no proxy stands between us and ourselves
        )

    def submit(self, *, key: str | None = None, **fields: Any) -> str:
        """Submit a job and return its id. Keywords are the fields of a job file; `job_class` is `class`.

        Relative paths start at the current folder.

        Args:
            key: an idempotency key: however often a request with this key is made, by this process or by
                another, there is one job. By default a new key for each call.

        Raises:
            InvalidJob: names the field, the rule and the remedy.
            ApiError: the key was used for another request.
            NoPlatform, Unavailable: no answer came; the text tells how to ask again.
        """
        given = {name: _plain(value) for name, value in fields.items() if value is not None}
        if "job_class" in given:
            given["class"] = given.pop("job_class")
        return self._submit(parse(given).anchored(Path.cwd()), key)

    def submit_file(self, path: str | os.PathLike[str], *, key: str | None = None) -> list[str]:
        """Submit every job of a YAML file, or none if one of them is wrong; returns their ids.

        Args:
            key: as in `submit`; the jobs' own are `KEY/0`, `KEY/1`, ...

        Raises:
            InvalidJob: names the file, the line, the rule and the remedy.
        """
        jobs = load(Path(path))
        for job in jobs:
            job.to_spec(time.time())
        return [
            self._submit(job.submission.anchored(job.path.parent), key and f"{key}/{place}")
            for place, job in enumerate(jobs)
        ]

    def retry(self, job_id: str, *, deadline: str | float | None = None, key: str | None = None) -> str:
        """Submit a failed, cancelled or refused job again, from its beginning; returns the new id.

        Args:
            deadline: in place of the former one, which may have passed.
            key: as in `submit`.

        Raises:
            UnknownJob, InvalidJob; ApiError: the job is not over, or has succeeded.
        """
        return self._resubmit(f"{_path(job_id)}/retry", deadline, key)

    def continue_job(
        self, job_id: str, *, deadline: str | float | None = None, key: str | None = None
    ) -> str:
        """As `retry`, from the last sound checkpoint of the job.

        Raises:
            UnknownJob, InvalidJob; ApiError: the job is not over, has succeeded, or has no checkpoint.
        """
        return self._resubmit(f"{_path(job_id)}/continue", deadline, key)

    def jobs(self) -> list[JobView]:
        """All jobs, ended ones too, oldest first."""
        return self._get("/v1/jobs", list[JobView])

    def job(self, job_id: str) -> JobView:
        """Raises UnknownJob."""
        return self._get(_path(job_id), JobView)

    def cancel(self, job_id: str) -> None:
        """Raises UnknownJob; no effect on a job that has ended."""
        self._call("POST", f"{_path(job_id)}/cancel")

    def stories(self, job_id: str) -> list[Story]:
        """What happened to the job and why, oldest first. Raises UnknownJob."""
        return self._get(f"{_path(job_id)}/stories", list[Story])

    def logs(
        self,
        job_id: str,
        offsets: Mapping[int, int] | None = None,
        worker: int | None = None,
        whose: Whose | None = None,
    ) -> list[LogChunk]:
        """What a job printed, from byte `offsets[worker]` of each log on. Raises UnknownJob.

        By default its leader's lines, or while it has had no worker of its own, those of its trial run.
        """
        if whose is not None or worker is not None:
            return self._logs(job_id, offsets, worker, whose or Whose.WORKERS)
        own = self._logs(job_id, offsets, None, Whose.LEADER)
        return own or self._logs(job_id, offsets, None, Whose.TRIAL)

    def _logs(
        self, job_id: str, offsets: Mapping[int, int] | None, worker: int | None, whose: Whose
    ) -> list[LogChunk]:
        pairs = ",".join(f"{number}:{offset}" for number, offset in (offsets or {}).items())
        query = {"offset": pairs, "whose": str(whose)}
        if worker is not None:
            query["worker"] = str(worker)
        return self._get(f"{_path(job_id)}/logs", list[LogChunk], query)

    def wait_for_verdict(self, job_id: str, timeout_s: float | None = None) -> JobView:
        """The job, as soon as its trial run is over and it is known what becomes of it.

        A strict job is then promised its deadline (`is_promised`), refused (phase `rejected`), or, under a
        policy that makes no promises, accepted without one. Any job may have failed in its trial run.

        Raises:
            TimeoutError: it is not after `timeout_s`.
        """
        return self.wait(job_id, has_verdict, timeout_s)

    def wait(
        self, job_id: str, until: Callable[[JobView], bool] = has_ended, timeout_s: float | None = None
    ) -> JobView:
        """The job, as soon as it has ended, or `until` is true of it.

        Raises:
            TimeoutError: it is not after `timeout_s`.
        """
        give_up_s = time.monotonic() + timeout_s if timeout_s is not None else float("inf")
        while not until(job := self.job(job_id)):
            if time.monotonic() >= give_up_s:
                raise TimeoutError(f"job {job_id!r} is {job.phase} after {timeout_s:g} s; wait longer")
            time.sleep(LOOK_EVERY_S)
        return job

    def cluster(self) -> ClusterView:
        return self._get("/v1/cluster", ClusterView)

    def head_state(self) -> bytes:
        """All that the head remembers, as JSON; nothing is changed by asking."""
        return self._call("GET", "/v1/head")

    def stop(self) -> None:
        """Suspend every job and end the platform; returns before that is done."""
        self._call("POST", "/v1/stop")

    def health(self) -> None:
        """Raises NoPlatform or ApiError if the platform does not answer as itself."""
        found = self._get("/v1/health", dict[str, Any])
        if found.get("pid") != self.endpoint.pid:
            raise _no_platform(self.folder)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _submit(self, submission: Submission, key: str | None) -> str:
        return self._send_once("/v1/jobs", encode(submission), key)

    def _resubmit(self, path: str, deadline: str | float | None, key: str | None) -> str:
        return self._send_once(path, encode({} if deadline is None else {"deadline": deadline}), key)

    def _send_once(self, path: str, content: bytes, key: str | None) -> str:
        """Ask again, under the same key, where no answer came: it is not known then what came of it."""
        headers = {"Idempotency-Key": request_key(key) or secrets.token_hex(16)}
        give_up_s = time.monotonic() + RETRY_WITHIN_S
        while True:
            try:
                answered = self._call("POST", path, content=content, headers=headers)
                return decoder(SubmitResult).decode(answered).id
            except (NoPlatform, Unavailable) as error:
                if time.monotonic() >= give_up_s:
                    raise type(error)(
                        f"{error}; whether the job was submitted is not known: submit it again with the key "
                        f"{headers['Idempotency-Key']} (--key), and it is submitted once"
                    ) from error
                time.sleep(LOOK_EVERY_S)
                self._find_again()

    def _find_again(self) -> None:
        """The daemon may have been started again, elsewhere."""
        try:
            found = connect(self.folder.path)
        except NoPlatform:
            return
        self._http.close()
        self._http, self.endpoint = found._http, found.endpoint

    def _get(self, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> T:
        content: T = decoder(kind).decode(self._call("GET", path, query=query))
        return content

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        try:
            response = self._http.request(method, path, params=query, content=content, headers=headers)
        except httpx.TransportError as error:
            raise _no_platform(self.folder) from error
        if response.is_success:
            return response.content
        kind = {404: UnknownJob, 422: InvalidJob, 503: Unavailable}.get(response.status_code, ApiError)
        raise kind(_error_text(response))


def _path(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"


def _error_text(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"the platform answered {response.status_code} without saying why; see daemon.log"


def _no_platform(folder: StateFolder) -> NoPlatform:
    return NoPlatform(f"no platform is running for state folder {folder.path}: start one with `swell up`")


def _is_ours(pid: int) -> bool:
    """The process lives and is ours: a foreign one on the same port must not see the token."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _plain(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value
