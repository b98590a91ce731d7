"""The thread of the head of a platform: from where the journal ends until every job has left its devices."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from swell.core.loop import run
from swell.core.platform_core import PlatformCore
from swell.live.board import ViewBoard
from swell.live.clock import HeadClock
from swell.live.clock_watch import ClockWatch
from swell.live.counters import Counters
from swell.live.device_demand import DeviceDemand
from swell.live.folding import JournalFolds, finish
from swell.live.head_questions import HeadQuestions
from swell.live.inbox import Inbox
from swell.live.job_folders import JobFolders
from swell.live.poison import PoisonGuard
from swell.live.ports import Executor, History
from swell.live.predecessors import FollowerWatch
from swell.live.pruning import Pruner
from swell.live.quota_watch import QuotaWatch
from swell.live.recovery import differences, explained_jobs, load, replay
from swell.live.retrying_journal import RetryingJournal
from swell.live.site import Site
from swell.live.turns import TimedTurns, Turn, TurnNews
from swell.live.webhooks.webhooks import Webhooks
from swell.live.world import LiveWorld
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, StopGang
from swell.model.event import (
    AnyEvent,
    DrainRequested,
    NodeEndKnown,
    NodeWarned,
    Opened,
    Outcome,
    ProfilingFailed,
    QuotasSet,
)
from swell.model.running import RunningWork
from swell.model.view import JobView
from swell.store.journal import SqlJournal

#: `down` waits so long for checkpoints before it ends the processes anyway.
DRAIN_S = 60.0

log = logging.getLogger("swell.platform")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadParts:
    """What the head's thread shares with other threads."""

    site: Site
    core: PlatformCore
    store: SqlJournal
    executor: Executor
    clock: HeadClock
    watch: ClockWatch
    quotas: QuotaWatch
    inbox: Inbox
    board: ViewBoard
    folders: JobFolders
    journal: RetryingJournal
    counters: Counters
    webhooks: Webhooks | None
    folds: JournalFolds
    questions: HeadQuestions
    pruner: Pruner


