"""The thread of the head of a platform: from where the journal ends until every job has left its devices.

Events wait in its inbox until it has time for them, and are in the journal before the head handles them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from swell.core.loop import run
from swell.core.platform_core import PlatformCore
from swell.live.board import TurnResult, ViewBoard
from swell.live.clock import HeadClock, LocalClock
from swell.live.counters import PlatformCounts, Turn
from swell.live.head_journal import HeadJournal
from swell.live.head_queue import HeadQueue
from swell.live.news import NewsSource, node_news
from swell.live.pruning import HistoryLimits
from swell.live.recovery import BatchGuard, changes_again, differences, explained_jobs
from swell.live.watches import AfterWatch, DeviceDemand, FaultWatch, JoinTests, QuotaWatch
from swell.live.webhooks import Webhooks
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, StopGang, WakeAt
from swell.model.errors import Unavailable
from swell.model.event import (
    AnyEvent,
    DrainRequested,
    NodeEndKnown,
    NodeWarned,
    Opened,
    Outcome,
    ProfilingFailed,
    RunningWork,
    Woke,
)
from swell.model.node import Node
from swell.model.quota import Claims
from swell.model.usage import DeviceReading
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
    retention: HistoryLimits = field(default_factory=HistoryLimits)
    hosts_may_join: bool = False  #: from other machines
    longest_time_s: float = 0.0  #: that a fixed job may ask for; 0: no limit
    session_devices: int = 0  #: that the sessions of a user have together; 0: half of what is there
    engine: str = ""  #: see `ClusterView`
    no_nodes: str = ""  #: likewise


class Executor(Protocol):
    """What starts and stops processes, which outlive the daemon."""

    def start(
        self, deliver: Callable[[AnyEvent], None], replaced: Callable[[RunningWork], None]
    ) -> RunningWork:
        """Begin, or adopt what runs, and tell what that is.

        Args:
            deliver: is called with events, which have CLOCK_BOOTTIME of this machine as `at_s`.
            replaced: is called when what ran the processes was killed and another has taken its place, with
                what runs there: as if started again. From then on nothing is begun, and nothing of the other
                one is delivered, until `perform_again`.
        """

    def perform_again(self, commands: Iterable[AnyCommand], work: RunningWork) -> None:
        """Begin these, which are all that were not answered, where `work` was found; others are forgotten."""

    def perform(self, command: AnyCommand) -> None:
        """Begin it and return; what comes of it is an event."""

    def acknowledge(self) -> None:
        """All that was delivered and handled so far is in the journal."""

    def remove_host(self, name: str) -> None:
        """Have a host that has joined end its workers and leave; `NodeLost` follows."""

    def test_node(self, name: str, devices: Sequence[str]) -> None:
        """Have the devices of a node tested on its host; `NodeTested` follows. No effect during a test."""

    def device_readings(self) -> Mapping[str, DeviceReading]:
        """What devices do now, by their ids, as far as it is known."""

    def want_devices(self, num: int) -> None:
        """Say how many devices open jobs could use together. Called when that number changes."""


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
        system_clocks: LocalClock | None,
        webhooks: Webhooks,
        read_quotas: Callable[[], Claims],
    ) -> None:
        self._site, self._core, self._executor, self._webhooks = site, core, executor, webhooks
        self.clock, self.quotas = HeadClock(system_clocks), QuotaWatch(read_quotas)
        self.inbox, self.board, self.counters = HeadQueue(self.clock), ViewBoard(), PlatformCounts()
        self.journal = HeadJournal(store, webhooks, tell)
        self.started_s = self.clock.now_s()  #: head time
        self._guard = BatchGuard(core, store, self.journal.amend)
        self._followers = AfterWatch(lambda job_id: self.board.job(job_id) or store.job(job_id))
        self._demand, self._faults = DeviceDemand(), FaultWatch()
        self._join_tests = JoinTests(site.nodes)
        self._is_stopping = False
        self._is_open = False  #: the first turn is over, and so it is known that this platform is up
        self._drain_until_s: float | None = None
        self._wake_s: float | None = None
        self._turn: Turn | None = None

    def recover(self, history: JournalHistory) -> None:
        """Bring the head to where the journal ends, and the clock to the time that has passed since."""
        board, recovered = self.board, self.journal.recover(self._core, history)
        self._webhooks.news.source = NewsSource(
            now_s=self.clock.now_s,
            calendar=lambda: board.calendar,
            open_jobs=board.open_jobs,
            ended_jobs=self.journal.store.find,
            node_news=lambda: node_news(board.latest),
        )
        board.post(next(recovered))
        began_s = time.thread_time()
        for news in recovered:
            board.post(news)
        self.journal.schedule_fold(history.seq, time.thread_time() - began_s, board.num_open)
        self.clock.continue_from(board.calendar, self._core.now_s)
        self.started_s = self.clock.now_s()
        self.counters.start_from(board.views(), board.calendar, board.latest.warned)

    def start(self) -> None:
        """Attach to the machines, and put what is found there before the head: `run` is to follow."""
        now_s = self.clock.now_s()
        work = self._executor.start(self._put_event, self.inbox.put_replacement)
        opened = Opened(
            at_s=self.started_s,
            policy=self._site.policy,
            boot_id=self.clock.boot_id,
            boot_offset_s=self.clock.boot_offset_s,
            calendar_offset_s=self.clock.calendar_offset_s,
            kinds=tuple(dict.fromkeys(node.kind for node in self._site.nodes)),
        )
        self.inbox.put_event(opened)
        self._adopt_work(work, now_s)
        self._put_followed(self.board.views(), ())
        self._executor.want_devices(self._demand.num_devices)

    def _put_followed(self, changed: Sequence[JobView], ended: Sequence[JobView]) -> bool:
        """Put before the head what jobs are to hear that follow others; whether other devices are wanted."""
        for event in self._followers.find_events(changed, ended, self.clock.now_s()):
            self.inbox.put_event(event)
        return self._demand.update(changed, ended)

    def _adopt_work(self, work: RunningWork, now_s: float) -> None:
        """Put before the head what is not as it believes; command again what was not answered.

        Trial runs whose answer is of no use are ended.
        """
        for event in differences(self._core, self._site.nodes, work, now_s):
            self.inbox.put_event(event)
        changes = changes_again(self._core, work)
        commands, alive = [*changes, *self._core.under_way()], explained_jobs(self._core, work)
        awaited = {command.job_id for command in commands if isinstance(command, ProfileJob)}
        again: list[AnyCommand] = []
        for command in commands:
            if isinstance(command, WakeAt):
                self.perform(command)
            elif not isinstance(command, LaunchGang) or command.job_id in alive:
                again.append(command)
        again += [StopGang(job_id=job, generation=0) for job in work.trials if job not in awaited]
        self._executor.perform_again(again, work)

    def run(self) -> None:
        """Until the platform has been asked to stop and every job has left its devices."""
        self._webhooks.start()
        try:
            run(self, self, self)
        finally:
            self.inbox.close()
            self._webhooks.stop()
            self.journal.drop_fold()
        self.journal.fold(self._core.save)

    # ------------------------------------------------------------ the scheduler's loop
    def next_events(self) -> Sequence[AnyEvent]:
        """All that is due. Before it waits, the turn that is over is brought to its end."""
        if self._turn is not None:
            self._end_turn(self._turn)
            self._turn = None
        while not self._is_over():
            self.inbox.answer_questions()
            self.journal.end_fold()
            if self.inbox.replacement is not None:  # and all that was taken is handled
                found, self.inbox.replacement = self.inbox.replacement, None
                self._adopt_work(*found)
            if batch := self._next_batch():
                return batch
        return ()

    def _next_batch(self) -> list[AnyEvent]:
        """Wait for events, and look what else the head is to hear: once in LOOK_EVERY_S at least."""
        dues_s = [due_s for due_s in (self._wake_s, self._drain_until_s) if due_s is not None]
        for node in self._join_tests.due(self._core, self.clock.now_s()):
            self._executor.test_node(node.name, node.devices)
        batch = [*map(self._join_tests.marked, self.inbox.take_batch(min(dues_s) if dues_s else None))]
        now_s = self.clock.now_s()
        if self._wake_s is not None and now_s >= self._wake_s:
            self._wake_s = None
            batch.append(Woke(at_s=now_s))
        news = (self.clock.find_step(), self.quotas.find_change(self._core.claims, self.clock.now_s()))
        faults = self._faults.find_faults(self._executor.device_readings, self._core, now_s)
        return [*batch, *(event for event in news if event is not None), *faults]

    def append(self, batch: Sequence[AnyEvent]) -> None:
        """Keep the batch: a turn begins."""
        self._turn = Turn(batch=batch, begun_s=time.perf_counter())
        self.journal.append(batch)
        self._turn.written_s = time.perf_counter()

    def handle(self, batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        """Decide what follows."""
        turn, computed_s = self._turn or Turn(batch=batch), time.thread_time()
        try:
            turn.commands = self._core.handle(batch)
        except Exception as error:  # noqa: BLE001 - whatever a policy or a defect raises
            turn.commands = self._guard.mend(self.journal.store.last_seq, batch, error)
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
        turn.news = news = TurnResult.of(self._core)
        new = self.journal.finish(self.journal.store.last_seq, turn.commands, news)
        self.board.post(news)
        if self._put_followed(news.changed, news.ended):
            self._executor.want_devices(self._demand.num_devices)
        self.inbox.answer_requests(self._core.ignored, self._core.set_aside)
        self._executor.acknowledge()
        if self._is_stopping and self._core.is_draining and self._drain_until_s is None:
            self._drain_until_s = self.clock.now_s() + DRAIN_S
        for message in new:
            self._webhooks.add(message)
        turn.ended_s = time.perf_counter()
        self.counters.count_turn(turn)
        for event in turn.batch:  # such a trial run is tried again, and no job's page keeps it
            if isinstance(event, ProfilingFailed) and event.outcome is Outcome.LOST and not event.is_taken:
                log.warning("the trial run of %s was lost: %s", event.job_id, event.message.strip())
        if self.journal.is_fold_due(turn.computed_s):
            self.journal.begin_fold(self._core.save, self.board.num_open)

    def _is_over(self) -> bool:
        if not (self._is_open and self._is_stopping and self._core.is_draining):
            return False  # the journal of a platform killed while stopping still says that it drains
        is_late = self._drain_until_s is not None and self.clock.now_s() >= self._drain_until_s
        return self._core.is_idle or is_late

    # ------------------------------------------------------------ any thread
    def _put_event(self, event: AnyEvent) -> None:
        """Put an event of an executor into the inbox, its times converted to head time."""
        event = msgspec.structs.replace(event, at_s=self.clock.of_boot_s(event.at_s))
        if isinstance(event, NodeWarned | NodeEndKnown) and event.until_s is not None:
            event = msgspec.structs.replace(event, until_s=self.clock.of_boot_s(event.until_s))
        self.inbox.put_event(event)

    def stop(self) -> None:
        """Suspend every job, then let `run` return. Returns once the journal has it. Raises Unavailable."""
        self._is_stopping = True
        self.journal.stop_waiting()
        try:
            self.inbox.put_and_wait(
                DrainRequested(at_s=self.clock.now_s()), "the platform may or may not stop"
            )
        except Unavailable:
            self.journal.wait_again()
            raise
