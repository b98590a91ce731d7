"""The controller's state folder, for hosts that have another one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from swell.executors.gang.gang_settings import GangSettings
from swell.executors.hosts import file_messages as files
from swell.executors.hosts.messages import FromHost, ToHost
from swell.executors.local.files.background import Background
from swell.executors.local.files.head_checkpoints import HeadCheckpoints
from swell.executors.local.files.head_logs import HeadLogs
from swell.executors.local.files.opened_runs import FormerRuns, OpenedRuns, foreign
from swell.executors.local.files.outgoing import OutgoingFiles
from swell.executors.local.files.places import checkpoint_folder, shown
from swell.executors.local.files.snapshot_contents import SnapshotContents
from swell.executors.local.logs.files import TRIAL, WORKER, next_number
from swell.executors.rate_limited_log import RateLimitedLog
from swell.wire.checkpoint_files import checkpoints_in

#: Of so many hosts that are lost it is known what they may have yet to send.
MAX_LOST_HOSTS = 1000

log = logging.getLogger("swell.hosts")


@dataclass(slots=True)
class _HostEnd:
    """What is under way with one host."""

    machine: str
    tell: Callable[[ToHost], None]
    outgoing: OutgoingFiles
    opened: OpenedRuns
    num_refused: int = 0
    refusals: RateLimitedLog = field(default_factory=RateLimitedLog)


class HeadFiles:
    """See `controller.file_store.FileStore`. Disks are touched in the background only."""

    def __init__(self, state_dir: Path, gang_settings: GangSettings, background: Background) -> None:
        self._state_dir, self._background = state_dir, background
        num_kept = gang_settings.worker_settings.keep_checkpoints
        self._checkpoints = HeadCheckpoints(state_dir, num_kept, background)
        self._contents = SnapshotContents(state_dir)
        self._logs = HeadLogs(state_dir, gang_settings.logs, background)
        self._hosts: dict[str, _HostEnd] = {}
        self._lost: dict[tuple[str, str], FormerRuns] = {}  #: hosts, by name and machine, the latest last

    def join(self, host: str, machine: str, tell: Callable[[ToHost], None]) -> None:
        """See `FileStore`. A former host of this name is lost."""
        self.lose(host)
        end: _HostEnd

        def say(message: ToHost) -> None:
            if self._hosts.get(host) is end:  # else it is gone
                tell(message)

        outgoing = OutgoingFiles(self._state_dir, say, self._background)
        opened = OpenedRuns(self._lost.pop((host, machine), None))
        self._hosts[host] = end = _HostEnd(machine, say, outgoing, opened)

    def lose(self, host: str) -> None:
        """See `FileStore`."""
        end = self._hosts.pop(host, None)
        if end is not None:
            left = end.opened.left
            self._logs.leave(left.logs)
            self._lost[host, end.machine] = left
            for oldest in list(self._lost)[:-MAX_LOST_HOSTS]:
                del self._lost[oldest]
            self._checkpoints.lose(host)

    def note_told(self, host: str, message: ToHost) -> None:
        """See `FileStore`."""
        if (end := self._hosts.get(host)) is not None:
            end.opened.note_told(message)

    def note_said(self, host: str, message: FromHost) -> None:
        """See `FileStore`."""
        if not isinstance(message, files.FileMessage) and (end := self._hosts.get(host)) is not None:
            end.opened.note_said(message)

    def hear(self, host: str, message: files.FileMessage) -> None:
        """See `FileStore`."""
        end = self._hosts[host]
        if why := end.opened.why_not(message):
            self._refuse(host, end, message, why)
            return
        end.opened.note_said(message)
        match message:
            case files.PartRequest(file=files.CodeContent(digest=digest)):
                self._send_content(host, end, message, digest)
            case files.PartRequest():
                end.outgoing.hear(message)
            case files.FilePart() | files.NoFile():
                self._checkpoints.hear(host, message)
            case files.CheckpointOffered():
                self._checkpoints.take(host, message, end.tell)
            case files.CheckpointsHeld():
                self._take_held(host, end, message)
            case files.JobFilesRequest():
                self._find(host, end, message)
            case files.LogPiece(number=number):
                self._logs.hear(message, lambda at: end.tell(files.LogTaken(number=number, end=at)))

    def when_settled(self, host: str, job_id: str, then: Callable[[], None]) -> None:
        """See `HeadCheckpoints.when_settled`."""
        self._checkpoints.when_settled(host, job_id, then)

    def _take_held(self, host: str, end: _HostEnd, message: files.CheckpointsHeld) -> None:
        """Those of jobs that it has had, if they are newer. The others may be of another platform."""
        for held in message.checkpoints:
            if end.opened.may_hold(files.JobCheckpoint(job_id=held.job_id, name=held.name)):
                offer = files.CheckpointOffered(job_id=held.job_id, name=held.name, num_bytes=held.num_bytes)
                self._checkpoints.take(host, offer, end.tell)

    def _send_content(self, host: str, end: _HostEnd, request: files.PartRequest, digest: str) -> None:
        """If it is of the code of a run there."""
        codes = end.opened.codes

        def answer(is_its_own: bool) -> None:
            if self._hosts.get(host) is not end:
                return
            if is_its_own:
                end.outgoing.hear(request)
            else:
                self._refuse(host, end, request, foreign(f"it asked for {shown(request.file)}"))

        self._background(lambda: self._contents.has(codes, digest), answer)

    def _refuse(self, host: str, end: _HostEnd, message: files.FileMessage, why: str) -> None:
        """Nothing is read or written; the host need not wait for an answer."""
        end.num_refused += 1
        if end.refusals.take():
            log.warning("refused host %s: %s; %d refusals since it joined", host, why, end.num_refused)
        match message:
            case files.PartRequest(file=file):
                end.tell(files.NoFile(file=file, why=f"the head has refused it: {why}"))
            case files.JobFilesRequest(run=run):
                end.tell(files.JobFilesFound(run=run, checkpoint="", first_worker=0, why_not=why))
            case files.CheckpointOffered(job_id=job_id, name=name):
                end.tell(files.CheckpointTaken(job_id=job_id, name=name, why_not=why))
            case files.LogPiece(number=number, since=(_, at)):
                end.tell(files.LogTaken(number=number, end=at))

    def _find(self, host: str, end: _HostEnd, request: files.JobFilesRequest) -> None:
        def find() -> None:
            self._background(lambda: _found(self._state_dir, request), end.tell)

        if request.wants_checkpoint:
            self.when_settled(host, request.job_id, find)
        else:
            find()


def _found(state_dir: Path, request: files.JobFilesRequest) -> files.JobFilesFound:
    try:
        folder = checkpoint_folder(state_dir, request.job_id)
        names = (path.name for _, path in checkpoints_in(folder) if path.name not in request.damaged)
        newest = next(names, "") if request.wants_checkpoint else ""
        first = next_number(folder.parent, TRIAL if request.is_trial else WORKER)
    except (OSError, ValueError) as error:
        why_not = f"its files at the head cannot be read: {error}"
        return files.JobFilesFound(run=request.run, checkpoint="", first_worker=0, why_not=why_not)
    return files.JobFilesFound(run=request.run, checkpoint=newest, first_worker=first)
