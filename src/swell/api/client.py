"""A running platform from Python: `swell.connect().submit(script="train.py", ...)`."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import h11
import msgspec

from swell.api.errors import AccessRefused, ApiError, NoAnswer, NoPlatform
from swell.api.fields import MAX_JOBS, InvalidField, shown
from swell.api.logs import LogChunk, LogOwner
from swell.api.submission import Submission, declared, parse, request_key
from swell.api.times import with_offset
from swell.api.unix_socket import address_of, peer_of
from swell.api.verbs import ANSWER_WITHIN_S, HEADERS, Health, SubmittedJob, Verb, Verbs
from swell.executors.local.logs.files import LogName
from swell.executors.local.processes.listing import is_stopped
from swell.model.coding import decoder, encode
from swell.model.deadline_state import has_verdict
from swell.model.errors import InvalidJob, Unavailable, UnknownJob, UnknownNode
from swell.model.job import Phase
from swell.model.job_query import choose
from swell.model.quantities import span
from swell.model.view import JobView
from swell.store.folder import ApiAddress, StateFolder
from swell.store.lock import find_holder

__all__ = [
    "AccessRefused",
    "ApiError",
    "Client",
    "InvalidJob",
    "LogOwner",
    "NoAnswer",
    "NoPlatform",
    "SubmittedJob",
    "Unavailable",
    "UnknownJob",
    "UnknownNode",
    "connect",
    "has_ended",
    "has_verdict",
]


#: Seconds between two looks at a job that is waited for, and for an answer of the platform.
LOOK_EVERY_S = 0.2
#: A submission that heard no answer is sent again for so long: the daemon may be on its way up.
RETRY_WITHIN_S = 10.0
#: Fields that are moments.
TIMES = ("deadline", "accept_until")

#: Has the token of a user who is not the owner, for every command and for `connect`.
TOKEN = "SWELL_TOKEN"  # noqa: S105 - a name
#: Whether it answers at all is known sooner.
HEALTH_WITHIN_S = 5.0

#: What an answer of this status raises; ApiError for any other failure.
FAILURES: Mapping[int, type[Exception]] = {
    401: AccessRefused,
    403: AccessRefused,
    404: UnknownJob,
    422: InvalidJob,
    503: Unavailable,
}

#: Bytes that are read at a time.
CHUNK_BYTES = 1 << 16

Headers = Mapping[str, str]


def has_ended(job: JobView) -> bool:
    return job.phase.is_end


def connect(state: str | os.PathLike[str] | None = None, token: str | None = None) -> Client:
    """The platform of a state folder; by default that of `swell up` without options.

    Args:
        token: of a user; by default $SWELL_TOKEN, else the caller is the owner of the folder. `state` is
            then the folder that the owner has shared.

    Raises:
        NoPlatform: none is running.
        NoAnswer: its process lives, and does not answer.
        StateError: the folder belongs to another user.
        AccessRefused: the token is not in force.
    """
    return Client(open_transport(StateFolder(state), token or os.environ.get(TOKEN, "")))


def connect_as_owner(state: str | os.PathLike[str] | None = None) -> Client:
    """Connect to the platform of a state folder as its owner.

    As `connect`, but without the token of the environment, which is for another platform.
    """
    return Client(open_transport(StateFolder(state), ""))


class Client(Verbs):
    """Calls of the control API. Made by `connect`; close it, or use it in a `with` statement."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @property
    def folder(self) -> StateFolder:
        """The platform's, or the one that its owner has shared."""
        return self._transport.folder

    @property
    def endpoint(self) -> ApiAddress:
        """Addresses and pid of the process that answers."""
        return self._transport.endpoint

    def health(self) -> Health:
        """Raises NoPlatform or ApiError if the platform does not answer as itself."""
        return self._transport.health()

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, verb: Verb, given: Mapping[str, Any]) -> Any:
        given = {**given, **_given(**{name: given[name] for name in given if verb.place(name) == "body"})}
        return self._ask_once(verb, given) if verb.makes_job else self._transport.ask(verb, given)

    def _ask_once(self, verb: Verb, given: Mapping[str, Any]) -> SubmittedJob:
        """Ask again, under the same key, where no answer came: it is not known then what came of it."""
        key = request_key(given.get("key")) or secrets.token_hex(16)
        give_up_s = time.monotonic() + RETRY_WITHIN_S
        while True:
            try:
                told = self._transport.ask(verb, {**given, "key": key})
                return SubmittedJob(told.id, self.wait_for_verdict, told.left_out)
            except (NoPlatform, NoAnswer, Unavailable) as error:
                if time.monotonic() >= give_up_s:
                    is_told = isinstance(error, Unavailable)  # what is known is in its words
                    doubt = "" if is_told else "it is unknown whether the job was submitted: "
                    raise type(error)(
                        f"{error}; {doubt}submit it again with the key "
                        f"{key} (--key), which creates it only once"
                    ) from error
                time.sleep(LOOK_EVERY_S)
                self._transport.find_again()

    def submit(self, *, key: str | None = None, **fields: Any) -> SubmittedJob:
        """Submit a job and return its id. Keywords are the fields of a job file; `job_class` is `class`.

        Relative paths start at the current folder. A deadline may be refused: `promised` of the answer tells
        once that is known, and `offer` which one could be promised instead.

        Args:
            key: an idempotency key: however often a request with this key is made, by this process or by
                another, there is one job. By default a new key for each call.

        Raises:
            InvalidJob: names the field, the rule and the remedy.
            ApiError: the key was used for another request.
            NoPlatform, Unavailable: no answer came; the text tells how to ask again.
        """
        return self._sent(parse(_fields(fields)).anchored(Path.cwd()), key)

    def submit_file(
        self, path: str | os.PathLike[str], *, key: str | None = None, **fields: Any
    ) -> list[SubmittedJob]:
        """Submit every job of a YAML file, or none if one of them is wrong; returns their ids.

        Args:
            key: as in `submit`; the jobs' own are `KEY/0`, `KEY/1`, ...
            fields: as in `submit`, in place of those of each job of the file.

        Raises:
            InvalidJob: names the file, the line, the rule and the remedy.
        """
        from swell.api.job_file import load  # a reader of YAML, which other calls need not wait for

        jobs, now_s = load(Path(path)), self.cluster().now_s
        wanted = _fields(fields)
        jobs = [job.overridden(wanted, Path.cwd()) for job in jobs]
        for job in jobs:
            job.to_spec(now_s)
        return [
            self._sent(job.submission.anchored(job.path.parent), key and f"{key}/{place}")
            for place, job in enumerate(jobs)
        ]

    def _sent(self, submission: Submission, key: str | None) -> SubmittedJob:
        try:
            return self._submit(submission, key)
        except UnicodeEncodeError as error:
            raise InvalidJob(f"{shown(error.object)} is not UTF-8; use texts and paths in UTF-8") from error
        except OverflowError as error:
            raise _too_large(submission) from error

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
        words = ",".join(sorted(phases))
        while True:
            num_wanted = min(MAX_JOBS, limit - len(found)) if limit else MAX_JOBS
            page = self._jobs(None, words, since_s, found[0].id if found else "", num_wanted)
            found = page + found
            if len(page) < num_wanted or len(found) == limit:
                return found

    def candidates(self, wanted: str) -> list[JobView]:
        """The job of that id, else the newest of that name, else some whose ids begin so."""
        return self._jobs(match=wanted)

    def find_job(self, wanted: str) -> JobView:
        """The job that an id, a name or the beginning of an id means. Raises UnknownJob: none, or several."""
        return choose(self.candidates(wanted), wanted)

    def find_jobs(self, wanted: Iterable[str]) -> list[JobView]:
        """The jobs that these ids, names and names of groups mean, each once. Raises UnknownJob."""
        found: dict[str, JobView] = {}
        for word in wanted:
            candidates = self.candidates(word)
            members: list[JobView] = []
            if word and not any(word in (view.id, view.name) for view in candidates):
                members = [view for view in self.jobs() if view.group == word]
            found |= {view.id: view for view in members or [choose(candidates, word)]}
        return list(found.values())

    def logs(
        self,
        job_id: str,
        offsets: Mapping[LogName, int] | None = None,
        worker: LogName | None = None,
        whose: LogOwner | None = None,
    ) -> list[LogChunk]:
        """What a job printed, from byte `offsets[worker]` of each log on. Raises UnknownJob.

        `worker`: a number, or `"2.1"` for the process at position 1 of worker 2.

        By default its leader's lines, or while it has had no worker of its own, those of its trial run.
        """
        pairs = ",".join(f"{number}:{offset}" for number, offset in (offsets or {}).items())
        if whose is not None or worker is not None:
            name = None if worker is None else str(worker)
            return self._logs(job_id, pairs, name, whose or LogOwner.WORKERS)
        own = self._logs(job_id, pairs, None, LogOwner.LEADER)
        return own or self._logs(job_id, pairs, None, LogOwner.TRIAL)

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
                raise TimeoutError(
                    f"job {job_id!r} is {job.phase} after {span(timeout_s or 0.0)}; wait longer"
                )
            time.sleep(LOOK_EVERY_S)
        return job


