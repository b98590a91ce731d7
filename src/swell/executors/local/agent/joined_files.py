"""Files of jobs on a host whose state folder is not the controller's: they go there and back by messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from swell.executors.hosts import file_messages as files
from swell.executors.hosts.messages import FromHost, OpenRun, OwnerWarned
from swell.executors.local.agent.job_code import drop_code
from swell.executors.local.agent.job_files import Opening
from swell.executors.local.agent.run_opening import RunOpening
from swell.executors.local.files.background import Background
from swell.executors.local.files.fetches import Fetches
from swell.executors.local.files.forwarded_log import ForwardedLog, LogName
from swell.executors.local.files.held_checkpoints import held_checkpoints
from swell.executors.local.files.host_checkpoints import HostCheckpoints
from swell.executors.local.files.log_forwarding import LogForwarder
from swell.executors.local.files.outgoing import OutgoingFiles
from swell.executors.local.logs.files import job_folder


class JoinedFiles:
    """See `JobFiles`. Disks are touched in the background only."""

    def __init__(
        self,
        state_dir: Path,
        host: str,
        answer: Callable[[FromHost], None],
        now_s: Callable[[], float],
        background: Background,
        left_logs: Iterable[ForwardedLog] = (),
    ) -> None:
        """
        Args:
            host: what people call this machine.
            answer: takes what the controller is told.
            left_logs: of the term before.
        """
        self._state_dir, self._host, self._answer, self._background = state_dir, host, answer, background
        self._fetches = Fetches(state_dir, answer, background)
        self._outgoing = OutgoingFiles(state_dir, answer, background)
        self._checkpoints = HostCheckpoints(self._outgoing, answer, self._warn)
        self._logs = LogForwarder(answer, now_s, background, left_logs)
        self._openings: dict[str, RunOpening] = {}  #: by run
        self._held: tuple[files.HeldCheckpoint, ...] = ()
        self._has_controller = False

    def begin(self) -> None:
        self._background(lambda: held_checkpoints(self._state_dir), self._found_held)

    def _found_held(self, held: tuple[files.HeldCheckpoint, ...]) -> None:
        self._held = held
        if self._has_controller:
            self._tell_kept()

    def open(self, order: OpenRun, opening: Opening) -> None:
        """A run that is about to be opened already is opened for the newer order only."""
        self._openings[order.run] = run = RunOpening(
            self._state_dir, self._host, order, opening, self._answer, self._fetches, self._background
        )
        run.ended = lambda: self._forget(order.run, run)
        run.begin()

    def _forget(self, key: str, run: RunOpening) -> bool:
        """Whether it was still wanted."""
        if self._openings.get(key) is not run:
            return False
        del self._openings[key]
        return True

    def hear(self, message: files.FileMessage) -> None:
        match message:
            case files.PartRequest():
                self._outgoing.hear(message)
            case files.FilePart() | files.NoFile():
                self._fetches.hear(message)
            case files.CheckpointTaken():
                self._checkpoints.taken(message)
            case files.LogTaken():
                self._logs.taken(message)
            case files.JobFilesFound(run=key):
                if (run := self._openings.get(key)) is not None:
                    run.found(message)

    def saved(self, job_id: str, path: str) -> None:
        self._checkpoints.saved(job_id, path)

    def log_begins(self, name: LogName, path: Path) -> None:
        self._logs.begin(name, path)

    def leads(self, name: LogName, position: int) -> None:
        self._logs.lead(name, position)

    def log_ends(self, name: LogName, told: Callable[[], None]) -> None:
        self._logs.end(name, told)

    def succeeded(self, job_id: str) -> None:
        folder = job_folder(self._state_dir, job_id)
        self._background(lambda: drop_code(folder), lambda _: None)

    @property
    def has_unsent(self) -> bool:
        return bool(self._checkpoints.untaken or self._logs.unsent)

    def tick(self) -> None:
        self._logs.tick()

    def controller_replaced(self) -> None:
        self._openings.clear()  # the new one asks again
        self._fetches.give_up("another controller is there now")
        self._has_controller = True
        self._tell_kept()
        self._checkpoints.restart()
        self._logs.restart()

    def _tell_kept(self) -> None:
        logs = tuple(
            files.WorkerLog(job_id=log.job_id, worker=log.worker, is_trial=log.is_trial)
            for log in self._logs.unsent
        )
        held = (files.JobCheckpoint(job_id=held.job_id, name=held.name) for held in self._held)
        checkpoints = tuple(dict.fromkeys([*self._checkpoints.untaken, *held]))
        if checkpoints or logs:
            self._answer(files.FilesKept(checkpoints=checkpoints, logs=logs))
        if self._held:
            self._answer(files.CheckpointsHeld(checkpoints=self._held))

    def close(self) -> tuple[ForwardedLog, ...]:
        self._outgoing.close()
        return self._logs.leave()

    def _warn(self, job_id: str, about: str, message: str) -> None:
        self._answer(OwnerWarned(job_id=job_id, about=about, message=message))
