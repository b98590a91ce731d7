"""A running platform from Python: `swell.connect().submit(script="train.py", ...)`."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from swell.api.admission_status import has_verdict
from swell.api.errors import AccessDenied, ApiError, NoPlatform, PlatformSilent
from swell.api.fields import InvalidField, shown
from swell.api.logs import LogChunk, LogOwner
from swell.api.pages import MAX_JOBS
from swell.api.submission import Submission, declared, parse, request_key
from swell.api.times import with_offset
from swell.api.token_file import named_token_file
from swell.api.transport import Transport, open_transport
from swell.api.verbs import Health, SubmittedJob, Verb, Verbs
from swell.model.coding import encode
from swell.model.errors import InvalidJob, Unavailable, UnknownJob, UnknownNode
from swell.model.job import Phase
from swell.model.lengths import span
from swell.model.view import JobView
from swell.store.folder import Endpoint, StateFolder

__all__ = [
    "AccessDenied",
    "ApiError",
    "Client",
    "InvalidJob",
    "LogOwner",
    "NoPlatform",
    "PlatformSilent",
    "SubmittedJob",
    "Unavailable",
    "UnknownJob",
    "UnknownNode",
    "connect",
    "has_ended",
    "has_verdict",
    "is_refused",
]


#: Seconds between two looks at a job that is waited for, and for an answer of the platform.
LOOK_EVERY_S = 0.2
#: A submission that heard no answer is sent again for so long: the daemon may be on its way up.
RETRY_WITHIN_S = 10.0
#: Fields that are moments.
TIMES = ("deadline", "accept_until")


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
    return Client(open_transport(StateFolder(state), named_token_file(token_file)))


def connect_as_owner(state: str | os.PathLike[str] | None = None) -> Client:
    """Connect to the platform of a state folder as its owner.

    As `connect`, but without the token file of the environment, which is for another platform.
    """
    return Client(open_transport(StateFolder(state), None))


class Client(Verbs):
    """Calls of the control API. Made by `connect`; close it, or use it in a `with` statement."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @property
    def folder(self) -> StateFolder:
        """The platform's, or the one that its owner has shared."""
        return self._transport.folder

    @property
    def endpoint(self) -> Endpoint:
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
                return SubmittedJob(
                    self._transport.ask(verb, {**given, "key": key}).id, self.wait_for_verdict
                )
            except (NoPlatform, PlatformSilent, Unavailable) as error:
                if time.monotonic() >= give_up_s:
                    raise type(error)(
                        f"{error}; it is unknown whether the job was submitted: submit it again with the key "
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

    def measure_file(self, path: str | os.PathLike[str]) -> list[SubmittedJob]:
        """Submit every job of a YAML file to be measured and then held; returns their ids.

        Raises:
            InvalidJob: as `submit_file` does.
        """
        from swell.api.job_file import load

        jobs, now_s = load(Path(path)), self.cluster().now_s
        for job in jobs:
            job.to_spec(now_s)
        wanted = [(msgspec.structs.replace(job.submission, hold_after_trial=True), job.path) for job in jobs]
        return [self._sent(submission.anchored(path.parent), None) for submission, path in wanted]

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

    def logs(
        self,
        job_id: str,
        offsets: Mapping[int, int] | None = None,
        worker: int | None = None,
        whose: LogOwner | None = None,
    ) -> list[LogChunk]:
        """What a job printed, from byte `offsets[worker]` of each log on. Raises UnknownJob.

        By default its leader's lines, or while it has had no worker of its own, those of its trial run.
        """
        pairs = ",".join(f"{number}:{offset}" for number, offset in (offsets or {}).items())
        if whose is not None or worker is not None:
            return self._logs(job_id, pairs, worker, whose or LogOwner.WORKERS)
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
