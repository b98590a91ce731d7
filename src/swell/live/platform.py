"""The platform while it is up: the head's thread, and what others may ask of it."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

import msgspec

from swell import __version__
from swell.core.loop import run
from swell.core.platform_core import PlatformCore
from swell.core.ports import Journal
from swell.core.state import job_sizes
from swell.live.board import BoardChanges, ViewBoard
from swell.live.calendar_times import shown_job, shown_story
from swell.live.clock import HeadClock, SystemClocks
from swell.live.clock_watch import ClockWatch, followed, suspected
from swell.live.command_digest import digest
from swell.live.disk import space_of
from swell.live.history import add_up
from swell.live.inbox import Inbox
from swell.live.job_folders import JobFolders
from swell.live.kind_choice import with_kind
from swell.live.measures import Measures, state_of_promise
from swell.live.metrics import TimedTally, metric_history
from swell.live.operator_tally import OperatorTally
from swell.live.pruning import EndedJobs, Pruner
from swell.live.recovery import Entry, differences, explained_jobs, load, replay
from swell.live.retention import PrunedJob, PruneRequest, Retention
from swell.live.retrying_journal import RetryingJournal
from swell.live.site_nodes import SiteNodes
from swell.live.submitter import Submissions, Submitter, result_of, uncounted
from swell.live.turn_feed import NO_TIME, Turn, TurnFeed, TurnNews
from swell.live.turn_times import TimedTurns
from swell.live.webhooks.counts import WebhookCounts
from swell.live.webhooks.webhooks import Webhooks
from swell.live.world import Hands, LiveWorld
from swell.model.calendar import Calendar
from swell.model.cluster import Node
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, StopGang
from swell.model.errors import InvalidJob, TooManyOpenJobs, Unavailable, UnknownJob, Unwritable, WrongPhase
from swell.model.event import (
    AnyEvent,
    CancelRequested,
    DeadlineChangeAsked,
    DrainRequested,
    JobSubmitted,
    NodeWarned,
    Opened,
)
from swell.model.job import PLAIN, Elasticity, JobClass, JobSpec, Origin, Phase
from swell.model.job_query import EVERY_JOB, JobQuery, newest, place
from swell.model.options import Sizes
from swell.model.outcome import JobHistory, OutcomeSums
from swell.model.running import RunningWork
from swell.model.share_mode import ABOUT_PROMISES, ABOUT_SHARES
from swell.model.sizes import format_bytes
from swell.model.view import ClusterView, JobView, MetricHistory, NodeView, Story, SubmitResult

#: After so many batches, or as many as there are open jobs, they are folded into one state: what a fold costs
#: is in proportion to these, and so it costs each turn the same. Where it fails, again after so many more.
FOLD_AFTER = 500
FOLD_AGAIN_AFTER = 50
#: So many stories go to the archive together: those of a whole fold would hold the head up.
STORIES_TOGETHER = 500
#: Open jobs from which on a head should have its loops compiled soon.
CROWD = 32
#: Jobs shown where the beginning of an id could be that of any of them.
NUM_CANDIDATES = 6
#: `down` waits so long for checkpoints before it ends the processes anyway.
DRAIN_S = 60.0
#: A turn is heard within milliseconds; a fold, which takes tens of them, waits for that so long.
HEARD_WITHIN_S = 0.5
#: A request to prune waits for that so long, and the head does not.
PRUNABLE_WITHIN_S = 10.0
#: The head's state is handed out between two of its turns, which take milliseconds.
STATE_TIMEOUT_S = 10.0

log = logging.getLogger("swell.platform")

_Answer = TypeVar("_Answer")


class History(Protocol):
    """A state, and the batches after it."""

    @property
    def state(self) -> bytes | None:
        """The state of the last fold, as JSON; None before the first fold."""

    @property
    def entries(self) -> Iterable[Entry]:
        """The batches since the last fold, oldest first."""


class EndedJobsByName(EndedJobs, Protocol):
    """Those that can be asked for in all the ways that a user names a job, and added up."""

    def named(self, name: str) -> JobView | None:
        """The newest job with this name; None if there is none."""

    def begun(self, beginning: str, limit: int) -> list[JobView]:
        """At most `limit` jobs whose ids start with `beginning`."""

    def span(self, query: JobQuery) -> tuple[float, float] | None:
        """See `history.EndedOutcomes`."""

    def add_up(
        self, query: JobQuery, period_s: float, origin_s: float, without: Sequence[str] = ()
    ) -> dict[int, OutcomeSums]:
        """See `history.EndedOutcomes`."""

    def count(self) -> dict[Phase, int]:
        """Number of jobs in each phase."""


class Store(Journal, Submissions, Protocol):
    """A journal with an archive."""

    def note_commands(self, seq: int, digest: str) -> None:
        """Store the digest of the commands of batch `seq`, which `swell replay` compares."""

    def fold(self, state: bytes, ended: Sequence[JobView], stories: Sequence[tuple[str, Story]]) -> int:
        """Replace all batches by this state and archive ended jobs; the number of the last batch."""

    def stories(self, job_id: str) -> list[Story]:
        """Archived lines of the job, oldest first."""

    def add_stories(self, stories: Sequence[tuple[str, Story]]) -> None:
        """Archive (job id, line) pairs; a line that is already archived is not added again."""

    def curves(self, job_id: str, names: Collection[str] = ()) -> Mapping[str, Sequence[TimedTally]]:
        """The metrics of a job by name; `names`: only those, none: all."""

    @property
    def archive(self) -> EndedJobsByName: ...
    def prune(self, job_ids: Sequence[str], at_s: float) -> None:
        """Remove these ended jobs; their ids stay known as pruned at `at_s`."""

    def pruned_s(self, job_id: str) -> float | None:
        """When the job was pruned; None if it was not."""

    def close(self) -> None: ...
    @property
    def last_seq(self) -> int:
        """Number of the last batch appended; 0 before the first."""

    @property
    def bytes_on_disk(self) -> int:
        """Size of the journal, including its write-ahead log."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Warnings about the file for the platform's owner."""


