"""The controller's state folder, for hosts that have another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from swell.executors.gang.gang_settings import Conduct
from swell.executors.hosts import file_messages as files
from swell.executors.hosts.messages import ToHost
from swell.executors.local.files.background import Background
from swell.executors.local.files.head_checkpoints import HeadCheckpoints
from swell.executors.local.files.head_logs import HeadLogs
from swell.executors.local.files.outgoing import OutgoingFiles
from swell.executors.local.files.places import checkpoint_folder
from swell.executors.local.logs.files import TRIAL, WORKER, next_number
from swell.wire.checkpoint_files import checkpoints_in


@dataclass(frozen=True, slots=True)
class _HostEnd:
    """What is under way with one host."""

    tell: Callable[[ToHost], None]
    outgoing: OutgoingFiles
    logs: HeadLogs


class HeadFiles:
    """See `controller.file_store.FileStore`. Disks are touched in the background only."""

    def __init__(self, state_dir: Path, conduct: Conduct, background: Background) -> None:
        self._state_dir, self._conduct, self._background = state_dir, conduct, background
        num_kept = conduct.worker_settings.keep_checkpoints
        self._checkpoints = HeadCheckpoints(state_dir, num_kept, background)
        self._hosts: dict[str, _HostEnd] = {}

    def join(self, host: str, tell: Callable[[ToHost], None]) -> None:
        """See `FileStore`. A former host of this name is lost."""
        self.lose(host)
        end: _HostEnd

        def say(message: ToHost) -> None:
            if self._hosts.get(host) is end:  # else it is gone
                tell(message)

        outgoing = OutgoingFiles(self._state_dir, say, self._background)
        limits = self._conduct.logs
        logs = HeadLogs(self._state_dir, limits, self._background, lambda: say(files.LogTaken()))
        self._hosts[host] = end = _HostEnd(say, outgoing, logs)

    def lose(self, host: str) -> None:
        """See `FileStore`."""
        end = self._hosts.pop(host, None)
        if end is not None:
            end.logs.close()
            self._checkpoints.lose(host)

    def hear(self, host: str, message: files.FileMessage) -> None:
        """See `FileStore`."""
        end = self._hosts[host]
        match message:
            case files.PartRequest():
                end.outgoing.hear(message)
            case files.FilePart() | files.NoFile():
                self._checkpoints.hear(host, message)
            case files.CheckpointOffered():
                self._checkpoints.take(host, message, end.tell)
            case files.JobFilesRequest():
                self._find(host, end, message)
            case files.LogPiece() | files.LeaderNoted():
                end.logs.hear(message)

    def when_settled(self, host: str, job_id: str, then: Callable[[], None]) -> None:
        """See `HeadCheckpoints.when_settled`."""
        self._checkpoints.when_settled(host, job_id, then)

    def _find(self, host: str, end: _HostEnd, request: files.JobFilesRequest) -> None:
        def find() -> None:
            self._background(lambda: _found(self._state_dir, request), end.tell)

        self.when_settled(host, request.job_id, find)


def _found(state_dir: Path, request: files.JobFilesRequest) -> files.JobFilesFound:
    try:
        folder = checkpoint_folder(state_dir, request.job_id)
        names = (path.name for _, path in checkpoints_in(folder) if path.name not in request.damaged)
        newest = next(names, "")
        first = next_number(folder.parent, TRIAL if request.is_trial else WORKER)
    except (OSError, ValueError) as error:
        why_not = f"its files at the head cannot be read: {error}"
        return files.JobFilesFound(run=request.run, checkpoint="", first_worker=0, why_not=why_not)
    return files.JobFilesFound(run=request.run, checkpoint=newest, first_worker=first)
