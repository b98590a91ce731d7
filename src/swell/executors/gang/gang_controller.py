"""The controller of a gang tells its workers what to do, so that the gang becomes what the head wants.

Level-triggered: the gang has wanted slots and a wanted configuration, and its members, and each input
moves one towards the other. A change of the batch alone is another group of the same members. The life of a
worker is in `swell.wire.messages`. The head's generations count its commands, and a command may take several
rounds of `formation`, which are the wire's generations.

What is known of the gang is one value (`gang_record`), which hosts keep. Each phase has a module of
functions that change it:

* `transition`: the change that the head wants, from its command to the answer;
* `regrouping`: workers are started and grouped towards the target of the change, also after a break;
* `departures`: workers that go;
* `shutdown`: the end, from the decision to the last process.

`handlers` names what each message of a worker leads to. `late_workers` acts when time passes. A break while
a change is under way ends the change: the group is cut back to what the head knows, it is told, and what is
left forms again at once. A script that knows nothing of Swell goes through the same phases, in the way of
`restarts`: a change is another set of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from swell.executors.gang import (
    departures,
    late_workers,
    regrouping,
    restarts,
    shutdown,
    training_progress,
    transition,
)
from swell.executors.gang.effects import Effect, WorkerExit
from swell.executors.gang.gang_record import GangRecord
from swell.executors.gang.handlers import HANDLERS
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.member import flatten
from swell.executors.gang.runtime import GangRuntime
from swell.executors.gang.timeouts import Timeouts
from swell.model.command import GangCommand, LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.wire import messages


class GangController:
    """Directs the processes of one job: takes what happened at `now_s`, answers with what to do.

    No clock, no I/O. `now_s` never goes back; its zero is the caller's affair. Workers are numbered upwards,
    and no number is used twice. `is_stopped` tells whether the process of a worker was stopped.
    """

    def __init__(
        self,
        job: JobContext,
        gang: GangRecord,
        is_stopped: Callable[[int], bool],
        timeouts: Timeouts | None = None,
    ):
        """`gang`: a new one, or the record of a former controller, which is to be taken over."""
        self._live = GangRuntime(job, timeouts or Timeouts(), is_stopped, gang)

    # ------------------------------------------------------------ what it is
    @property
    def gang(self) -> GangRecord:
        """All that is known of it: with that another controller can take it over."""
        return self._live.gang

    @property
    def generation(self) -> int:
        """Generation of the latest command."""
        return self.gang.replies.generation

    @property
    def devices(self) -> tuple[str, ...]:
        live = self._live
        coming = () if live.gang.restarts is None else restarts.starting(live, live.gang.restarts)
        return flatten(coming or (member.slot for member in self.gang.by_rank()))

    @property
    def wanted_devices(self) -> tuple[str, ...]:
        """Devices of the workers that the gang is to have once the change under way is done."""
        return flatten(self.gang.wanted_slots)

    @property
    def steps(self) -> int:
        """Finished, as far as is known."""
        return self.gang.steps

    @property
    def is_over(self) -> bool:
        return self._live.replies.is_over

    # ------------------------------------------------------------ what happens
    def number_from(self, first_worker: int) -> None:
        """A host that joins has seen all lower numbers: no later worker has one of them."""
        self.gang.next_worker = max(self.gang.next_worker, first_worker)

    def command(self, command: GangCommand, now_s: float) -> Sequence[Effect]:
        live = self._at(now_s)
        is_ending = live.gang.is_ending
        is_news = live.replies.hear(command, is_ending)
        if is_news and (not is_ending or isinstance(command, StopGang)):
            _obey(live, command)
        return self._act()

    def forked(self, worker: int, pid: int, now_s: float) -> Sequence[Effect]:
        live = self._at(now_s)
        if (member := live.members.get(worker)) is not None:
            member.pid, member.since_s = pid, live.now_s  # the zygote may have had to import first
        return self._act()

    def said(self, worker: int, message: messages.FromWorker, now_s: float) -> Sequence[Effect]:
        live = self._at(now_s)
        if (member := live.members.get(worker)) is not None:
            member.heard_s = live.now_s
            if live.gang.restarts is not None:
                restarts.hear(live, live.gang.restarts, message, member)
            elif (handle := HANDLERS.get(type(message))) is not None:
                handle(live, message, member)
        return self._act()

    def port_found(self, address: str, port: int, now_s: float) -> Sequence[Effect]:
        """The answer to `FindPort`."""
        live = self._at(now_s)
        if live.gang.restarts is not None:
            restarts.note_port(live, live.gang.restarts, address, port)
        return self._act()

    def no_port(self, why: str, now_s: float) -> Sequence[Effect]:
        """The other answer: the host is gone, or has none."""
        live = self._at(now_s)
        if live.gang.restarts is not None:
            restarts.note_no_port(live, live.gang.restarts, why)
        return self._act()

    def alive(self, pulses: Mapping[int, messages.Alive], now_s: float) -> None:
        live = self._at(now_s)
        for worker, heartbeat in pulses.items():
            if (member := live.members.get(worker)) is not None:
                member.heard_s, member.heartbeat = live.now_s, heartbeat

    def exited(self, worker: int, status: int, log_tail: str, now_s: float) -> Sequence[Effect]:
        return self.exited_together([WorkerExit(worker, status, log_tail)], now_s)

    def exited_together(self, exits: Sequence[WorkerExit], now_s: float) -> Sequence[Effect]:
        live = self._at(now_s)
        gone = [(live.members.pop(ended.worker, None), ended) for ended in exits]
        for member, ended in gone:
            if member is not None and live.gang.restarts is not None:
                restarts.note_exit(live, live.gang.restarts, member, ended.status, ended.log_tail)
            elif member is not None:
                departures.note_exit(live, member, ended.status, ended.log_tail)
        return self._act()

    def tick(self, now_s: float) -> Sequence[Effect]:
        live = self._at(now_s)
        if live.gang.restarts is not None:
            restarts.pass_time(live, live.gang.restarts)
        if live.gang.ending is not None:
            shutdown.kill_late(live, live.gang.ending)
        else:
            late_workers.watch(live)
        return self._act()

    def take_over(self, now_s: float) -> Sequence[Effect]:
        """Go on with a former controller's gang. Call it before any other method."""
        live = self._live
        live.replies.take_over(now_s)
        if live.gang.restarts is not None and not self.is_over:
            restarts.take_over(live, live.gang.restarts)
        return self._act()

    def hear_again(self, worker: int, values: messages.Reported, now_s: float) -> Sequence[Effect]:
        """What a script has measured lately, of which a former controller may have told."""
        live = self._at(now_s)
        if live.gang.restarts is not None:
            restarts.hear_again(live, live.gang.restarts, values)
        elif live.gang.formation.group[:1] == [worker] and worker in live.members:
            training_progress.note_values(live, values, live.members[worker], is_again=True)
        return self._act()

    # ------------------------------------------------------------ what follows
    def _at(self, now_s: float) -> GangRuntime:
        self._live.replies.pass_time(now_s)
        return self._live

    def _act(self) -> Sequence[Effect]:
        live = self._live
        if not self.is_over:
            _step(live)
        if live.gang.has_started and not self.is_over:
            training_progress.reduce_values(live)
        effects = list(live.effects)
        live.effects.clear()
        return effects


def _obey(live: GangRuntime, command: GangCommand) -> None:
    match command:
        case StopGang():
            shutdown.stop(live)
        case SuspendGang():
            transition.suspend(live)
        case LaunchGang() | Reconfigure():
            transition.resize(live, command)


def _step(live: GangRuntime) -> None:
    if live.gang.is_to_close:
        shutdown.close(live)
    elif live.gang.is_ending:
        return
    elif live.gang.restarts is not None:
        restarts.go_on(live, live.gang.restarts)
    elif regrouping.is_done(live):
        regrouping.go_on(live)