def _too_large(submission: Submission) -> InvalidField:
    """Which field holds a whole number that no message can."""
    for field, value in msgspec.structs.asdict(submission).items():
        try:
            encode(value)
        except OverflowError:
            return InvalidField(
                declared()[field].word, f"{shown(value)} is too large; choose a smaller number"
            )
    raise AssertionError("each field can be sent, and the submission cannot")


def _fields(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job file that are given as keywords."""
    given = _given(**keywords)
    if "job_class" in given:
        given["class"] = given.pop("job_class")
    return given


def _given(**fields: Any) -> dict[str, Any]:
    """The fields that have a value, in words of the API; times are those of this process's time zone."""
    given: dict[str, Any] = {name: _plain(value) for name, value in fields.items() if value is not None}
    now_s = time.time()
    return given | {name: with_offset(given[name], now_s) for name in TIMES if name in given}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone().isoformat()
    if isinstance(value, SubmittedJob):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


# ---------------------------------------------------------------- the line to a platform
def open_transport(folder: StateFolder, user_token: str) -> Transport:
    """Connect to the running platform of the folder; see `connect` for what it raises.

    Args:
        user_token: empty: the caller is the owner.
    """
    if not user_token:
        folder.check_owner()
    else:
        folder.check_shared()
        if not (user_token.isascii() and user_token.isprintable()):
            raise AccessRefused(f"the token of a user has letters, digits and `_-` only; correct {TOKEN}")
    endpoint = folder.read_endpoint()
    if endpoint is None or not endpoint.is_alive:
        raise _no_platform(folder)
    if is_stopped(endpoint.pid):
        raise NoAnswer(_silent(_platform_of(folder), endpoint.pid, 0.0))
    if folder.socket.exists() and not (user_token or folder.token.exists()):
        raise _without_token(folder)
    transport = Transport(folder, endpoint, user_token)
    try:
        transport.health()
    except AccessRefused as error:
        if user_token:
            raise
        raise _no_platform(folder) from error  # another one has its socket
    return transport


class Transport:
    """Made by `open_transport`. Each request has a connection of its own, in any thread."""

    def __init__(self, folder: StateFolder, endpoint: ApiAddress, user_token: str = "") -> None:
        self.folder = folder
        self.endpoint = endpoint
        self._user_token = user_token

    def health(self) -> Health:
        """Raises NoPlatform or ApiError if the platform does not answer as itself."""
        found: Health = decoder(Health).decode(self.call("GET", "/v1/health", within_s=HEALTH_WITHIN_S))
        if found.pid != self.endpoint.pid:
            raise _no_platform(self.folder)
        return found

    def close(self) -> None:
        """Nothing stays open between two requests."""

    def find_again(self) -> None:
        """The daemon may have been started again."""
        with suppress(NoPlatform, ApiError):
            self.endpoint = open_transport(self.folder, self._user_token).endpoint

    def ask(self, verb: Verb, given: Mapping[str, Any]) -> Any:
        """The answer to a verb. `given`: its parameters by name."""
        words: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}, "body": {}}
        for name, value in given.items():
            if verb.place(name) == "path" and not (isinstance(value, str) and value and "/" not in value):
                is_of_node = verb.path.startswith("/v1/nodes/")
                thing, verb_of_all = ("node", "nodes") if is_of_node else ("job", "jobs")
                unknown = UnknownNode if is_of_node else UnknownJob
                raise unknown(f"there is no {thing} {value!r:.80}; `swell {verb_of_all}` lists all {thing}s")
            if value is not None:
                words[verb.place(name)][HEADERS.get(name, name)] = value
        path = verb.path.format(**{name: quote(value, safe="") for name, value in words["path"].items()})
        query = {word: _query_value(value) for word, value in words["query"].items()}
        body = words["body"].get("body", words["body"]) if verb.has_body else None
        content = None if body is None else encode(body)
        try:
            answered = self.call(
                verb.method,
                path,
                query=query,
                content=content,
                headers=words["header"],
                within_s=verb.within_s,
            )
        except UnknownJob as error:
            if verb.path.startswith("/v1/nodes/"):
                raise UnknownNode(*error.args) from error
            raise
        return answered if verb.is_raw else decoder(verb.answer).decode(answered)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        headers: Headers | None = None,
        within_s: float = ANSWER_WITHIN_S,
    ) -> bytes:
        target = f"{path}?{urlencode(query, doseq=True)}" if query else path
        try:
            answer = self._request(method, target, headers or {}, content, within_s)
        except TimeoutError as error:
            text = _silent(_platform_of(self.folder), self.endpoint.pid, within_s)
            raise NoAnswer(text) from error
        except NoPlatform:
            raise
        except OSError as error:
            raise _no_platform(self.folder) from error
        if 200 <= answer.status < 300:
            return answer.content
        raise FAILURES.get(answer.status, ApiError)(_error_text(answer))

    def _request(
        self, method: str, target: str, headers: Headers, content: bytes | None, within_s: float
    ) -> HttpAnswer:
        """Raises TimeoutError: it has not gone on for that time; OSError: there was no whole answer."""
        bearer = f"Bearer {self._user_token or self.folder.read_token()}"
        lines = {"Host": "localhost", "Connection": "close", "Authorization": bearer, **headers}
        if content is not None:
            lines["Content-Length"] = str(len(content))
        http = h11.Connection(h11.CLIENT)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(within_s)
            with address_of(self.folder.socket) as address:
                connection.connect(address)
            self._check_server(connection)
            try:
                asked = h11.Request(method=method, target=target, headers=[*lines.items()])
                _send(connection, http, asked, content or b"")
                return _received(connection, http)
            except h11.ProtocolError as error:
                raise ConnectionError(str(error)) from error

    def _check_server(self, connection: socket.socket) -> None:
        """Before anything is sent on a new connection, the token above all: is it the daemon that listens?"""
        pid, uid = peer_of(connection)
        if (pid, uid) != (self.endpoint.pid, self.folder.owner_uid()):
            raise NoPlatform(
                f"process {pid} listens at {self.folder.socket} instead of the "
                f"platform (pid {self.endpoint.pid}); nothing was sent to it; end it, "
                "then run `swell up`"
            )


