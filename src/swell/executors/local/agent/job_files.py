"""The files of a job on its host before workers start: its folder, its code, its checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from swell.executors.hosts.file_messages import FileMessage
from swell.executors.hosts.messages import OpenRun
from swell.executors.local.agent.job_code import drop_code, place_code
from swell.executors.local.files.forwarded_log import ForwardedLog, LogName
from swell.executors.local.files.places import CHECKPOINTS
from swell.executors.local.logs.files import TRIAL, WORKER, job_folder, next_number
from swell.model.event import Outcome
from swell.model.job import JobSpec


@dataclass(frozen=True, slots=True)
class JobPlace:
    """Where a job is on this host."""

    folder: Path
    first_worker: int  #: no worker of the kind had this number, or a higher one
    workdir: str  #: where its workers run
    entry: str  #: what they run
    environ: dict[str, str] = field(default_factory=dict)  #: what they are told besides

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS


@dataclass(frozen=True, slots=True)
class OpeningRefusal:
    """See `RunRefused`."""

    outcome: Outcome
    why: str
    is_lacking: bool = False


@dataclass(frozen=True, slots=True)
class Opening:
    """Who waits for the files of a run; one of the two is called, once."""

    ready: Callable[[JobPlace], None]
    refuse: Callable[[OpeningRefusal], None]


class JobFiles(Protocol):
    """What differs between a host that shares the controller's state folder and one that does not."""

    def begin(self) -> None:
        """No worker is here yet."""

    def open(self, order: OpenRun, opening: Opening) -> None:
        """Make ready for workers of the run. Answered at once, or later."""

    def hear(self, message: FileMessage) -> None:
        """What the controller says about files."""

    def saved(self, job_id: str, path: str) -> None:
        """A worker has saved a checkpoint."""

    def log_begins(self, name: LogName, path: Path) -> None:
        """A worker is about to print."""

    def leads(self, name: LogName, position: int) -> None:
        """What it prints from here on is the job's."""

    def log_ends(self, name: LogName, told: Callable[[], None]) -> None:
        """The worker is gone. `told` is called when the controller may hear of it."""

    def succeeded(self, job_id: str) -> None:
        """The job's code is of no more use."""

    @property
    def has_unsent(self) -> bool:
        """Whether the controller lacks something that workers have left: a checkpoint, output."""

    def tick(self) -> None:
        """Time has passed."""

    def controller_replaced(self) -> None:
        """Another controller is there now, which knows nothing."""

    def close(self) -> tuple[ForwardedLog, ...]:
        """No worker is left. Returns the logs of which the controller may not have all."""


#: Takes a job, and what to do once no host is about to send a checkpoint of it to the controller's folder.
WhenSettled = Callable[[str, Callable[[], None]], None]


def at_once(job_id: str, then: Callable[[], None]) -> None:
    """See `WhenSettled`: there are no other hosts."""
    then()


class SharedFiles:
    """See `JobFiles`: the controller's state folder is this one, so all is there already.

    But for a checkpoint that another host is still sending: a gang that comes from there waits for it.
    """

    def __init__(self, state_dir: Path, when_settled: WhenSettled = at_once) -> None:
        self._state_dir, self._when_settled = state_dir, when_settled

    def begin(self) -> None:
        """The controller sees what is there."""

    def open(self, order: OpenRun, opening: Opening) -> None:
        if order.is_trial or order.is_joining:  # it begins from nothing, or from what its gang has
            self._place(order, opening)
        else:
            self._when_settled(order.job_id, lambda: self._place(order, opening))

    def _place(self, order: OpenRun, opening: Opening) -> None:
        spec, kind = order.spec, TRIAL if order.is_trial else WORKER
        if why := lack_of_needs(spec, "this machine"):
            opening.refuse(OpeningRefusal(Outcome.LOST, why, is_lacking=True))
            return
        try:
            folder = job_folder(self._state_dir, order.job_id)
            (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
            place_code(self._state_dir, folder, spec)
            first = next_number(folder, kind)
        except ValueError as error:
            opening.refuse(OpeningRefusal(Outcome.FAILED, str(error)))
        except OSError as error:
            opening.refuse(OpeningRefusal(Outcome.LOST, str(error)))
        else:
            opening.ready(JobPlace(folder, first, spec.workdir, spec.entry))

    def hear(self, message: FileMessage) -> None:
        """The controller does not ask for what is there."""

    def saved(self, job_id: str, path: str) -> None:
        """It is where it is to be."""

    def log_begins(self, name: LogName, path: Path) -> None:
        """Likewise."""

    def leads(self, name: LogName, position: int) -> None:
        """It was noted in the job's folder."""

    def log_ends(self, name: LogName, told: Callable[[], None]) -> None:
        told()

    def succeeded(self, job_id: str) -> None:
        drop_code(job_folder(self._state_dir, job_id))

    @property
    def has_unsent(self) -> bool:
        return False

    def tick(self) -> None:
        """Nothing is under way."""

    def controller_replaced(self) -> None:
        """It has the same folder."""

    def close(self) -> tuple[ForwardedLog, ...]:
        return ()  # they are where they are to be


def lack_of_needs(spec: JobSpec, host: str) -> str:
    """Why a host cannot run this job: a path that it needs is not there. Empty if all are."""
    missing = next((path for path in spec.needs if not os.path.exists(path)), None)
    if missing is None:
        return ""
    return f"{missing} is not on {host}, and the job needs it (`needs`); mount it there, or correct the path"
