"""A running platform from Python: `swell.connect().submit(script="train.py", ...)`."""

from __future__ import annotations

import os
import secrets
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from swell.api.admission_status import has_verdict
from swell.api.errors import AccessDenied, ApiError, NoPlatform, PlatformSilent
from swell.api.fields import shown
from swell.api.logs import LogChunk, Whose
from swell.api.operations import PageLink
from swell.api.pages import MAX_JOBS, query_words
from swell.api.silence import silent
from swell.api.submission import Submission, parse, request_key
from swell.api.token_file import named_token_file, read_token_file
from swell.api.unix_socket import Peer, address_of, peer_of
from swell.executors.local.processes.stopped import is_stopped
from swell.live.retention import PrunedJob, PruneRequest
from swell.model.coding import decoder, encode
from swell.model.errors import InvalidJob, Unavailable, UnknownJob, UnknownNode
from swell.model.job import Phase
from swell.model.job_query import JobQuery
from swell.model.view import ClusterView, JobView, MetricHistory, NodeView, Story, SubmitResult
from swell.store.folder import Endpoint, StateFolder

__all__ = [
    "AccessDenied",
    "ApiError",
    "Client",
    "InvalidJob",
    "NoPlatform",
    "PlatformSilent",
    "Unavailable",
    "UnknownJob",
    "UnknownNode",
    "Whose",
    "connect",
    "has_ended",
    "has_verdict",
    "is_refused",
]

T = TypeVar("T")
#: A parameter may be given several times.
Query = Mapping[str, str | list[str]]

#: Seconds between two looks at a job that is waited for, and for an answer of the platform.
LOOK_EVERY_S = 0.2
ANSWER_WITHIN_S = 30.0
#: Folders of many gigabytes take long to remove.
PRUNED_WITHIN_S = 3600.0
#: Whether it answers at all is known sooner.
HEALTH_WITHIN_S = 5.0
#: A submission that heard no answer is sent again for so long: the daemon may be on its way up.
RETRY_WITHIN_S = 10.0

#: What an answer of this status raises; ApiError for any other failure.
FAILURES: Mapping[int, type[Exception]] = {
    401: AccessDenied,
    403: AccessDenied,
    404: UnknownJob,
    422: InvalidJob,
    503: Unavailable,
}

#: A Unix socket needs no certificates, and to read those of the system takes longer than a call.
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def has_ended(job: JobView) -> bool:
    return job.phase.is_end


def is_refused(job: JobView) -> bool:
    return job.phase is Phase.REJECTED


def connect(
    state: str | os.PathLike[str] | None = None, token_file: str | os.PathLike[str] | None = None
) -> Client:
    """The platform of a state folder; by default that of `swell up` without options.

    Args:
        token_file: of a user; by default $SWELL_TOKEN_FILE, else the caller is the owner of the folder.
            `state` is then the folder that the owner has shared.

    Raises:
        NoPlatform: none is running.
        PlatformSilent: its process lives, and does not answer.
        StateError: the folder belongs to another user, or the token file cannot be used.
        AccessDenied: the token in the file is not in force.
        ApiError: the user sends too many requests.
    """
    return _connected(StateFolder(state), named_token_file(token_file))


def connect_as_owner(state: str | os.PathLike[str] | None = None) -> Client:
    """As `connect`, of a state folder of the caller's: a token file of the environment is for another one."""
    return _connected(StateFolder(state), None)


def _connected(folder: StateFolder, file: Path | None) -> Client:
    """
    Args:
        file: with a user's token; None: the caller is the owner.
    """
    if file is None:
        folder.check_owner()
    else:
        folder.check_shared()
    endpoint = folder.read_endpoint()
    if endpoint is None or not endpoint.is_alive:
        raise _no_platform(folder)
    if is_stopped(endpoint.pid):
        raise PlatformSilent(silent(_platform_of(folder), endpoint.pid, 0.0))
    client = Client(folder, endpoint, folder.read_token() if file is None else read_token_file(file), file)
    try:
        client.health()
    except AccessDenied as error:
        client.close()
        if file is not None:
            raise
        raise _no_platform(folder) from error  # another one has its socket
    except (NoPlatform, ApiError):
        client.close()
        raise
    return client