class Executor(Hands, Protocol):
    """Hands that outlive the daemon."""

    def start(self, deliver: Callable[[AnyEvent], None]) -> RunningWork:
        """Begin, or adopt what runs, and tell what that is.

        Events are delivered with CLOCK_BOOTTIME of this machine as `at_s`.
        """

    def acknowledge(self) -> None:
        """All that was delivered and handled so far is in the journal."""

    def remove_host(self, name: str) -> None:
        """Have a host that has joined end its workers and leave; `NodeLost` follows."""

    @property
    def lack(self) -> str:
        """What it cannot do of what was asked for, for people; empty: nothing."""

    def shut_down(self) -> None:
        """End every process and wait until all are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where and what the platform is."""

    jobs_dir: Path
    policy: str
    nodes: Sequence[Node]  #: of the platform's own machine
    retention: Retention = field(default_factory=Retention)
    hosts_may_join: bool = False  #: from other machines
    engine: str = ""  #: see `ClusterView`


class Platform:
    """Ties the head to its world; implements what the control API needs."""

    def __init__(
        self,
        site: Site,
        core: PlatformCore,
        store: Store,
        executor: Executor,
        tell: Callable[[str], None] = lambda why: None,
        on_crowd: Callable[[], None] = lambda: None,
        system_clocks: SystemClocks | None = None,
        webhooks: Webhooks | None = None,
    ) -> None:
        """Args:
        tell: hears why the platform stands still, and an empty text when it goes on.
        on_crowd: called after each turn while there are many open jobs.
        webhooks: None: nothing is told to any address.
        """
        self._site = site
        self._on_crowd = on_crowd
        self._core = core
        self._store = store
        self._executor = executor
        self._clock = HeadClock(system_clocks)
        self._watch = ClockWatch(self._clock)
        self._inbox = Inbox(self._clock)
        self._board = ViewBoard()
        self._folders = JobFolders(site.jobs_dir)
        self._submitter = Submitter(self._inbox, self._clock.now_s, store, self._folders)
        own = [node.name for node in site.nodes]
        self._nodes = SiteNodes(own, self._board, self._inbox, self._clock.now_s, executor.remove_host)
        self._started_s = self._clock.now_s()
        self._is_stopping = False
        self._is_open = False  #: the first turn is over, and so it is known that this platform is up
        self._drain_until_s: float | None = None
        self._fold_at_seq = store.last_seq + FOLD_AFTER
        self._journal = RetryingJournal(store, tell)
        self._tally = OperatorTally()
        self._feed = TurnFeed()
        self._feed.add(self._tally)
        self._webhooks = webhooks
        if webhooks is not None:
            self._feed.add(webhooks)
        self._pruner = Pruner(store, site.jobs_dir, self._archive_all, self._clock.now_s)
        self._asked: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._world = LiveWorld(
            self._inbox,
            self._clock,
            self._watch,
            executor,
            self._end_turn,
            self._is_over,
            lambda: self._drain_until_s,
            self._answer_asked,
        )
        self._turns = TimedTurns(self._world, self._journal)

    # ------------------------------------------------------------ the head's thread
    def recover(self, history: History) -> None:
        """Bring the head to where the journal ends, and the clock to the time that has passed since."""
        load(self._core, history.state)
        told_seq = self._store.last_seq
        if self._webhooks is not None:
            told_seq = self._webhooks.begin(
                self._board.open_jobs, self._clock.now_s, lambda: self._board.calendar, told_seq
            )
        for entry, _ in replay(self._core, history.entries):
            news = self._post()
            if self._webhooks is not None and entry.seq > told_seq:
                self._webhooks.catch_up(Turn(seq=entry.seq, batch=entry.batch, news=news, took=NO_TIME))
        self._post()
        self._note_open_jobs()
        self._clock.go_on(self._core.calendar, self._core.now_s)
        self._watch.begin(self._core.calendar.offset_s)
        self._started_s = self._clock.now_s()
        self._tally.begin(self._board.jobs(_is_open), self._core.calendar, self._board.warned)

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

    @property
    def num_open(self) -> int:
        """Jobs that have not ended."""
        return self._board.num_open

    def start(self) -> None:
        """Attach to the machines, and put what is found there before the head: `run` is to follow."""
        now_s = self._clock.now_s()
        work = self._executor.start(self._hear)
        self._inbox.put(self._opened())
        for event in differences(self._core, self._site.nodes, work, now_s):
            self._inbox.put(event)
        self._repeat(work)

    def _repeat(self, work: RunningWork) -> None:
        """What was commanded and not answered; and the end of trial runs whose answer is of no use."""
        commands, alive = self._core.under_way(), explained_jobs(self._core, work)
        for command in commands:
            if not isinstance(command, LaunchGang) or command.job_id in alive:
                self._world.repeat(command)
        awaited = {command.job_id for command in commands if isinstance(command, ProfileJob)}
        for job_id in work.trials:
            if job_id not in awaited:
                self._world.repeat(StopGang(job_id=job_id, generation=0))

    def run(self) -> None:
        """Until the platform has been asked to stop and every job has left its devices."""
        self._pruner.start(self._site.retention)
        self._feed.start()
        if self._webhooks is not None:
            self._webhooks.start()
        try:
            run(self._turns, self._turns, self._core)
        finally:
            self._inbox.close()
            self._pruner.stop()
            self._feed.stop()
            if self._webhooks is not None:
                self._webhooks.stop()
        self._fold()

    def _opened(self) -> Opened:
        return Opened(
            at_s=self._started_s,
            policy=self._site.policy,
            boot_id=self._clock.boot_id,
            boot_offset_s=self._clock.boot_offset_s,
            calendar_offset_s=self._watch.offset_s,
        )

    def _end_turn(self, commands: Sequence[AnyCommand]) -> None:
        """Show what came of the turn, and let go of what is now safe in the journal."""
        self._is_open = True
        self._store.note_commands(self._store.last_seq, digest(commands))
        news = self._post()
        self._inbox.settle(self._core.ignored)
        self._executor.acknowledge()
        if self._board.num_open >= CROWD:
            self._on_crowd()
        if self._is_stopping and self._core.is_draining and self._drain_until_s is None:
            self._drain_until_s = self._clock.now_s() + DRAIN_S
        seq, took = self._store.last_seq, self._turns.took()
        self._feed.put(Turn(seq=seq, batch=self._turns.batch, news=news, took=took))
        if seq >= self._fold_at_seq:
            self._fold_if_heard()
        elif self._board.num_stories >= STORIES_TOGETHER:
            self._archive_stories()

    def _post(self) -> TurnNews:
        news = self._board.post(self._core)
        for view in news.ended:
            self._folders.note_ended(view)
        return news

    def _fold_if_heard(self) -> bool:
        """Of what is folded no listener could be told after a kill."""
        is_heard = self._feed.is_heard_within(HEARD_WITHIN_S)
        if is_heard:
            self._fold()
        else:
            self._fold_at_seq = self._store.last_seq + FOLD_AGAIN_AFTER
        return is_heard

    def _fold(self) -> None:
        """What cannot be folded now, because the disk is full, stays in batches: they say the same."""
        ended, stories = self._board.drain()
        try:
            folded_seq = self._store.fold(self._core.save(), ended, stories)
        except Unwritable as error:
            log.warning("the journal is not folded: %s", error)
            self._fold_at_seq = self._store.last_seq + FOLD_AGAIN_AFTER
            return
        self._fold_at_seq = folded_seq + max(FOLD_AFTER, self._board.num_open)
        self._board.folded(ended)

    def _archive_stories(self) -> None:
        """Those that cannot be kept now wait for the next turn; a replay would tell them again."""
        try:
            self._store.add_stories(self._board.all_stories())
        except Unwritable as error:
            log.warning("stories are not archived: %s", error)
        else:
            self._board.forget_stories()

    def _answer_asked(self) -> None:
        """Do what other threads have asked for while the head stands."""
        while True:
            try:
                answer = self._asked.get_nowait()
            except Empty:
                return
            answer()

    def _is_over(self) -> bool:
        if not (self._is_open and self._is_stopping and self._core.is_draining):
            return False  # the journal of a platform killed while stopping still says that it drains
        is_late = self._drain_until_s is not None and self._clock.now_s() >= self._drain_until_s
        return self._core.is_idle or is_late

    # ------------------------------------------------------------ any thread
    def _hear(self, event: AnyEvent) -> None:
        """Of an executor."""
        event = msgspec.structs.replace(event, at_s=self._clock.of_boot_s(event.at_s))
        if isinstance(event, NodeWarned) and event.until_s is not None:
            event = msgspec.structs.replace(event, until_s=self._clock.of_boot_s(event.until_s))
        self._inbox.put(event)

    def now_s(self) -> float:
        """By the calendar, as the platform has it."""
        return self._calendar.time_of(self._clock.now_s())

    @property
    def _calendar(self) -> Calendar:
        return self._board.calendar

    def submit(
        self,
        spec: JobSpec,
        origin: Origin = PLAIN,
        max_open: int | None = None,
        count: Callable[[], None] = uncounted,
    ) -> SubmitResult:
        """The new job, or the one of an earlier submission with the same key, once the journal has it.

        Raises InvalidJob, KeyConflict, Unavailable; WrongPhase if it is to continue without a checkpoint;
        TooManyOpenJobs if its tenant would have more than `max_open` jobs that have not ended; whatever
        `count` does, which is called before there is a new job.
        """
        self._refuse_while_stalled()

        def checked(spec: JobSpec, in_flight: Collection[str]) -> JobSpec:
            spec = self._checked(spec)
            if max_open is not None:
                check_room(spec.tenant, {*in_flight, *self._board.open_of(spec.tenant)}, max_open)
            count()
            return spec

        return self._submitter.submit(spec, origin, checked)

    def _checked(self, spec: JobSpec) -> JobSpec:
        """The job as it is to be scheduled. Raises InvalidJob."""
        spec = with_kind(spec, self._board.devices_by_kind())
        check_job(spec, self._most_devices(spec), self._core.domain.sizes)
        return spec

    def _most_devices(self, spec: JobSpec) -> int:
        """Of its kind, that there are, or may ever be: where hosts may join, enough for any job."""
        kind = spec.kind
        own = sum(len(node.devices) for node in self._site.nodes if kind in ("", node.kind))
        ample = spec.devices_per_worker << spec.min_workers.bit_length() if self._site.hosts_may_join else 0
        return max(own, self._board.num_devices(kind), ample)

    def submission(self, job_id: str) -> JobSubmitted:
        """As the job was submitted. Raises UnknownJob."""
        found = self._store.submission(self._found(job_id).id)
        if found is None:
            raise UnknownJob(
                f"how job {job_id!r} was submitted is not known: it ended under an earlier version of Swell; "
                "submit it with `swell submit`"
            )
        return found

    def cancel(self, job_id: str) -> None:
        """Returns once the journal has it. Raises UnknownJob, Unavailable."""
        if self.job(job_id).finished_s is None:
            self._refuse_while_stalled()
            receipt = self._inbox.request(CancelRequested(at_s=self._clock.now_s(), job_id=job_id))
            result_of(receipt, f"job {job_id!r} may or may not be cancelled")

    def ask_deadline(self, job_id: str, deadline_s: float, accept_until_s: float | None = None) -> JobView:
        """Ask for another deadline of an open job, in calendar time; the job after the head's answer.

        One that is in its trial run is answered later: until then `asked_deadline_s` is set.

        Raises:
            UnknownJob, Unavailable, WrongPhase: the job has ended, or is being cancelled.
            InvalidJob: it cannot be strict.
        """
        view = self.job(job_id)
        check_promisable(view.name, view.elasticity)
        if view.phase.is_end:
            raise _ended(view)
        self._refuse_while_stalled()
        event = DeadlineChangeAsked(
            at_s=self._clock.now_s(), job_id=job_id, deadline_s=deadline_s, accept_until_s=accept_until_s
        )
        receipt = self._inbox.request(event)
        if not result_of(receipt, f"job {job_id!r} may or may not have another deadline"):
            raise _ended(self.job(job_id))
        return self.job(job_id)

    def jobs(self, query: JobQuery = EVERY_JOB, before: str = "") -> list[JobView]:
        """Jobs that match the query, oldest first, with calendar times.

        Args:
            before: id of a job; only jobs that were submitted earlier. Empty: all.

        Raises:
            UnknownJob: there is no job `before`.
        """
        calendar = self._calendar
        query = msgspec.structs.replace(
            self._in_head_time(query), before=place(self._found(before)) if before else None
        )
        recent = {view.id: view for view in self._board.jobs(query.matches, query.limit)}
        has_ended_ones = not query.phases or any(phase.is_end for phase in query.phases)
        old = self._store.archive.find(query) if has_ended_ones else []
        found = newest([*recent.values(), *(view for view in old if view.id not in recent)], query.limit)
        return [shown_job(view, calendar) for view in found]

    def history(self, query: JobQuery, period_s: float | None, origin_s: float) -> JobHistory:
        """Ended jobs that match the query, added up by the time of their end."""
        return add_up(self._board, self._store.archive, self._in_head_time(query), period_s, origin_s)

    def _in_head_time(self, query: JobQuery) -> JobQuery:
        offset_s, since_s, until_s = self._calendar.offset_s, query.since_s, query.until_s
        return msgspec.structs.replace(
            query,
            since_s=None if since_s is None else since_s - offset_s,
            until_s=None if until_s is None else until_s - offset_s,
        )

    def candidates(self, wanted: str) -> list[JobView]:
        """The job with this id; else the newest with this name; else a few whose ids begin with it."""
        calendar = self._calendar
        return [shown_job(view, calendar) for view in self._candidates(wanted)]

    def _candidates(self, wanted: str) -> list[JobView]:
        archive = self._store.archive
        if exact := self._board.job(wanted) or archive.job(wanted):
            return [exact]
        newest_named = [*self._board.jobs(lambda view: view.name == wanted, 1), archive.named(wanted)]
        if named := [view for view in newest_named if view is not None]:
            return newest(named, 1)
        begun = self._board.jobs(lambda view: view.id.startswith(wanted), NUM_CANDIDATES)
        begun += archive.begun(wanted, NUM_CANDIDATES)
        return list({view.id: view for view in begun}.values())[:NUM_CANDIDATES]

    def count_jobs(self) -> dict[Phase, int]:
        """Number of jobs in each phase, including archived jobs."""
        return dict(self._board.count() + Counter(self._store.archive.count()))

    def job(self, job_id: str) -> JobView:
        """The job, with calendar times. Raises UnknownJob."""
        return shown_job(self._found(job_id), self._calendar)

    def _found(self, job_id: str) -> JobView:
        """In head time. Raises UnknownJob."""
        view = self._board.job(job_id) or self._store.archive.job(job_id)
        if view is None and self._store.pruned_s(job_id) is not None:
            raise UnknownJob(f"job {job_id!r} has ended and was pruned: nothing of it is kept")
        if view is None:
            raise UnknownJob(f"there is no job {job_id!r}; `swell jobs` lists all jobs")
        return view

    def stories(self, job_id: str) -> list[Story]:
        """The history of the job's decisions, oldest first. Raises UnknownJob."""
        self.job(job_id)
        # The board first, for what leaves it is in the archive. A restart tells again what came after the
        # last fold, and some of that may be in the archive too.
        calendar, late = self._calendar, self._board.stories(job_id)
        told = dict.fromkeys([*self._store.stories(job_id), *late])
        return [shown_story(story, calendar) for story in told]

    def changes(self, since: int, also: Iterable[str] = ()) -> BoardChanges:
        """What became of jobs after a turn, with calendar times; see `ViewBoard.changes`."""
        calendar, found = self._calendar, self._board.changes(since, also)
        return found._replace(
            views=[shown_job(view, calendar) for view in found.views],
            stories=[(job_id, shown_story(story, calendar)) for job_id, story in found.stories],
        )

    def metrics(
        self, job_id: str, names: Collection[str] = (), since_s: float | None = None
    ) -> MetricHistory:
        """What the job has reported, with calendar times. Raises UnknownJob.

        Args:
            names: only these; none: all.
            since_s: without points before this calendar time.
        """
        curves = self._store.curves(self._found(job_id).id, names)
        return metric_history(curves, self._calendar, since_s)

    def head_state(self) -> bytes:
        """All that the head remembers, as it stands (`PlatformCore.save`); asking changes nothing.

        Raises TimeoutError if the head does not come to the end of a turn.
        """
        return self._ask(self._core.save)

    def prune(self, request: PruneRequest) -> list[PrunedJob]:
        """Remove ended jobs; what was, or would be, freed. Raises UnknownJob, Unavailable."""
        calendar, before_s = self._calendar, request.ended_before_s
        if before_s is not None:
            request = msgspec.structs.replace(request, ended_before_s=before_s - calendar.offset_s)
        pruned = self._pruner.prune(request)
        return [msgspec.structs.replace(job, ended_s=calendar.time_of(job.ended_s)) for job in pruned]

    def _archive_all(self) -> None:
        """Jobs that have ended since the last fold go to the archive, if the journal can be written.

        Raises Unavailable.
        """
        if self._journal.why:
            return
        # Waited for here first, so that there is little left for which the head waits.
        if not (self._feed.is_heard_within(PRUNABLE_WITHIN_S) and self._ask(self._fold_if_heard)):
            raise Unavailable(
                "no job is pruned: what lately became of jobs is not yet written down for webhooks, as on a "
                "slow disk; try again"
            )

    def _ask(self, answer: Callable[[], _Answer]) -> _Answer:
        """What the head's thread answers between two turns. Raises TimeoutError."""
        asked: Future[_Answer] = Future()
        self._asked.put(lambda: asked.set_result(answer()))
        self._inbox.nudge()
        return asked.result(STATE_TIMEOUT_S)

    def _refuse_while_stalled(self) -> None:
        if self._journal.why:
            raise Unwritable(f"the platform stands still: {self._journal.why}; jobs that run train on")

    def log_dir(self, job_id: str) -> Path:
        """Folder of the job's log files. Raises UnknownJob."""
        return self._site.jobs_dir / self.job(job_id).id

    def cluster(self) -> ClusterView:
        """Nodes, holders of devices, disk space and warnings, after the last scheduling cycle."""
        nodes = self._nodes.views()
        owners = [owner for node in nodes for owner in node.devices.values()]
        free = [
            device for node in nodes if not node.leaving for device in node.devices.values() if not device
        ]
        space = space_of(self._site.jobs_dir)
        return ClusterView(
            version=__version__,
            policy=self._site.policy,
            now_s=self.now_s(),
            started_s=self._calendar.time_of(self._started_s),
            nodes=nodes,
            num_devices=len(owners),
            num_free=len(free),
            num_stale_reports=self._board.num_stale,
            journal_bytes=self._store.bytes_on_disk,
            clock_note=self._clock_note(),
            disk_free_bytes=space.free,
            disk_bytes=space.total,
            warnings=self._warnings(space.free, nodes),
            lost_nodes=self._nodes.lost(),
            hosts_may_join=self._site.hosts_may_join,
            engine=self._site.engine,
        )

    def measures(self) -> Measures:
        """What operators measure, after the last scheduling cycle."""
        posted_s, open_jobs = self._board.open_jobs()
        promised = [(view, expected_s) for view, expected_s in open_jobs if view.is_promised]
        now_s = max(posted_s, self._clock.now_s())
        return Measures(
            cluster=self.cluster(),
            jobs=Counter((view.phase, view.job_class) for view, _ in open_jobs),
            promises=Counter(state_of_promise(view, now_s, expected_s) for view, expected_s in promised),
            num_workers=sum(view.workers for view, _ in open_jobs),
            num_batches=self._store.last_seq,
            counts=self._tally.counts(),
            webhooks=WebhookCounts() if self._webhooks is None else self._webhooks.counts,
        )

    def node(self, name: str) -> NodeView:
        """Raises UnknownNode."""
        return self._nodes.named(name)

    def drain_node(self, name: str) -> NodeView:
        """See `SiteNodes.drain`."""
        self._refuse_while_stalled()
        return self._nodes.drain(name)

    def undrain_node(self, name: str) -> NodeView:
        """See `SiteNodes.undrain`."""
        self._refuse_while_stalled()
        return self._nodes.undrain(name)

    def remove_node(self, name: str, is_forced: bool = False) -> NodeView:
        """See `SiteNodes.remove`."""
        self._refuse_while_stalled()
        return self._nodes.remove(name, is_forced)

    def _clock_note(self) -> str:
        """A step of the machine's clock, while a job is open whose deadline has moved by it or may yet."""
        if ahead_s := self._watch.ahead_s:
            return suspected(ahead_s)
        calendar = self._calendar
        stepped_s = calendar.stepped_s
        if stepped_s is None or not self._board.has_deadline_from_before(stepped_s):
            return ""
        return followed(calendar.step_s, self._clock.now_s() - stepped_s)

    def _warnings(self, free_bytes: int, nodes: Sequence[NodeView]) -> dict[str, str]:
        warnings = {}
        if lacks := [lack for lack in (self._executor.lack, self._lack_of_neighbours(nodes)) if lack]:
            warnings[ABOUT_SHARES] = "; ".join(lacks)
        if self._core.makes_promises and (crowded := [node for node in nodes if _is_crowded(node)]):
            warnings[ABOUT_PROMISES] = _told_of_whole_cores(self._site.policy, crowded)
        if notices := self._store.notices:
            warnings["journal file"] = "; ".join(notices)
        if self._journal.why:
            warnings["journal"] = f"the platform stands still, jobs that run train on: {self._journal.why}"
        if free_bytes < (limit := self._site.retention.min_free_bytes):
            warnings["disk"] = (
                f"only {format_bytes(free_bytes)} are free on the disk of {self._site.jobs_dir.parent}, "
                f"less than min_free_bytes={limit}: make room, as with `swell prune`, or lower the setting"
            )
        return warnings

    def _lack_of_neighbours(self, nodes: Sequence[NodeView]) -> str:
        """Why a policy that divides cores divides none; empty: it does, or is no such policy."""
        if any(map(_is_crowded, nodes)) or not nodes or not self._core.domain.shares_cores:
            return ""
        return (
            f"policy {self._site.policy} divides the cores that jobs of a node share, and here each device "
            "has a core of its own: shares change nothing while a worker uses one core; give `swell up` more "
            "devices than cores, as --devices cpu:4 --cores 2"
        )

    def stop(self) -> None:
        """Suspend every job, then let `run` return. Returns once the journal has it. Raises Unavailable."""
        self._is_stopping = True
        self._journal.stop()
        receipt = self._inbox.request(DrainRequested(at_s=self._clock.now_s()))
        result_of(receipt, "the platform may or may not stop")


