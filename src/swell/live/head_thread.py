"""The thread of the head of a platform: from where the journal ends until every job has left its devices."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from swell.core.loop import run
from swell.core.platform_core import PlatformCore
from swell.live.board import TurnNews, ViewBoard
from swell.live.clock import HeadClock, SystemClocks
from swell.live.counters import Counters, Turn
from swell.live.head_journal import HeadJournal
from swell.live.inbox import Inbox
from swell.live.job_lookup import JobLookup
from swell.live.poison import PoisonGuard
from swell.live.pruning import Retention
from swell.live.recovery import differences, explained_jobs
from swell.live.watches import DeviceDemand, FollowerWatch, QuotaWatch
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
from swell.model.node import Node
from swell.model.quota import Quotas
from swell.model.running import RunningWork
from swell.model.view import JobView
from swell.store.journal import JournalHistory, SqlJournal

#: `down` waits so long for checkpoints before it ends the processes anyway.
DRAIN_S = 60.0

log = logging.getLogger("swell.platform")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where and what a platform is."""

    jobs_dir: Path
    policy: str
    nodes: Sequence[Node]  #: of the platform's own machine
    retention: Retention = field(default_factory=Retention)
    hosts_may_join: bool = False  #: from other machines
    engine: str = ""  #: see `ClusterView`
    no_nodes: str = ""  #: likewise


class Executor(Protocol):
    """What starts and stops processes, which outlive the daemon."""

    def start(self, deliver: Callable[[AnyEvent], None]) -> RunningWork:
        """Begin, or adopt what runs, and tell what that is.

        Events are delivered with CLOCK_BOOTTIME of this machine as `at_s`.
        """

    def perform(self, command: AnyCommand) -> None:
        """Begin it and return; what comes of it is an event."""

    def acknowledge(self) -> None:
        """All that was delivered and handled so far is in the journal."""

    def remove_host(self, name: str) -> None:
        """Have a host that has joined end its workers and leave; `NodeLost` follows."""

    def want_devices(self, num: int) -> None:
        """Say how many devices open jobs could use together. Called when that number changes."""

    @property
    def lack(self) -> str:
        """What it cannot do of what was asked for, for people; empty: nothing."""


class HeadThread:
    """Ties the head to its world: it is all that the scheduler's loop (`core.loop.run`) works on.

    Args:
        tell: hears why the platform stands still, and an empty text when it goes on.
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
        webhooks: Webhooks,
        read_quotas: Callable[[], Quotas],
    ) -> None:
        self._site, self._core, self._executor, self._webhooks = site, core, executor, webhooks
        self.clock, self.quotas = HeadClock(system_clocks), QuotaWatch(read_quotas)
        self.inbox, self.board, self.counters = Inbox(self.clock), ViewBoard(), Counters()
        self.journal = HeadJournal(store, webhooks, tell)
        self.started_s = self.clock.now_s()  #: head time
        self._guard = PoisonGuard(core, self.journal)
        self._followers, self._demand = FollowerWatch(JobLookup(self.board, store).find), DeviceDemand()
        self._is_stopping = False
        self._is_open = False  #: the first turn is over, and so it is known that this platform is up
        self._drain_until_s: float | None = None
        self._wake_s: float | None = None
        self._turn: Turn | None = None

    def recover(self, history: JournalHistory) -> None:
        """Bring the head to where the journal ends, and the clock to the time that has passed since."""
        board, recovered = self.board, self._guard.recover(history)
        self._webhooks.begin(board.open_jobs, self.clock.now_s, lambda: board.calendar)
        board.post(next(recovered))
        began_s = time.thread_time()
        for news in recovered:
            board.post(news)
        self.journal.begin(history.seq, time.thread_time() - began_s, board.num_open)
        self.clock.go_on(board.calendar, self._core.now_s)
        self.started_s = self.clock.now_s()
        self.counters.begin(board.views(), board.calendar, board.latest.warned)

    def start(self) -> None:
        """Attach to the machines, and put what is found there before the head: `run` is to follow."""
        now_s = self.clock.now_s()
        work = self._executor.start(self._hear)
        self.inbox.put(self._opened())
        for event in differences(self._core, self._site.nodes, work, now_s):
            self.inbox.put(event)
        self._watch(self.board.views(), ())
        self._executor.want_devices(self._demand.num_devices)
        self._repeat(work)

    def _watch(self, changed: Sequence[JobView], ended: Sequence[JobView]) -> bool:
        """Put before the head what jobs are to hear that follow others; whether other devices are wanted."""
        for event in self._followers.look(changed, ended, self.clock.now_s()):
            self.inbox.put(event)
        return self._demand.note(changed, ended)

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
        self._webhooks.start()
        try:
            run(self, self, self)
        finally:
            self.inbox.close()
            self._webhooks.stop()
        self.journal.fold(self._core.save, self.board.num_open)

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
        self._turn = Turn(batch=batch, begun_s=time.perf_counter())
        self.journal.append(batch)
        self._turn.written_s = time.perf_counter()

    def handle(self, batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        """Decide what follows."""
        turn, computed_s = self._turn or Turn(batch=batch), time.thread_time()
        turn.commands = self._guard.handle(batch)
        turn.computed_s, turn.decided_s = time.thread_time() - computed_s, time.perf_counter()
        return turn.commands

    def perform(self, command: AnyCommand) -> None:
        """Begin what was commanded, in this turn or in one of long ago, whose answer is still out."""
        if isinstance(command, WakeAt):
            self._wake_s = command.at_s  # only the latest request counts
        else:
            self._executor.perform(command)

    def _end_turn(self, turn: Turn) -> None:
        """Keep and show what came of the turn, and let go of what is now safe in the journal."""
        self._is_open = True
        turn.news = news = TurnNews.of(self._core)
        new = self.journal.finish(self.journal.store.last_seq, turn.commands, news)
        self.board.post(news)
        if self._watch(news.changed, news.ended):
            self._executor.want_devices(self._demand.num_devices)
        self.inbox.settle(self._core.ignored)
        self._executor.acknowledge()
        if self._is_stopping and self._core.is_draining and self._drain_until_s is None:
            self._drain_until_s = self.clock.now_s() + DRAIN_S
        for message in new:
            self._webhooks.add(message)
        turn.ended_s = time.perf_counter()
        self.counters.hear(turn)
        log_lost_trials(turn.batch)
        if self.journal.is_fold_due(turn.computed_s):
            self.journal.fold(self._core.save, self.board.num_open)

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
