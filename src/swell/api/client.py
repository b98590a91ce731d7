"""A running platform from Python: `swell.connect().submit(script="train.py", ...)`."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from swell.api.errors import AccessRefused, ApiError, NoAnswer, NoPlatform
from swell.api.fields import MAX_JOBS, InvalidField, shown
from swell.api.login import Login, login_of, parse_fingerprint, parse_url, read_login
from swell.api.logs import LogChunk, LogOwner
from swell.api.submission import Submission, declared, parse, request_key
from swell.api.times import with_offset
from swell.api.transport import RESUME_WITHIN_S, TOKEN, Transport, open_transport
from swell.api.verbs import Health, JobFile, SubmittedJob, TerminalAddress, Verb, Verbs
from swell.executors.local.logs.files import LogName
from swell.executors.storage import CHECKPOINTS
from swell.model.coding import encode
from swell.model.deadline_state import has_verdict
from swell.model.errors import InvalidJob, Unavailable, UnknownJob, UnknownNode
from swell.model.job import Phase
from swell.model.job_query import choose
from swell.model.quantities import span
from swell.model.view import JobView
from swell.store.folder import ApiAddress, StateFolder

if TYPE_CHECKING:
    import asyncio

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


def has_ended(job: JobView) -> bool:
    return job.phase.is_end


def connect(
    state: str | os.PathLike[str] | None = None, token: str | None = None, *, fingerprint: str | None = None
) -> Client:
    """The platform of a state folder, or of an address, `https://HOST:8443`, on another machine.

    By default it is the one of $SWELL_STATE, else of `swell login`, else of `swell up` without options.

    Args:
        token: of a user; by default $SWELL_TOKEN, else the caller is the owner of the folder. `state` is
            then the folder that the owner has shared. Of an address the default is that of `swell login`.
        fingerprint: of the certificate at an address; by default the one that `swell login` has kept.

    Raises:
        NoPlatform: none is running.
        NoAnswer: its process lives, and does not answer.
        StateError: the folder belongs to another user.
        AccessRefused: the token is not in force, or the certificate is not the known one.
    """
    if login := _login(state, token, fingerprint):
        from swell.api.remote import open_remote  # TLS, which other clients do without

        return Client(open_remote(login))
    return Client(open_transport(StateFolder(state), token or os.environ.get(TOKEN, "")))


def _login(state: str | os.PathLike[str] | None, token: str | None, fingerprint: str | None) -> Login | None:
    """The platform on another machine that is meant. Raises AccessRefused: it is not known enough of it."""
    if not (isinstance(state, str) and state.startswith("https://")):
        return login_of(state) if token is None else None
    url, known = parse_url(state), read_login()
    if known is None or known.url != url:
        known = None
    token = token or os.environ.get(TOKEN) or (known.token if known else "")
    fingerprint = fingerprint or (known.fingerprint if known else "")
    if not token or not fingerprint:
        raise AccessRefused(
            f"{url} is not known here: give its token and fingerprint, or `swell login {url}`"
        )
    return Login(url=url, fingerprint=parse_fingerprint(fingerprint), token=token)


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

    async def open_terminal(
        self, job_id: str, address: TerminalAddress
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A line to the terminal of a session, of which `terminal` has told the address. Raises OSError."""
        return await self._transport.open_terminal(job_id, address)

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
        give_up_s = time.monotonic() + (RESUME_WITHIN_S if self._transport.is_far else RETRY_WITHIN_S)
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
        (submission,) = self._anchored([(parse(_fields(fields)), Path.cwd())])
        return self._sent(*submission, key)

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
        for job in jobs if not self._transport.is_far else ():
            job.to_spec(now_s)
        all_of_it = self._anchored([(job.submission, job.path.parent) for job in jobs])
        if len(all_of_it) > 1:
            self._check_jobs([submission for submission, _ in all_of_it], key)
        return [self._sent(*one, key and f"{key}/{place}") for place, one in enumerate(all_of_it)]

    def _anchored(self, given: Sequence[tuple[Submission, Path]]) -> list[tuple[Submission, str]]:
        """Submissions as the platform understands them, with their code if that is on another machine.

        Each comes with what was left out of that code.
        """
        if not self._transport.is_far:
            return [(submission.anchored(base), "") for submission, base in given]
        from swell.api.code_sender import CodeSender

        send = CodeSender(self).sent
        return [
            send(one.anchored(base, is_far=True), one.session and one.workdir is None) for one, base in given
        ]

    def _sent(self, submission: Submission, left_out: str, key: str | None) -> SubmittedJob:
        try:
            job = self._submit(submission, key)
            job.left_out = job.left_out or left_out
            return job
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

    def download(
        self, job_id: str, to: str | os.PathLike[str] = ".", names: Sequence[str] = ()
    ) -> list[Path]:
        """Copy files of a job to a folder, and return their paths. What is there already in part goes on.

        Args:
            names: of files or folders, as `job_files` lists them; none: the newest checkpoint, and what the
                job has written.

        Raises:
            UnknownJob: it has no such file.
            OSError: a file cannot be written.
        """
        files = self.job_files(job_id)
        wanted = [file for file in files if _is_meant(file.name, names or _usual(files))]
        if not wanted:
            raise UnknownJob(
                f"job {job_id!r} has no such file; `swell download {job_id} --list` lists its files"
            )
        return [_fetched(self, job_id, file, Path(to)) for file in wanted]

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


# ---------------------------------------------------------------- files of jobs, in pieces
def _usual(files: Sequence[JobFile]) -> set[str]:
    """The folders of what a job has written, and its newest checkpoint."""
    kinds = {file.name.split("/")[0] for file in files} - {CHECKPOINTS}
    newest = next((file.name for file in files if file.name.startswith(f"{CHECKPOINTS}/")), "")
    return kinds | {"/".join(newest.split("/")[:2])}


def _is_meant(name: str, meant: Sequence[str] | set[str]) -> bool:
    return any(f"{name}/".startswith(f"{one.rstrip('/')}/") for one in meant if one)


def _fetched(client: Verbs, job_id: str, file: JobFile, folder: Path) -> Path:
    """Raises UnknownJob: its name leads out of the folder, which no platform answers."""
    if PurePosixPath(file.name).is_absolute() or ".." in PurePosixPath(file.name).parts:
        raise UnknownJob(f"the platform names a file {file.name!r}, which is none of the job's")
    path = folder / file.name
    part = path.with_name(f".{path.name}.{file.changed_ns}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab") as copy:
        while (start := copy.tell()) < file.num_bytes:
            if not (piece := client._job_file(job_id, file.name, start, file.changed_ns)):
                break
            copy.write(piece)
    part.replace(path)
    return path
