"""The logs of one run's workers on this host: which worker led since when."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from swell.executors.gang.host_messages import StartWorker, TellWorker
from swell.executors.limited_log import LimitedLog
from swell.executors.local.logs import files
from swell.wire import environ
from swell.wire.messages import Regroup

#: The storage may take so long to tell what a worker has left; then its end is told without that.
LAST_WORDS_S = 5.0

log = logging.getLogger("swell.agent")

#: See `LoopThreads`.
Background = Callable[[Callable[[], OSError | None], Callable[[OSError | None], None]], None]


class RunLogSet:
    """The logs of the workers of a gang, or of a trial run, in the job's folder."""

    def __init__(self, folder: Path, work: Path, kind: str) -> None:
        """
        Args:
            folder: the job's, which tells who led.
            work: where its processes write their logs.
            kind: what the logs are called.
        """
        self._folder, self._work, self._kind = folder, work, kind
        self.leader: int | None = None  #: the worker that is rank 0
        #: Leaders that the folder lacks, and whether all of their logs counts, or what comes from now on.
        self._unnoted: list[tuple[int, bool]] = []
        self._is_noting = False
        self._failures = LimitedLog(log.warning)

    def path(self, name: files.LogName) -> Path:
        """Path of the log of a worker's process."""
        return files.log_path(self._work, self._kind, name)

    def see_leader(self, effect: StartWorker | TellWorker) -> None:
        """If this makes a worker rank 0 that was not, the job's folder is to say which, and since when."""
        if isinstance(effect, StartWorker):  # one without a rank has rank 0 later if it is the first
            rank = effect.environ.get(environ.RANK)
            is_leader = self.leader is None and effect.is_first if rank is None else rank == "0"
        else:
            is_leader = isinstance(effect.message, Regroup) and effect.message.rank == 0
        if self._kind == files.TRIAL or not is_leader or effect.worker == self.leader:
            return
        self.leader = effect.worker
        # Of the first one of a gang, what it says on its way to the group is the job's too.
        self._unnoted.append((effect.worker, isinstance(effect, StartWorker)))

    def note_leaders(self, in_background: Background) -> None:
        """Which workers led, as far as it is not yet on disk; to be called again while that is full."""
        if self._is_noting or not self._unnoted:
            return
        notes, self._is_noting = tuple(self._unnoted), True

        def note() -> OSError | None:
            try:
                of = [(one, 0 if is_new else files.end_offset(self.path(one))) for one, is_new in notes]
                files.note_leaders(self._folder, of)
            except OSError as error:
                return error
            return None

        def settle(error: OSError | None) -> None:
            self._is_noting = False
            if error is None:
                del self._unnoted[: len(notes)]
            else:
                self._failures(
                    "cannot note the leader in %s: %s; `swell logs` lacks its lines", self._folder, error
                )

        in_background(note, settle)

    def end(self, name: files.LogName, is_tail_wanted: bool) -> str:
        """The process is gone. Returns the last lines of its log, if wanted. Touches the storage.

        Of a trial run's many, keep the logs of those that had something to say.
        """
        path, tail = self.path(name), ""
        try:
            tail = files.read_tail(path) if is_tail_wanted else ""
            if self._kind == files.TRIAL and path.exists() and not path.stat().st_size:
                path.unlink()
        except OSError as error:  # its end is told all the same
            log.warning("cannot look after the log %s: %s", path, error)
        return tail