class HttpAnswer(NamedTuple):
    """What came back, whole."""

    status: int
    content: bytes


def _send(connection: socket.socket, http: h11.Connection, request: h11.Request, content: bytes) -> None:
    parts = [http.send(one) for one in (request, h11.Data(data=content), h11.EndOfMessage())]
    # A server that refuses a request before it is whole says why in its answer.
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(b"".join(filter(None, parts)))


def _received(connection: socket.socket, http: h11.Connection) -> HttpAnswer:
    status, parts = 0, list[bytes]()
    while not isinstance(event := http.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            http.receive_data(connection.recv(CHUNK_BYTES))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            parts.append(bytes(event.data))
        elif not isinstance(event, h11.InformationalResponse):
            raise ConnectionError("the connection was closed")
    return HttpAnswer(status, b"".join(parts))


def _query_value(value: Any) -> str | list[str]:
    """A value as it stands in a query; several for a parameter that may be given several times."""
    if isinstance(value, Enum | str | bool):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return [str(one) for one in value] if isinstance(value, Sequence) else repr(value)


def _error_text(answer: HttpAnswer) -> str:
    try:
        return str(msgspec.json.decode(answer.content)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the platform answered {answer.status} without saying why; see daemon.log"


def _silent(who: str, pid: int, limit_s: float) -> str:
    """Message that a process has not answered within `limit_s`, or that it is stopped and cannot."""
    if is_stopped(pid):
        return (
            f"{who} (pid {pid}) was stopped by a signal and does not answer: `kill -CONT {pid}` lets it "
            "go on, `swell down --force` ends it"
        )
    return (
        f"{who} (pid {pid}) has not answered for {span(limit_s)}: it is busy or hangs; try again, or end it "
        "with `swell down --force`"
    )


def _without_token(folder: StateFolder) -> AccessRefused:
    """Error for the owner: most likely they named the folder by which the platform is shared."""
    return AccessRefused(
        f"{folder.path} has no token of its owner: if a platform is shared by it, set {TOKEN} to the token "
        "of a user, or name the platform's state folder with --state"
    )


def _platform_of(folder: StateFolder) -> str:
    return f"the platform of state folder {folder.path}"


def _no_platform(folder: StateFolder) -> NoPlatform:
    """Error for a platform that does not answer: something has the folder, or its last notice."""
    if (pid := find_holder(folder.lock)) is not None:
        who = f"{_platform_of(folder)} (pid {pid})"
        return NoPlatform(f"{who} does not answer: it starts or ends, or is restored; try again in a while")
    text = f"no platform is running for state folder {folder.path}"
    if (notice := folder.read_notice()) is not None:
        when = datetime.fromtimestamp(notice.at_s).strftime("%Y-%m-%d %H:%M:%S")  # noqa: DTZ006 - the user's
        text += f": it stopped at {when} ({notice.message})"
    return NoPlatform(f"{text}: start one with `swell up`")
