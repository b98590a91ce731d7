"""What a host may speak of, ask for and send: runs that were opened on it in its term, and their files.

A host is another machine, and may say anything once an intruder has it. What was opened there is known here,
and was not said by it; but for what it had kept when another controller came, which is checked before (see
`remote.claims`). What a run makes of a message is the run's affair: which of its workers are on which host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple, TypeVar

from swell.executors.hosts import file_messages as files
from swell.executors.hosts import messages as hosts
from swell.executors.hosts.messages import (
    CloseRun,
    FromHost,
    HostMessage,
    OpenRun,
    RunKept,
    RunOpened,
    RunRefused,
    StartWorker,
    ToHost,
)
from swell.executors.local.files.forwarded_log import LogName
from swell.executors.local.files.places import shown

#: Of workers whose runs are closed, so many may have something to say yet. Trial workers that were silent
#: never say that they have ended.
MAX_LATE_LOGS = 1000
#: The ends of so many logs may come again.
MAX_ENDED_LOGS = 1000
#: Of so many jobs a host may hold checkpoints, and warn the owners.
MAX_JOBS = 1000
#: Of so many runs that are closed something may be under way.
MAX_CLOSED = 1000
#: Checkpoints that a host may have kept.
MAX_KEPT = 10_000

T = TypeVar("T")


class FormerRuns(NamedTuple):
    """Logs and jobs of a host in its earlier terms."""

    logs: tuple[LogName, ...]  #: of which something may come yet
    jobs: tuple[str, ...]  #: of which there may be checkpoints


class OpenedRuns:
    """Runs that are open on one host in its present term.

    Pure: its owner passes in what the host is told, and what the host says.
    """

    def __init__(self, former: FormerRuns | None = None) -> None:
        """`former`: what it had in earlier terms."""
        self._runs: dict[str, OpenRun] = {}
        self._logs: dict[str, set[LogName]] = {}  #: that are not at their end, by run
        self._late_logs: dict[LogName, None] = {}  #: the same of runs that are closed, the oldest first
        self._ended_logs: dict[LogName, None] = {}  #: the host may not have heard that it was taken
        self._kept: dict[files.JobCheckpoint, None] = {}  #: not sent to the controller before
        self._jobs: dict[str, None] = {}  #: whose gangs it has or had, the latest last
        self._known: dict[str, None] = {}  #: of which it has or had anything in this term, the latest last
        self._closed: dict[str, None] = {}  #: runs, the latest last
        self._unanswered: Counter[str] = Counter()  #: orders to open a run
        if former is not None:
            self._expect_late(former.logs)
            _note(self._jobs, former.jobs, MAX_JOBS)

    @property
    def codes(self) -> frozenset[str]:
        """Digests of the snapshots of these runs."""
        return frozenset(order.spec.code for order in self._runs.values() if order.spec.code)

    @property
    def left(self) -> FormerRuns:
        """What may come in its next term."""
        of_runs = (name for names in self._logs.values() for name in sorted(names))
        return FormerRuns(tuple(dict.fromkeys([*self._late_logs, *of_runs])), tuple(self._jobs))

    # ------------------------------------------------------------ what goes there, and comes from there
    def note_told(self, message: ToHost) -> None:
        """Record a message to the host. Call it before the host has the message."""
        match message:
            case OpenRun(run=key):
                self._open(message)
                self._unanswered[key] += 1
            case StartWorker(run=key, worker=worker):
                self._expect(key, [worker])
            case CloseRun(run=key):
                self._close(key)
                self._expect_late(self._logs.pop(key, ()))
            case files.CheckpointTaken(job_id=job_id, name=name):
                self._kept.pop(files.JobCheckpoint(job_id=job_id, name=name), None)

    def note_said(self, message: HostMessage) -> None:
        """Record a message of the host to which `why_not` has no objection."""
        match message:
            case RunKept(order=order):
                self._open(order)
                self._expect(order.run, (worker.number for worker in message.workers))
            case files.FilesKept():
                _note(self._kept, message.checkpoints, MAX_KEPT)
                _note(self._known, message.jobs, MAX_JOBS)
                self._expect_late(LogName(log.job_id, log.worker, log.is_trial) for log in message.logs)
            case RunOpened(run=key):
                self._note_answer(key)
            case RunRefused(run=key):
                self._note_answer(key)
                self._close(key)
            case files.LogPiece(is_last=True):
                self._end_log(LogName(message.job_id, message.worker, message.is_trial))

    def _open(self, order: OpenRun) -> None:
        self._runs[order.run] = order
        _note(self._known, [order.job_id], MAX_JOBS)
        if not order.is_trial:
            _note(self._jobs, [order.job_id], MAX_JOBS)

    def _close(self, key: str) -> None:
        if self._runs.pop(key, None) is not None:
            _note(self._closed, [key], MAX_CLOSED)

    def _note_answer(self, key: str) -> None:
        self._unanswered[key] -= 1
        self._unanswered = +self._unanswered  # without those that are answered

    def _expect(self, key: str, workers: Iterable[int]) -> None:
        if (order := self._runs.get(key)) is not None:
            names = {LogName(order.job_id, worker, order.is_trial) for worker in workers}
            self._logs.setdefault(key, set()).update(names)

    def _expect_late(self, names: Iterable[LogName]) -> None:
        _note(self._late_logs, names, MAX_LATE_LOGS)

    def _end_log(self, name: LogName) -> None:
        self._late_logs.pop(name, None)
        for names in self._logs.values():
            names.discard(name)
        _note(self._ended_logs, [name], MAX_ENDED_LOGS)

    # ------------------------------------------------------------ what follows
    def why_not(self, message: FromHost | files.FileMessage) -> str:
        """Why the host has no business to say this; empty: it has.

        Of contents of code see `codes`: which contents a snapshot has stands on the disk.
        """
        if isinstance(message, files.FileMessage):
            return self._why_no_file(message)
        match message:
            case hosts.RunRefused(run=key):
                return "" if self._unanswered[key] else foreign(f"it refused run {key!r}")
            case hosts.WorkersAlive(runs=runs):
                return next(filter(None, map(self._why_not_of, runs)), "")
            case hosts.OwnerWarned(job_id=job_id):
                return "" if job_id in self._known else foreign(f"it warned the owner of job {job_id!r}")
            case hosts.RunKept() | hosts.EndKept() | hosts.KeptTold():
                return ""
            case hosts.DevicesOffered() | hosts.HostLeaving():
                return ""
            case hosts.RunOpened():  # a former controller may have ordered it: it is to be closed
                return ""
        return self._why_not_of(message.run)

    def _why_not_of(self, key: str) -> str:
        """One that was closed a moment ago is its own: an answer may have been under way."""
        is_its_own = key in self._runs or key in self._closed
        return "" if is_its_own else foreign(f"it spoke of run {key!r}")

    def _why_no_file(self, message: files.FileMessage) -> str:
        match message:
            case files.PartRequest(file=files.JobCheckpoint(job_id=job_id) as file):
                return "" if self._has_job(job_id) else foreign(f"it asked for {shown(file)}")
            case files.PartRequest(file=files.CodeManifest(digest=digest) as file):
                return "" if digest in self.codes else foreign(f"it asked for {shown(file)}")
            case files.JobFilesRequest(run=key, job_id=job_id, is_trial=is_trial):
                order = self._runs.get(key)
                is_its_own = order is not None and (order.job_id, order.is_trial) == (job_id, is_trial)
                return "" if is_its_own else foreign(f"it asked for the files of job {job_id!r}")
            case files.CheckpointOffered(job_id=job_id, name=name):
                file = files.JobCheckpoint(job_id=job_id, name=name)
                is_its_own = self._has_job(job_id) or file in self._kept
                return "" if is_its_own else foreign(f"it offered {shown(file)}")
            case files.LogPiece(is_trial=is_trial):
                return self._why_no_log(LogName(message.job_id, message.worker, is_trial))
        return ""

    def may_hold(self, file: files.JobCheckpoint) -> bool:
        """Whether it may have saved this, in its present term or before."""
        return file.job_id in self._jobs or file in self._kept

    def _has_job(self, job_id: str) -> bool:
        """Whether its gang may have workers there; a trial run has no checkpoints."""
        return any(order.job_id == job_id and not order.is_trial for order in self._runs.values())

    def _why_no_log(self, name: LogName) -> str:
        is_closed = name in self._late_logs or name in self._ended_logs
        if is_closed or any(name in names for names in self._logs.values()):
            return ""
        return foreign(f"it sent output of worker {name.worker} of job {name.job_id!r}")


def _note(names: dict[T, None], news: Iterable[T], limit: int) -> None:
    """The latest last; of too many the oldest are forgotten."""
    names.update(dict.fromkeys(news))
    for oldest in list(islice(names, max(0, len(names) - limit))):
        del names[oldest]


def foreign(what: str) -> str:
    """Why something is refused. `what`: the host has done."""
    return f"{what}, of which no run was opened there in its present term"
