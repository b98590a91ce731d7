"""The controller of a live gang: what to say to whom so that the group becomes what the head wants.

Level-triggered: the gang has a target, which is devices and a batch, and its members, and each input moves
one towards the other. A change of the batch alone is another group of the same members. The life of a worker
is in `swell.wire.messages`. The head's generations count its commands, and a command may take several rounds
of `formation`, which are the wire's generations.

`membership` mirrors what the head believes the gang to be. A break while a change is under way ends the
change: the group is cut back to what the head knows, it is told, and what is left forms again at once.

Each phase of a gang has a module of its own, and `Gang` hands each of them the parts that it needs:

* `transition`: the change that the head wants, from its command to the answer;
* `regrouping`: workers are started and grouped, towards the target of the change;
* `saving`: checkpoints, and a suspend that could not be saved;
* `recovery`: a group has broken, until the next one may form;
* `departures`: workers that go;
* `shutdown`: the end, from the decision to the last process;
* `handover`: from one controller to the next.

`handlers` brings the messages of workers to them. `watchdog`, `stuck_workers` and `late_orders` act when
time passes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from swell.executors.gang.departures import Departures
from swell.executors.gang.effects import Effect, WorkerExit
from swell.executors.gang.formation import Formation
from swell.executors.gang.handlers import Handlers
from swell.executors.gang.handover import Handover
from swell.executors.gang.hang_detection import HangDetector
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.kept_worker import KeptWorker
from swell.executors.gang.late_orders import LateOrders
from swell.executors.gang.member import Roster, by_rank, flatten
from swell.executors.gang.membership import Membership
from swell.executors.gang.memory_limit import PassLimit
from swell.executors.gang.records import ElasticRecord
from swell.executors.gang.recovery import Recovery
from swell.executors.gang.regrouping import Regrouping
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.saving import Saving
from swell.executors.gang.setback import Setback
from swell.executors.gang.shutdown import Shutdown
from swell.executors.gang.stuck_workers import StuckWorkers
from swell.executors.gang.suspension import Suspension
from swell.executors.gang.timeouts import Timeouts
from swell.executors.gang.training_progress import TrainingProgress
from swell.executors.gang.transition import Transition
from swell.executors.gang.watchdog import Watchdog
from swell.executors.gang.workers import Workers
from swell.model.command import GangCommand, LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.wire import messages


class Gang:
    """See `effects.GangProtocol`. `is_stopped` tells whether the process of a worker was stopped."""

    def __init__(
        self,
        stage: JobContext,
        first_worker: int,
        is_stopped: Callable[[int], bool],
        saved_steps: int = 0,
        patience: Timeouts | None = None,
        max_local_batch: int | None = None,
    ):
        patience = patience or Timeouts()
        script = stage.spec.entry
        effects: list[Effect] = []
        dialogue = CommandReplies(stage.job_id, effects)
        roster, membership = Roster(), Membership()
        setback, suspension, hang_detector = Setback(), Suspension(), HangDetector()
        pass_limit = PassLimit(max_local_batch)
        formation = Formation(roster, pass_limit, effects, stage.host_of)
        workers = Workers(roster, effects, first_worker)
        progress = TrainingProgress(stage, saved_steps, roster, membership, dialogue)
        shutdown = Shutdown(patience, dialogue, roster, formation, workers, progress)
        transition = Transition(
            stage.spec, dialogue, roster, membership, setback, suspension, progress, shutdown
        )
        recovery = Recovery(
            dialogue, roster, membership, setback, suspension, formation, workers, transition, shutdown
        )
        saving = Saving(dialogue, suspension, progress, transition, shutdown)
        self._regrouping = Regrouping(
            dialogue, roster, membership, setback, suspension, formation, workers, transition, shutdown
        )
        self._departures = departures = Departures(
            stage, dialogue, roster, membership, suspension, progress, transition, recovery, shutdown
        )
        self._handlers = Handlers(
            stage,
            effects,
            dialogue,
            pass_limit,
            hang_detector,
            formation,
            progress,
            saving,
            recovery,
            departures,
        )
        self._watchdog = Watchdog(script, patience, is_stopped, dialogue, roster, setback, workers)
        self._stuck_workers = StuckWorkers(
            patience, dialogue, roster, membership, hang_detector, workers, progress, recovery, shutdown
        )
        self._late_orders = LateOrders(
            patience, dialogue, roster, membership, setback, suspension, hang_detector, formation, workers
        )
        self._handover = Handover(
            stage,
            effects,
            dialogue,
            roster,
            membership,
            setback,
            suspension,
            pass_limit,
            formation,
            workers,
            progress,
            shutdown,
            transition,
            recovery,
            departures,
            self._handlers,
        )
        self._job_id, self._is_stopped, self._effects = stage.job_id, is_stopped, effects
        self._dialogue, self._roster, self._membership = dialogue, roster, membership
        self._setback, self._pass_limit, self._workers = setback, pass_limit, workers
        self._progress, self._shutdown = progress, shutdown
        self._transition, self._recovery = transition, recovery

    # ------------------------------------------------------------ what it is
    @property
    def job_id(self) -> str:
        return self._job_id

    @property
    def generation(self) -> int:
        return self._dialogue.generation

    @property
    def devices(self) -> tuple[str, ...]:
        return flatten(member.slot for member in by_rank(self._roster))

    @property
    def wanted_devices(self) -> tuple[str, ...]:
        return flatten(self._transition.target)

    @property
    def pids(self) -> tuple[int, ...]:
        return self._roster.pids

    @property
    def steps(self) -> int:
        return self._progress.steps

    @property
    def saved_steps(self) -> int:
        """Number of steps in the newest checkpoint."""
        return self._progress.saved_steps

    @property
    def max_local_batch(self) -> int | None:
        """Samples of a pass, as far as is known now."""
        return self._pass_limit.max_local_batch

    @property
    def has_state(self) -> bool:
        """Whether workers that join take the state over from those that train; a gang without such ends."""
        return self._membership.is_settled

    @property
    def is_broken(self) -> bool:
        """Whether its group has broken, and the next one does not form yet."""
        return self._setback.is_open and not self._shutdown.is_under_way

    @property
    def is_over(self) -> bool:
        return self._dialogue.is_over

    # ------------------------------------------------------------ what happens
    def number_from(self, first_worker: int) -> None:
        """See `effects.GangProtocol`."""
        self._workers.next_number = max(self._workers.next_number, first_worker)

    def command(self, command: GangCommand, now_s: float) -> Sequence[Effect]:
        self._dialogue.now_s = now_s
        is_ending = self._shutdown.is_under_way
        is_news = self._dialogue.hear(command, is_ending)
        if is_news and (not is_ending or isinstance(command, StopGang)):
            self._obey(command)
        return self._act()

    def forked(self, worker: int, pid: int, now_s: float) -> Sequence[Effect]:
        self._dialogue.now_s = now_s
        if (member := self._roster.members.get(worker)) is not None:
            member.pid, member.since_s = pid, now_s  # the zygote may have had to import first
        return self._act()

    def said(self, worker: int, message: messages.FromWorker, now_s: float) -> Sequence[Effect]:
        self._dialogue.now_s = now_s
        if (member := self._roster.members.get(worker)) is not None:
            member.heard_s = now_s
            self._handlers.hear(message, member)
        return self._act()

    def alive(self, pulses: Mapping[int, messages.Alive], now_s: float) -> None:
        for worker, heartbeat in pulses.items():
            if (member := self._roster.members.get(worker)) is not None:
                member.heard_s, member.heartbeat = now_s, heartbeat

    def exited(self, worker: int, status: int, log_tail: str, now_s: float) -> Sequence[Effect]:
        return self.exited_together([WorkerExit(worker, status, log_tail)], now_s)

    def exited_together(self, exits: Sequence[WorkerExit], now_s: float) -> Sequence[Effect]:
        self._dialogue.now_s = now_s
        gone = [(self._roster.members.pop(ended.worker, None), ended) for ended in exits]
        for member, ended in gone:
            if member is not None:
                self._departures.note_exit(member, ended.status, ended.log_tail)
        return self._act()

    def tick(self, now_s: float) -> Sequence[Effect]:
        self._dialogue.now_s = now_s
        if self._shutdown.is_under_way:
            self._shutdown.kill_late(self._is_stopped)
        else:
            self._watchdog.check()
            self._stuck_workers.check()
            self._late_orders.check()
        return self._act()

    # ------------------------------------------------------------ from one controller to the next
    def record(self) -> ElasticRecord:
        """See `effects.GangProtocol`."""
        return self._handover.record()

    def take_over(
        self, record: ElasticRecord, kept: Mapping[int, KeptWorker], lost: Collection[int], now_s: float
    ) -> Sequence[Effect]:
        """Restore a former controller's gang. Call it before any other method; see `Handover.take_over`."""
        self._dialogue.now_s = now_s
        self._handover.take_over(record, kept, lost)
        return self._act()

    # ------------------------------------------------------------ what follows
    def _obey(self, command: GangCommand) -> None:
        match command:
            case StopGang():
                self._shutdown.stop()
            case SuspendGang():
                self._transition.suspend()
            case LaunchGang() | Reconfigure():
                self._transition.resize(command)

    def _act(self) -> Sequence[Effect]:
        if not self._dialogue.is_over:
            self._step()
        if self._membership.is_settled and not self._dialogue.is_over:
            self._progress.report_due()
        effects = list(self._effects)
        self._effects.clear()
        return effects

    def _step(self) -> None:
        is_ending = self._shutdown.is_under_way
        if (is_ending or self._workers.has_started) and not self._roster.members:
            self._shutdown.close(self._transition.is_safe, self._setback)
        elif not is_ending and self._recovery.is_done():
            self._regrouping.go_on()
