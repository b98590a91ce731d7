"""The platform while it is up: the head's thread, and what others may ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

from swell import __version__
from swell.core.core import Core
from swell.core.loop import run
from swell.core.ports import Journal
from swell.core.state import job_sizes
from swell.live.board import Board
from swell.live.clock import WallClock
from swell.live.inbox import Inbox
from swell.live.job_folders import JobFolders
from swell.live.recovery import Entry as JournalEntry
from swell.live.recovery import changed_nodes, digest, load, missing_gangs, replay
from swell.live.submitter import Submissions, Submitter, result_of
from swell.live.world import Hands, LiveWorld
from swell.model.cluster import Node
from swell.model.command import AnyCommand, LaunchGang
from swell.model.errors import InvalidJob, UnknownJob
from swell.model.event import AnyEvent, CancelRequested, DrainRequested, JobSubmitted, Opened
from swell.model.job import PLAIN, Elasticity, JobClass, JobSpec, Origin
from swell.model.view import ClusterView, JobView, Story, SubmitResult

#: After so many batches they are folded into one state.
FOLD_AFTER = 500
#: `down` waits so long for checkpoints before it ends the processes anyway.
DRAIN_S = 60.0
#: The head's state is handed out between two of its turns, which take milliseconds.
STATE_TIMEOUT_S = 10.0


class History(Protocol):
    """A state, and the batches after it."""

    @property
    def state(self) -> bytes | None: ...
    @property
    def entries(self) -> Iterable[JournalEntry]: ...


class Store(Journal, Submissions, Protocol):
    """A journal with an archive."""

    def note_commands(self, seq: int, digest: str) -> None: ...
    def fold(self, state: bytes, ended: Sequence[JobView], stories: Sequence[tuple[str, Story]]) -> int: ...
    def stories(self, job_id: str) -> list[Story]: ...
    def archived_jobs(self) -> list[JobView]: ...
    def archived_job(self, job_id: str) -> JobView | None: ...
    def close(self) -> None: ...
    @property
    def last_seq(self) -> int: ...
    @property
    def bytes_on_disk(self) -> int: ...
    @property
    def notices(self) -> tuple[str, ...]: ...


class Executor(Hands, Protocol):
    """Hands that outlive the daemon."""

    def start(self, deliver: Callable[[AnyEvent], None]) -> frozenset[str]:
        """Begin, or adopt what runs. Returns the jobs whose gangs live, or whose end is yet to be told."""

    def acknowledge(self) -> None:
        """All that was delivered and handled so far is in the journal."""

    def shut_down(self) -> None:
        """End every process and wait until all are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where and what the platform is."""

    jobs_dir: Path
    policy: str
    nodes: Sequence[Node]


class Platform:
    """Ties the head to its world; implements what the control API needs."""

    def __init__(self, site: Site, core: Core, store: Store, executor: Executor) -> None:
        self._site = site
        self._core = core
        self._store = store
        self._executor = executor
        self._clock = WallClock()
        self._inbox = Inbox(self._clock)
        self._board = Board()
        self._folders = JobFolders(site.jobs_dir)
        self._submitter = Submitter(self._inbox, self._clock.now_s, store, self._folders)
        self._started_s = self._clock.now_s()
        self._is_stopping = False
        self._drain_until_s: float | None = None
        self._folded_seq = store.last_seq
        self._asked: SimpleQueue[Future[bytes]] = SimpleQueue()
        self._world = LiveWorld(
            self._inbox,
            self._clock,
            executor,
            self._end_turn,
            self._is_over,
            lambda: self._drain_until_s,
            self._show_head,
        )

    # ------------------------------------------------------------ the head's thread
    def recover(self, history: History) -> None:
        """Bring the head to where the journal ends."""
        load(self._core, history.state)
        for _ in replay(self._core, history.entries):
            self._post()
        self._post()
        self._note_open_jobs()

    def _note_open_jobs(self) -> None:
        """A daemon that was killed, or one of an earlier version, may not have come to it.

        A job whose folder tells of an end is open again: the journal is an older copy.
        """
        for view in self._board.jobs():
            if view.phase.is_end:
                continue
            self._folders.forget_end(view.id)
            if not self._folders.has_note(view.id) and (submission := self._store.submission(view.id)):
                self._folders.note_submitted(submission)

    def run(self) -> None:
        """Until the platform has been asked to stop and every job has left its devices."""
        try:
            self._work()
        finally:
            self._inbox.close()
        self._fold()

    def _work(self) -> None:
        now_s = self._clock.now_s()
        alive = self._executor.start(self._inbox.put)
        self._inbox.put(Opened(at_s=now_s, policy=self._site.policy))
        for event in changed_nodes(self._core.cluster, self._site.nodes, now_s):
            self._inbox.put(event)
        for event in missing_gangs(self._core, alive, now_s):
            self._inbox.put(event)
        for command in self._core.under_way():
            if not isinstance(command, LaunchGang) or command.job_id in alive:
                self._world.repeat(command)
        run(self._world, self._store, self._core)

    def _end_turn(self, commands: Sequence[AnyCommand]) -> None:
        """Show what came of the turn, and let go of what is now safe in the journal."""
        self._store.note_commands(self._store.last_seq, digest(commands))
        self._post()
        self._inbox.settle(self._core.ignored)
        self._executor.acknowledge()
        if self._is_stopping and self._core.is_draining and self._drain_until_s is None:
            self._drain_until_s = self._clock.now_s() + DRAIN_S
        if self._store.last_seq - self._folded_seq >= FOLD_AFTER:
            self._fold()

    def _post(self) -> None:
        for view in self._board.post(self._core):
            self._folders.note_ended(view)

    def _fold(self) -> None:
        ended, stories = self._board.drain()
        self._folded_seq = self._store.fold(self._core.save(), ended, stories)
        self._board.folded(ended)

    def _show_head(self) -> None:
        """Hand the head's state to whoever has asked for it."""
        while True:
            try:
                asked = self._asked.get_nowait()
            except Empty:
                return
            asked.set_result(self._core.save())

    def _is_over(self) -> bool:
        if not (self._is_stopping and self._core.is_draining):
            return False  # the journal of a platform killed while stopping still says that it drains
        is_late = self._drain_until_s is not None and self._clock.now_s() >= self._drain_until_s
        return self._core.is_idle or is_late

    # ------------------------------------------------------------ any thread
    def now_s(self) -> float:
        return self._clock.now_s()

    def submit(self, spec: JobSpec, origin: Origin = PLAIN) -> SubmitResult:
        """The new job, or the one of an earlier submission with the same key, once the journal has it.

        Raises InvalidJob, KeyConflict, Unavailable; WrongPhase if it is to continue without a checkpoint.
        """
        check_job(spec, sum(len(node.devices) for node in self._site.nodes))
        return self._submitter.submit(spec, origin)

    def submission(self, job_id: str) -> JobSubmitted:
        """As the job was submitted. Raises UnknownJob."""
        found = self._store.submission(self.job(job_id).id)
        if found is None:
            raise UnknownJob(
                f"how job {job_id!r} was submitted is not known: it ended under an earlier version of Swell; "
                "submit it with `swell submit`"
            )
        return found

    def cancel(self, job_id: str) -> None:
        """Returns once the journal has it. Raises UnknownJob, Unavailable."""
        if self.job(job_id).finished_s is None:
            receipt = self._inbox.request(CancelRequested(at_s=self._clock.now_s(), job_id=job_id))
            result_of(receipt, f"job {job_id!r} may or may not be cancelled")

    def jobs(self) -> list[JobView]:
        recent = {view.id: view for view in self._board.jobs()}
        old = [view for view in self._store.archived_jobs() if view.id not in recent]
        return sorted([*old, *recent.values()], key=lambda view: (view.submitted_s, view.id))

    def job(self, job_id: str) -> JobView:
        view = self._board.job(job_id) or self._store.archived_job(job_id)
        if view is None:
            raise UnknownJob(f"there is no job {job_id!r}; `swell jobs` lists those there are")
        return view

    def stories(self, job_id: str) -> list[Story]:
        self.job(job_id)
        return [*self._store.stories(job_id), *self._board.stories(job_id)]

    def head_state(self) -> bytes:
        """All that the head remembers, as it stands (`Core.save`); asking changes nothing.

        Raises TimeoutError if the head does not come to the end of a turn.
        """
        asked: Future[bytes] = Future()
        self._asked.put(asked)
        self._inbox.nudge()
        return asked.result(STATE_TIMEOUT_S)

    def log_dir(self, job_id: str) -> Path:
        return self._site.jobs_dir / self.job(job_id).id

    def cluster(self) -> ClusterView:
        nodes = self._board.nodes()
        owners = [owner for node in nodes for owner in node.devices.values()]
        return ClusterView(
            version=__version__,
            policy=self._site.policy,
            now_s=self.now_s(),
            started_s=self._started_s,
            nodes=nodes,
            num_devices=len(owners),
            num_free=owners.count(None),
            num_stale_reports=self._board.num_stale,
            journal_bytes=self._store.bytes_on_disk,
            warnings=self._store.notices,
        )

    def stop(self) -> None:
        """Suspend every job, then let `run` return. Returns once the journal has it. Raises Unavailable."""
        self._is_stopping = True
        receipt = self._inbox.request(DrainRequested(at_s=self._clock.now_s()))
        result_of(receipt, "the platform may or may not stop")


def check_job(spec: JobSpec, num_devices: int) -> None:
    """Raises InvalidJob if the job could not run on so many devices were they all its own, or be promised."""
    needed = spec.min_workers * spec.devices_per_worker
    if needed > num_devices:
        raise InvalidJob(
            f"job {spec.name!r} asks for at least {needed} devices but the cluster has {num_devices}; "
            "lower its smallest number of workers or add nodes"
        )
    if job_sizes(spec, num_devices).size == 0:
        raise InvalidJob(
            f"job {spec.name!r} asks for {spec.min_workers} workers or more; gangs are powers of two and "
            f"none so large fits on {num_devices} devices with a sample of the batch for each worker: lower "
            "its smallest number of workers or add nodes"
        )
    if spec.elasticity is Elasticity.RESTART and spec.job_class is JobClass.STRICT:
        raise InvalidJob(
            f"job {spec.name!r} cannot be strict: a promise needs progress reports, and a script that "
            "does not use swell.train makes none; use class soft, or swell.train.elastic in the script"
        )