class Client:
    """Calls of the control API. Made by `connect`; close it, or use it in a `with` statement."""

    def __init__(
        self, folder: StateFolder, endpoint: Endpoint, token: str, token_file: Path | None = None
    ) -> None:
        self.folder = folder
        self.endpoint = endpoint
        self._token_file = token_file
        self._opened = ExitStack()
        try:
            address = self._opened.enter_context(address_of(folder.socket))
        except OSError as error:
            raise _no_platform(folder) from error
        self._http = httpx.Client(
            base_url="http://localhost",
            headers={"Authorization": f"Bearer {token}"},
            transport=httpx.HTTPTransport(uds=address, verify=_NO_TLS),
            trust_env=False,  # no proxy stands between us and ourselves
        )
        self._opened.callback(self._http.close)

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
        from swell.api.job_file import load  # a reader of YAML, which other calls need not wait for

        jobs, now_s = load(Path(path)), self.cluster().now_s
        for job in jobs:
            job.to_spec(now_s)
        return [
            self._submit(job.submission.anchored(job.path.parent), key and f"{key}/{place}")
            for place, job in enumerate(jobs)
        ]

    def retry(
        self,
        job_id: str,
        *,
        deadline: str | float | None = None,
        kind: str | None = None,
        key: str | None = None,
    ) -> str:
        """Submit a failed, cancelled or refused job again, from its beginning; returns the new id.

        Args:
            deadline: in place of the former one, which may have passed.
            kind: of device, in place of the former one.
            key: as in `submit`.

        Raises:
            UnknownJob, InvalidJob; ApiError: the job is not over, or has succeeded.
        """
        return self._resubmit(f"{_path(job_id)}/retry", deadline, kind, key)

    def continue_job(
        self,
        job_id: str,
        *,
        deadline: str | float | None = None,
        kind: str | None = None,
        key: str | None = None,
    ) -> str:
        """As `retry`, from the last sound checkpoint of the job.

        Raises:
            UnknownJob, InvalidJob; ApiError: the job is not over, has succeeded, or has no checkpoint.
        """
        return self._resubmit(f"{_path(job_id)}/continue", deadline, kind, key)

    def jobs(
        self, phases: Iterable[Phase] = (), since_s: float | None = None, limit: int = 0
    ) -> list[JobView]:
        """Jobs, ended ones too, oldest first.

        Args:
            phases: only those; none: any.
            since_s: seconds since 1970; those that ended before are left out.
            limit: the newest so many; 0: all.
        """
        found: list[JobView] = []
        while True:
            num_wanted = min(MAX_JOBS, limit - len(found)) if limit else MAX_JOBS
            query = JobQuery(phases=frozenset(phases), since_s=since_s, limit=num_wanted)
            before = {"before": found[0].id} if found else {}
            page = self._get("/v1/jobs", list[JobView], {**query_words(query), **before})
            found = page + found
            if len(page) < num_wanted or len(found) == limit:
                return found

    def candidates(self, wanted: str) -> list[JobView]:
        """The job of that id, else the newest of that name, else some whose ids begin so."""
        return self._get("/v1/jobs", list[JobView], {"match": wanted})

    def count_jobs(self) -> dict[Phase, int]:
        """All jobs, by phase."""
        return self._get("/v1/counts", dict[Phase, int])

    def job(self, job_id: str) -> JobView:
        """Raises UnknownJob."""
        return self._get(_path(job_id), JobView)

    def cancel(self, job_id: str) -> None:
        """Raises UnknownJob; no effect on a job that has ended."""
        self._call("POST", f"{_path(job_id)}/cancel")

    def promise(
        self, job_id: str, *, deadline: str | float, accept_until: str | float | None = None
    ) -> JobView:
        """Ask for another deadline of an open job, earlier or later; the job with what came of that.

        Promised, `deadline_s` is the new one. Refused, the job keeps what it has, `refusal` says why, and
        `counter_offer_s` which deadline could be promised. `asked_deadline_s` is set while it is undecided.

        Args:
            accept_until: take the counter-offer, if it is no later.

        Raises:
            UnknownJob, InvalidJob, Unavailable; ApiError: the job has ended.
        """
        wanted = {"deadline": deadline} | ({} if accept_until is None else {"accept_until": accept_until})
        return decoder(JobView).decode(self._call("POST", f"{_path(job_id)}/promise", content=encode(wanted)))

    def stories(self, job_id: str) -> list[Story]:
        """What happened to the job and why, oldest first. Raises UnknownJob."""
        return self._get(f"{_path(job_id)}/stories", list[Story])

    def metrics(self, job_id: str, names: Iterable[str] = (), since_s: float | None = None) -> MetricHistory:
        """What the job has reported, by step and time; of a job that runs: so far. Raises UnknownJob.

        Args:
            names: only these metrics, as `loss`; none: all.
            since_s: seconds since 1970; what was reported before is left out.
        """
        query: dict[str, str | list[str]] = {"name": list(names)}
        if since_s is not None:
            query["since"] = repr(since_s)
        return self._get(f"{_path(job_id)}/metrics", MetricHistory, query)

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
        """Nodes, devices and the platform's own state. Raises NoPlatform."""
        return self._get("/v1/cluster", ClusterView)

    def drain_node(self, name: str) -> NodeView:
        """Place nothing on a node any more, and move its jobs to other nodes.

        Raises UnknownNode, Unavailable.
        """
        return self._about_node(name, "drain")

    def undrain_node(self, name: str) -> NodeView:
        """Let jobs be placed on a node again. Raises UnknownNode, Unavailable."""
        return self._about_node(name, "undrain")

    def remove_node(self, name: str, *, force: bool = False) -> NodeView:
        """Have the host of a node that has joined leave; the node as it was.

        Args:
            force: even if jobs have workers there, which are lost.

        Raises:
            UnknownNode, Unavailable.
            ApiError: jobs have workers there, or it is of the platform's own machine.
        """
        return self._about_node(name, "remove", {"force": "true" if force else "false"})

    def _about_node(self, name: str, verb: str, query: Mapping[str, str] | None = None) -> NodeView:
        path = f"/v1/nodes/{quote(name, safe='')}/{verb}"
        try:
            return decoder(NodeView).decode(self._call("POST", path, query=query))
        except UnknownJob as error:
            raise UnknownNode(*error.args) from error

    def prune(
        self,
        job_ids: Iterable[str] = (),
        ended_before_s: float | None = None,
        keep_bytes: int | None = None,
        is_dry_run: bool = False,
    ) -> list[PrunedJob]:
        """Remove ended jobs with their logs and checkpoints, and tell which.

        Those of `job_ids`, those that ended before a time (seconds since 1970), and of the others the oldest,
        while the folders of all hold more than `keep_bytes`. `is_dry_run`: tell which, and remove none.

        Raises:
            UnknownJob: one of them is not there, or has not ended.
        """
        request = PruneRequest(
            job_ids=tuple(job_ids),
            ended_before_s=ended_before_s,
            keep_bytes=keep_bytes,
            is_dry_run=is_dry_run,
        )
        content = self._call("POST", "/v1/prune", content=encode(request), within_s=PRUNED_WITHIN_S)
        return decoder(list[PrunedJob]).decode(content)

    def head_state(self) -> bytes:
        """All that the head remembers, as JSON; nothing is changed by asking."""
        return self._call("GET", "/v1/head")

    def page(self) -> str:
        """A link that opens the live page in a browser, once and within a minute."""
        return decoder(PageLink).decode(self._call("POST", "/v1/page")).url

    def stop(self) -> None:
        """Suspend every job and end the platform; returns before that is done."""
        self._call("POST", "/v1/stop")

    def health(self) -> None:
        """Raises NoPlatform or ApiError if the platform does not answer as itself."""
        content = self._call("GET", "/v1/health", within_s=HEALTH_WITHIN_S)
        found: dict[str, Any] = decoder(dict[str, Any]).decode(content)
        if found.get("pid") != self.endpoint.pid:
            raise _no_platform(self.folder)

    def close(self) -> None:
        self._opened.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _submit(self, submission: Submission, key: str | None) -> str:
        try:
            asked = encode(submission)
        except UnicodeEncodeError as error:
            raise InvalidJob(f"{shown(error.object)} is not UTF-8; use texts and paths in UTF-8") from error
        return self._send_once("/v1/jobs", asked, key)

    def _resubmit(self, path: str, deadline: str | float | None, kind: str | None, key: str | None) -> str:
        wish = {"deadline": deadline, "kind": kind}
        return self._send_once(
            path, encode({name: one for name, one in wish.items() if one is not None}), key
        )

    def _send_once(self, path: str, content: bytes, key: str | None) -> str:
        """Ask again, under the same key, where no answer came: it is not known then what came of it."""
        headers = {"Idempotency-Key": request_key(key) or secrets.token_hex(16)}
        give_up_s = time.monotonic() + RETRY_WITHIN_S
        while True:
            try:
                answered = self._call("POST", path, content=content, headers=headers)
                return decoder(SubmitResult).decode(answered).id
            except (NoPlatform, PlatformSilent, Unavailable) as error:
                if time.monotonic() >= give_up_s:
                    raise type(error)(
                        f"{error}; it is unknown whether the job was submitted: submit it "
                        f"again with the key {headers['Idempotency-Key']} (--key), which "
                        "creates it only once"
                    ) from error
                time.sleep(LOOK_EVERY_S)
                self._find_again()

    def _find_again(self) -> None:
        """The daemon may have been started again."""
        try:
            found = _connected(self.folder, self._token_file)
        except (NoPlatform, ApiError):
            return
        self.close()
        self._http, self._opened, self.endpoint = found._http, found._opened, found.endpoint

    def _get(self, path: str, kind: type[T], query: Query | None = None) -> T:
        content: T = decoder(kind).decode(self._call("GET", path, query=query))
        return content

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        within_s: float = ANSWER_WITHIN_S,
    ) -> bytes:
        try:
            response = self._http.request(
                method,
                path,
                params=query,
                content=content,
                headers=headers,
                timeout=within_s,
                extensions={"trace": self._check_server},
            )
        except httpx.TimeoutException as error:
            text = silent(_platform_of(self.folder), self.endpoint.pid, within_s)
            raise PlatformSilent(text) from error
        except httpx.TransportError as error:
            raise _no_platform(self.folder) from error
        if response.is_success:
            return response.content
        raise FAILURES.get(response.status_code, ApiError)(_error_text(response))

    def _check_server(self, event: str, info: Mapping[str, Any]) -> None:
        """Before anything is sent on a new connection, the token above all: is it the daemon that listens?"""
        if event == "connection.connect_unix_socket.complete":
            stream = info["return_value"]
            peer = peer_of(stream.get_extra_info("socket"))
            if peer != Peer(self.endpoint.pid, self.folder.owner_uid()):
                stream.close()
                raise NoPlatform(
                    f"process {peer.pid} listens at {self.folder.socket} instead of the "
                    f"platform (pid {self.endpoint.pid}); nothing was sent to it; end it, "
                    "then run `swell up`"
                )


def _path(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"


def _error_text(response: httpx.Response) -> str:
    try:
        return str(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"the platform answered {response.status_code} without saying why; see daemon.log"


def _platform_of(folder: StateFolder) -> str:
    return f"the platform of state folder {folder.path}"


def _no_platform(folder: StateFolder) -> NoPlatform:
    """With the last words of the platform that was, if it had any."""
    text = f"no platform is running for state folder {folder.path}"
    if (notice := folder.read_notice()) is not None:
        when = datetime.fromtimestamp(notice.at_s).strftime("%Y-%m-%d %H:%M:%S")  # noqa: DTZ006 - the user's
        text += f": it stopped at {when} ({notice.message})"
    return NoPlatform(f"{text}: start one with `swell up`")


def _plain(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value
