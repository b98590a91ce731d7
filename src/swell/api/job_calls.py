"""What users ask of a platform from Python: to take jobs, what became of them, and why."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from swell.api.admission_status import has_verdict
from swell.api.errors import NoPlatform, PlatformSilent
from swell.api.fields import InvalidField, shown
from swell.api.logs import LogChunk, LogOwner
from swell.api.pages import MAX_JOBS, query_words
from swell.api.submission import Submission, declared, parse, request_key
from swell.api.times import with_offset
from swell.api.transport import Transport
from swell.model.coding import decoder, encode
from swell.model.errors import InvalidJob, Unavailable
from swell.model.job import Phase
from swell.model.job_query import JobQuery
from swell.model.lengths import span
from swell.model.throughput import JobThroughput
from swell.model.view import ClusterView, JobView, MetricHistory, Story, SubmitResult

#: Seconds between two looks at a job that is waited for, and for an answer of the platform.
LOOK_EVERY_S = 0.2
#: A submission that heard no answer is sent again for so long: the daemon may be on its way up.
RETRY_WITHIN_S = 10.0
#: A moment, as a job file has it or as Python does.
Time = str | float | datetime
#: Fields that are moments.
TIMES = ("deadline", "accept_until")


def has_ended(job: JobView) -> bool:
    return job.phase.is_end


class SubmittedJob(str):
    """The id of a submitted job, which can also be asked what became of the job's deadline."""

    _calls: JobCalls

    def __new__(cls, job_id: str, calls: JobCalls) -> SubmittedJob:
        made = super().__new__(cls, job_id)
        made._calls = calls
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies, and what another process gets, are plain ids: a connection cannot be copied."""
        return str, (str(self),)

    @property
    def promised(self) -> bool:
        """Whether its deadline is promised; waits until that is decided, after its trial run."""
        return self._calls.wait_for_verdict(self).is_promised

    @property
    def offer(self) -> str:
        """The deadline with which a refused job can be submitted again, as `now+12m`; empty if there is none.

        Waits as `promised` does. Why it was refused is the `reason` of `wait_for_verdict(job)`.
        """
        from swell.api.job_words import offer  # words for people, which other calls need not wait for

        return offer(self._calls.wait_for_verdict(self))


class JobCalls:
    """A part of `client.Client`."""

    _transport: Transport

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
        return self._submit(parse(_fields(fields)).anchored(Path.cwd()), key)

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

        jobs, now_s = load(Path(path)), self._transport.get("/v1/cluster", ClusterView).now_s
        wanted = _fields(fields)
        jobs = [job.overridden(wanted, Path.cwd()) for job in jobs]
        for job in jobs:
            job.to_spec(now_s)
        return [
            self._submit(job.submission.anchored(job.path.parent), key and f"{key}/{place}")
            for place, job in enumerate(jobs)
        ]

    def measure_file(self, path: str | os.PathLike[str]) -> list[SubmittedJob]:
        """Submit every job of a YAML file to be measured and then held; returns their ids.

        Raises:
            InvalidJob: as `submit_file` does.
        """
        from swell.api.job_file import load

        jobs, now_s = load(Path(path)), self._transport.get("/v1/cluster", ClusterView).now_s
        for job in jobs:
            job.to_spec(now_s)
        wanted = [(msgspec.structs.replace(job.submission, hold_after_trial=True), job.path) for job in jobs]
        return [self._submit(submission.anchored(path.parent), None) for submission, path in wanted]

    def retry(
        self,
        job_id: str,
        *,
        deadline: Time | None = None,
        kind: str | None = None,
        key: str | None = None,
    ) -> SubmittedJob:
        """Submit a failed, cancelled, refused or early ended job again, from its beginning.

        Returns the new id.

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
        deadline: Time | None = None,
        kind: str | None = None,
        key: str | None = None,
    ) -> SubmittedJob:
        """Submit an ended job again, as `retry` does, but starting from its last sound checkpoint.

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
            page = self._transport.get("/v1/jobs", list[JobView], {**query_words(query), **before})
            found = page + found
            if len(page) < num_wanted or len(found) == limit:
                return found

    def candidates(self, wanted: str) -> list[JobView]:
        """The job of that id, else the newest of that name, else some whose ids begin so."""
        return self._transport.get("/v1/jobs", list[JobView], {"match": wanted})

    def count_jobs(self) -> dict[Phase, int]:
        """All jobs, by phase."""
        return self._transport.get("/v1/counts", dict[Phase, int])

    def job(self, job_id: str) -> JobView:
        """Raises UnknownJob."""
        return self._transport.get(_path(job_id), JobView)

    def cancel(self, job_id: str) -> None:
        """Raises UnknownJob; no effect on a job that has ended."""
        self._transport.call("POST", f"{_path(job_id)}/cancel")

    def hold(self, job_id: str) -> JobView:
        """Have a job give up its devices, with its state saved, and wait until it is resumed; the job then.

        A promise of its deadline is withdrawn, and asked for again when the job is resumed. No effect on a
        held job. Raises UnknownJob, Unavailable; ApiError: the job has ended.
        """
        return decoder(JobView).decode(self._transport.call("POST", f"{_path(job_id)}/hold"))

    def resume(self, job_id: str) -> JobView:
        """Let a held job go on; no effect on an open job that is not held. Raises as `hold` does.

        `asked_deadline_s` is set while a withdrawn promise is not decided on once more.
        """
        return decoder(JobView).decode(self._transport.call("POST", f"{_path(job_id)}/resume"))

    def promise(self, job_id: str, *, deadline: Time, accept_until: Time | None = None) -> JobView:
        """Ask for another deadline of an open job, earlier or later; the job with what came of that.

        Promised, `deadline_s` is the new one. Refused, the job keeps what it has, `refusal` says why, and
        `counter_offer_s` which deadline could be promised. `asked_deadline_s` is set while it is undecided.

        Args:
            accept_until: take the counter-offer, if it is no later.

        Raises:
            UnknownJob, InvalidJob, Unavailable; ApiError: the job has ended.
        """
        wanted = _given(deadline=deadline, accept_until=accept_until)
        answered = self._transport.call("POST", f"{_path(job_id)}/promise", content=encode(wanted))
        return decoder(JobView).decode(answered)

    def accept_differences(self, job_id: str, names: Iterable[str]) -> JobView:
        """Accept findings of the job's trial run: they no longer limit it to its smallest number of workers.

        Raises:
            UnknownJob, InvalidJob, Unavailable; ApiError: the job has ended.
        """
        wanted = encode({"names": list(names)})
        answered = self._transport.call("POST", f"{_path(job_id)}/accept-differences", content=wanted)
        return decoder(JobView).decode(answered)

    def change_priority(
        self, job_id: str, priority: int | None = None, weight: float | None = None
    ) -> JobView:
        """Give an open job another priority, another weight, or both.

        Raises:
            UnknownJob, InvalidJob, Unavailable; ApiError: the job has ended.
        """
        wanted = encode({"priority": priority, "weight": weight})
        answered = self._transport.call("POST", f"{_path(job_id)}/priority", content=wanted)
        return decoder(JobView).decode(answered)

    def stories(self, job_id: str) -> list[Story]:
        """What happened to the job and why, oldest first. Raises UnknownJob."""
        return self._transport.get(f"{_path(job_id)}/stories", list[Story])

    def metrics(self, job_id: str, names: Iterable[str] = (), since_s: float | None = None) -> MetricHistory:
        """What the job has reported, by step and time; of a job that runs: so far. Raises UnknownJob.

        Args:
            names: only these metrics, as `loss`; none: all.
            since_s: seconds since 1970; what was reported before is left out.
        """
        query: dict[str, str | list[str]] = {"name": list(names)}
        if since_s is not None:
            query["since"] = repr(since_s)
        return self._transport.get(f"{_path(job_id)}/metrics", MetricHistory, query)

    def curve(self, job_id: str) -> JobThroughput:
        """Samples a second by number of workers and batch, and what each of these was made from.

        Raises UnknownJob; ApiError: its trial run is not over, or it has none.
        """
        return self._transport.get(f"{_path(job_id)}/curve", JobThroughput)

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
        if whose is not None or worker is not None:
            return self._logs(job_id, offsets, worker, whose or LogOwner.WORKERS)
        own = self._logs(job_id, offsets, None, LogOwner.LEADER)
        return own or self._logs(job_id, offsets, None, LogOwner.TRIAL)

    def _logs(
        self, job_id: str, offsets: Mapping[int, int] | None, worker: int | None, whose: LogOwner
    ) -> list[LogChunk]:
        pairs = ",".join(f"{number}:{offset}" for number, offset in (offsets or {}).items())
        query = {"offset": pairs, "whose": str(whose)}
        if worker is not None:
            query["worker"] = str(worker)
        return self._transport.get(f"{_path(job_id)}/logs", list[LogChunk], query)

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

    def _submit(self, submission: Submission, key: str | None) -> SubmittedJob:
        try:
            asked = encode(submission)
        except UnicodeEncodeError as error:
            raise InvalidJob(f"{shown(error.object)} is not UTF-8; use texts and paths in UTF-8") from error
        except OverflowError as error:
            raise _too_large(submission) from error
        return self._send_once("/v1/jobs", asked, key)

    def _resubmit(self, path: str, deadline: Time | None, kind: str | None, key: str | None) -> SubmittedJob:
        return self._send_once(path, encode(_given(deadline=deadline, kind=kind)), key)

    def _send_once(self, path: str, content: bytes, key: str | None) -> SubmittedJob:
        """Ask again, under the same key, where no answer came: it is not known then what came of it."""
        headers = {"Idempotency-Key": request_key(key) or secrets.token_hex(16)}
        give_up_s = time.monotonic() + RETRY_WITHIN_S
        while True:
            try:
                answered = self._transport.call("POST", path, content=content, headers=headers)
                return SubmittedJob(decoder(SubmitResult).decode(answered).id, self)
            except (NoPlatform, PlatformSilent, Unavailable) as error:
                if time.monotonic() >= give_up_s:
                    raise type(error)(
                        f"{error}; it is unknown whether the job was submitted: submit it "
                        f"again with the key {headers['Idempotency-Key']} (--key), which "
                        "creates it only once"
                    ) from error
                time.sleep(LOOK_EVERY_S)
                self._transport.find_again()


def _path(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"


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
