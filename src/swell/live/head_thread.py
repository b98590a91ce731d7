"""The thread of the head of a platform: from where the journal ends until every job has left its devices."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

import msgspec

from swell.core.loop import run
from swell.core.platform_core import PlatformCore
from swell.live.board import ViewBoard
from swell.live.clock import HeadClock, SystemClocks
from swell.live.counters import Counters
from swell.live.device_demand import DeviceDemand
from swell.live.folding import JournalFolds, finish
from swell.live.inbox import Inbox
from swell.live.poison import PoisonGuard
from swell.live.ports import Executor
from swell.live.predecessors import FollowerWatch
from swell.live.quota_watch import QuotaWatch
from swell.live.recovery import differences, explained_jobs, load, replay
from swell.live.retrying_journal import RetryingJournal
from swell.live.site import Site
from swell.live.turns import Turn, TurnNews, TurnUnderWay
from swell.live.webhooks import Webhooks
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, StopGang, WakeAt
from swell.model.event import (
    AnyEvent,
    DrainRequested,
    NodeEndKnown,
    NodeWarned,
    Opened,
    Outcome,
    ProfilingFailed,
    Woke,
)
from swell.model.quota import Quotas
from swell.model.running import RunningWork
from swell.model.view import JobView
from swell.store.journal import JournalHistory, SqlJournal

#: `down` waits so long for checkpoints before it ends the processes anyway.
DRAIN_S = 60.0

log = logging.getLogger("swell.platform")


class HeadThread:
    """Ties the head to its world: it is all that the scheduler's loop (`core.loop.run`) works on.

    Args:
        tell: hears why the platform stands still, and an empty text when it goes on.
        webhooks: None: nothing is told to any address.
        read_quotas: see `QuotaWatch`.
    """

    def __init__(
        self,
        site: Site,
        core: PlatformCore,
        store: SqlJournal,
        executor: Executor,
        tell: Callable[[str], None],
        system_clocks: SystemClocks | None,
        webhooks: Webhooks | None,
        read_quotas: Callable[[], Quotas],
    ) -> None:
        self._site, self._core, self._store, self._executor = site, core, store, executor
        self.webhooks = webhooks or Webhooks(store)
        self.clock = HeadClock(system_clocks)
        self.quotas = QuotaWatch(read_quotas)
        self.inbox, self.board, self.counters = Inbox(self.clock), ViewBoard(), Counters()
        self.journal = RetryingJournal(store, tell)
        self.started_s = self.clock.now_s()  #: head time
        self._folds = JournalFolds(core, store, self.board)
        self._guard = PoisonGuard(core, store, self.journal)
        self._followers = FollowerWatch(self._found, self.inbox.put, self.clock.now_s)
        self._demand = DeviceDemand()
        self._is_stopping = False
        self._is_open = False  #: the first turn is over, and so it is known that this platform is up
        self._drain_until_s: float | None = None
        self._wake_s: float | None = None
        self._turn: TurnUnderWay | None = None

    def recover(self, history: JournalHistory) -> None:
        """Bring the head to where the journal ends, and the clock to the time that has passed since."""
        load(self._core, history.state)
        began_s = time.thread_time()
        self.webhooks.begin(self.board.open_jobs, self.clock.now_s, lambda: self.board.calendar)
        self.board.post(self._core, TurnNews.of(self._core))
        for entry, commands in replay(self._core, history.entries, self._guard.mend):
            news = TurnNews.of(self._core)
            finish(self.journal, entry.seq, commands, news, self.webhooks)
            self.board.post(self._core, news)
        self._folds.begin(history.seq, time.thread_time() - began_s)
        self.clock.go_on(self._core.calendar, self._core.now_s)
        self.started_s = self.clock.now_s()
        self.counters.begin(self.board.jobs(), self._core.calendar, self.board.warned)

    def start(self) -> None:
        """Attach to the machines, and put what is found there before the head: `run` is to follow."""
        now_s = self.clock.now_s()
        work = self._executor.start(self._hear)
        self.inbox.put(self._opened())
        for event in differences(self._core, self._site.nodes, work, now_s):
            self.inbox.put(event)
        self._followers.note(self.board.jobs(_is_follower), ())
        self._demand.note(self.board.jobs(), ())
        self._executor.want_devices(self._demand.num_devices)
        self._repeat(work)

    def _repeat(self, work: RunningWork) -> None:
        """What was commanded and not answered; and the end of trial runs whose answer is of no use."""
        commands, alive = self._core.under_way(), explained_jobs(self._core, work)
        for command in commands:
            if not isinstance(command, LaunchGang) or command.job_id in alive:
                self.perform(command)
        awaited = {command.job_id for command in commands if isinstance(command, ProfileJob)}
        for job_id in work.trials:
            if job_id not in awaited:
                self.perform(StopGang(job_id=job_id, generation=0))

    def run(self) -> None:
        """Until the platform has been asked to stop and every job has left its devices."""
        self.webhooks.start()
        try:
            run(self, self, self)
        finally:
            self.inbox.close()
            self.webhooks.stop()
        self._folds.fold()

    def _opened(self) -> Opened:
        return Opened(
            at_s=self.started_s,
            policy=self._site.policy,
            boot_id=self.clock.boot_id,
            boot_offset_s=self.clock.boot_offset_s,
            calendar_offset_s=self.clock.calendar_offset_s,
            kinds=tuple(dict.fromkeys(node.kind for node in self._site.nodes)),
        )

    # ------------------------------------------------------------ the scheduler's loop
    def next_events(self) -> Sequence[AnyEvent]:
        """All that is due. Before it waits, the turn that is over is brought to its end."""
        if self._turn is not None:
            self._end_turn(self._turn)
            self._turn = None
        while not self._is_over():
            self.inbox.answer_all()
            if batch := self._take():
                return batch
        return ()

    def _take(self) -> list[AnyEvent]:
        """Wait for events, and look what else the head is to hear: once in LOOK_EVERY_S at least."""
        dues_s = [due_s for due_s in (self._wake_s, self._drain_until_s) if due_s is not None]
        batch = self.inbox.take(min(dues_s) if dues_s else None)
        now_s = self.clock.now_s()
        if self._wake_s is not None and now_s >= self._wake_s:
            self._wake_s = None
            batch.append(Woke(at_s=now_s))
        news = (self.clock.look(), self.quotas.look(self._core.quotas, self.clock.now_s()))
        return [*batch, *(event for event in news if event is not None)]

    def append(self, batch: Sequence[AnyEvent]) -> None:
        """Keep the batch: a turn begins."""
        self._turn = TurnUnderWay(batch, begun_s=time.perf_counter())
        self.journal.append(batch)
        self._turn.written_s = time.perf_counter()

    def handle(self, batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        """Decide what follows."""
        turn, computed_s = self._turn or TurnUnderWay(batch), time.thread_time()
        turn.commands = self._guard.handle(batch)
        turn.computed_s, turn.decided_s = time.thread_time() - computed_s, time.perf_counter()
        return turn.commands

    def perform(self, command: AnyCommand) -> None:
        """Begin what was commanded, in this turn or in one of long ago, whose answer is still out."""
        if isinstance(command, WakeAt):
            self._wake_s = command.at_s  # only the latest request counts
        else:
            self._executor.perform(command)

    def _end_turn(self, turn: TurnUnderWay) -> None:
        """Keep and show what came of the turn, and let go of what is now safe in the journal."""
        self._is_open = True
        news = TurnNews.of(self._core)
        new = finish(self.journal, self._store.last_seq, turn.commands, news, self.webhooks)
        self.board.post(self._core, news)
        self._followers.note(news.changed, news.ended)
        if self._demand.note(news.changed, news.ended):
            self._executor.want_devices(self._demand.num_devices)
        self.inbox.settle(self._core.ignored)
        self._executor.acknowledge()
        if self._is_stopping and self._core.is_draining and self._drain_until_s is None:
            self._drain_until_s = self.clock.now_s() + DRAIN_S
        for message in new:
            self.webhooks.add(message)
        self.counters.hear(Turn(batch=turn.batch, news=news, took=turn.took(time.perf_counter())))
        log_lost_trials(turn.batch)
        self._folds.end_turn(turn.computed_s)

    def _found(self, job_id: str) -> JobView | None:
        return self.board.job(job_id) or self._store.job(job_id)

    def _is_over(self) -> bool:
        if not (self._is_open and self._is_stopping and self._core.is_draining):
            return False  # the journal of a platform killed while stopping still says that it drains
        is_late = self._drain_until_s is not None and self.clock.now_s() >= self._drain_until_s
        return self._core.is_idle or is_late

    # ------------------------------------------------------------ any thread
    def _hear(self, event: AnyEvent) -> None:
        """Put an event of an executor into the inbox, its times converted to head time."""
        event = msgspec.structs.replace(event, at_s=self.clock.of_boot_s(event.at_s))
        if isinstance(event, NodeWarned | NodeEndKnown) and event.until_s is not None:
            event = msgspec.structs.replace(event, until_s=self.clock.of_boot_s(event.until_s))
        self.inbox.put(event)

    def stop(self) -> None:
        """Suspend every job, then let `run` return. Returns once the journal has it. Raises Unavailable."""
        self._is_stopping = True
        self.journal.stop()
        self.inbox.ask(DrainRequested(at_s=self.clock.now_s()), "the platform may or may not stop")


def log_lost_trials(batch: Sequence[AnyEvent]) -> None:
    """Trial runs that were lost are tried again, and no job's page keeps them: a line in the log does."""
    for event in batch:
        if isinstance(event, ProfilingFailed) and event.outcome is Outcome.LOST and not event.is_taken:
            log.warning("the trial run of %s was lost: %s", event.job_id, event.message.strip())


def _is_follower(view: JobView) -> bool:
    return bool(view.awaits)