class HeadThread:
    """Ties the head to its world."""

    def __init__(self, parts: HeadParts) -> None:
        self._site, self._core, self._store = parts.site, parts.core, parts.store
        self._clock, self._watch, self._inbox = parts.clock, parts.watch, parts.inbox
        self._executor, self._board, self._quotas = parts.executor, parts.board, parts.quotas
        self._folders, self._journal, self._counters = parts.folders, parts.journal, parts.counters
        self._webhooks, self._pruner = parts.webhooks, parts.pruner
        self._folds, self._questions = parts.folds, parts.questions
        self.started_s = self._clock.now_s()  #: head time
        self._is_stopping = False
        self._is_open = False  #: the first turn is over, and so it is known that this platform is up
        self._drain_until_s: float | None = None
        self._world = LiveWorld(
            self._inbox,
            self._clock,
            self._watch,
            self._executor,
            self._end_turn,
            self._is_over,
            lambda: self._drain_until_s,
            self._questions.answer_all,
            self._look_at_quotas,
        )
        self._turns = TimedTurns(self._world, self._journal)
        self._guard = PoisonGuard(self._core, self._store, self._journal)
        self._followers = FollowerWatch(self._found, self._inbox.put, self._clock.now_s)
        self._demand = DeviceDemand()

    def recover(self, history: History) -> None:
        """Bring the head to where the journal ends, and the clock to the time that has passed since."""
        load(self._core, history.state)
        began_s = time.thread_time()
        if self._webhooks is not None:
            self._webhooks.begin(self._board.open_jobs, self._clock.now_s, lambda: self._board.calendar)
        self._board.post(self._core, TurnNews.of(self._core))
        for entry, commands in replay(self._core, history.entries, self._guard.mend):
            news = TurnNews.of(self._core)
            finish(self._journal, entry.seq, commands, news, self._webhooks)
            self._board.post(self._core, news)
        self._folds.begin(history.seq, time.thread_time() - began_s)
        self._clock.go_on(self._core.calendar, self._core.now_s)
        self._watch.begin(self._core.calendar.offset_s)
        self.started_s = self._clock.now_s()
        self._counters.begin(self._board.jobs(), self._core.calendar, self._board.warned)

    def start(self) -> None:
        """Attach to the machines, and put what is found there before the head: `run` is to follow."""
        now_s = self._clock.now_s()
        work = self._executor.start(self._hear)
        self._inbox.put(self._opened())
        for event in differences(self._core, self._site.nodes, work, now_s):
            self._inbox.put(event)
        self._followers.note(self._board.jobs(_is_follower), ())
        self._demand.note(self._board.jobs(), ())
        self._executor.want_devices(self._demand.num_devices)
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
        if self._webhooks is not None:
            self._webhooks.start()
        try:
            run(self._turns, self._turns, self._guard)
        finally:
            self._inbox.close()
            self._pruner.stop()
            if self._webhooks is not None:
                self._webhooks.stop()
        self._folds.fold()

    def _opened(self) -> Opened:
        return Opened(
            at_s=self.started_s,
            policy=self._site.policy,
            boot_id=self._clock.boot_id,
            boot_offset_s=self._clock.boot_offset_s,
            calendar_offset_s=self._watch.offset_s,
            kinds=tuple(dict.fromkeys(node.kind for node in self._site.nodes)),
        )

    def _end_turn(self, commands: Sequence[AnyCommand]) -> None:
        """Keep and show what came of the turn, and let go of what is now safe in the journal."""
        self._is_open = True
        news = TurnNews.of(self._core)
        new = finish(self._journal, self._store.last_seq, commands, news, self._webhooks)
        self._board.post(self._core, news)
        self._followers.note(news.changed, news.ended)
        if self._demand.note(news.changed, news.ended):
            self._executor.want_devices(self._demand.num_devices)
        self._inbox.settle(self._core.ignored)
        self._executor.acknowledge()
        if self._is_stopping and self._core.is_draining and self._drain_until_s is None:
            self._drain_until_s = self._clock.now_s() + DRAIN_S
        if self._webhooks is not None:
            self._webhooks.send(new)
        turn = Turn(batch=self._turns.batch, news=news, took=self._turns.took())
        self._counters.hear(turn)
        log_lost_trials(turn.batch)
        self._folds.end_turn(turn.took.computed_s)

    def _found(self, job_id: str) -> JobView | None:
        return self._board.job(job_id) or self._store.archive.job(job_id)

    def _look_at_quotas(self) -> QuotasSet | None:
        return self._quotas.look(self._core.quotas, self._clock.now_s())

    def _is_over(self) -> bool:
        if not (self._is_open and self._is_stopping and self._core.is_draining):
            return False  # the journal of a platform killed while stopping still says that it drains
        is_late = self._drain_until_s is not None and self._clock.now_s() >= self._drain_until_s
        return self._core.is_idle or is_late

    # ------------------------------------------------------------ any thread
    def _hear(self, event: AnyEvent) -> None:
        """Put an event of an executor into the inbox, its times converted to head time."""
        event = msgspec.structs.replace(event, at_s=self._clock.of_boot_s(event.at_s))
        if isinstance(event, NodeWarned | NodeEndKnown) and event.until_s is not None:
            event = msgspec.structs.replace(event, until_s=self._clock.of_boot_s(event.until_s))
        self._inbox.put(event)

    def stop(self) -> None:
        """Suspend every job, then let `run` return. Returns once the journal has it. Raises Unavailable."""
        self._is_stopping = True
        self._journal.stop()
        self._inbox.ask(DrainRequested(at_s=self._clock.now_s()), "the platform may or may not stop")


def log_lost_trials(batch: Sequence[AnyEvent]) -> None:
    """Trial runs that were lost are tried again, and no job's page keeps them: a line in the log does."""
    for event in batch:
        if isinstance(event, ProfilingFailed) and event.outcome is Outcome.LOST and not event.is_taken:
            log.warning("the trial run of %s was lost: %s", event.job_id, event.message.strip())


def _is_follower(view: JobView) -> bool:
    return bool(view.awaits)