def _is_open(view: JobView) -> bool:
    return not view.phase.is_end


def _is_crowded(node: NodeView) -> bool:
    return node.cores is not None and node.cores < len(node.devices)


def _told_of_whole_cores(policy: str, crowded: Sequence[NodeView]) -> str:
    """What becomes of slots beyond the cores where deadlines are promised."""
    num_slots = sum(len(node.devices) for node in crowded)
    num_whole = sum(max(1, math.floor(node.cores or 0.0)) for node in crowded)
    return (
        f"policy {policy} promises deadlines, and {num_slots} devices share fewer cores: while a deadline is "
        f"promised, {num_whole} of them are used, so that each worker has a core; else all are"
    )


def check_room(tenant: str, open_jobs: Collection[str], max_open: int) -> None:
    """Raises TooManyOpenJobs if a tenant with these jobs cannot have another one."""
    if len(open_jobs) >= max_open:
        raise TooManyOpenJobs(
            f"tenant {tenant!r} may have {max_open} jobs that have not ended, and has {len(open_jobs)}: wait "
            "for one to end, cancel one (`swell cancel`), or ask the operator for a higher limit "
            f"(`swell tenants limit {tenant} --open-jobs N`)"
        )


def check_job(spec: JobSpec, num_devices: int, sizes: Sizes) -> None:
    """Raises InvalidJob if the job could not run on so many devices were they all its own, or be promised."""
    needed = spec.min_workers * spec.devices_per_worker
    if needed > num_devices:
        raise InvalidJob(
            f"job {spec.name!r} asks for at least {needed} devices but the cluster has {num_devices}; "
            "lower its smallest number of workers or add nodes"
        )
    if job_sizes(spec, num_devices, sizes).size == 0:
        raise InvalidJob(
            f"job {spec.name!r} asks for {spec.min_workers} workers or more; the policy gives {sizes.value} "
            f"and none so large fits on {num_devices} devices with a sample of the batch for each worker: "
            "lower its smallest number of workers or add nodes"
        )
    if spec.job_class is JobClass.STRICT:
        check_promisable(spec.name, spec.elasticity)


def check_promisable(name: str, elasticity: Elasticity) -> None:
    """Raises InvalidJob for a job to which nothing can be promised."""
    if elasticity is Elasticity.RESTART:
        raise InvalidJob(
            f"job {name!r} cannot be strict: a promise needs progress reports, and a script that "
            "does not use swell.train makes none; use class soft, or swell.train.elastic in the script"
        )


def _ended(view: JobView) -> WrongPhase:
    state = f"is {view.phase}" if view.phase.is_end else "is being cancelled"
    remedy = f"submit it again with `swell retry {view.id} --deadline TIME`"
    return WrongPhase(f"job {view.id!r} {state}, and has no other deadline; {remedy}")
