"""Runs every gang and trial run: does what choreographies say, by messages to hosts, and tells the daemon.

It knows no machine. Each input (a command, a message of a host, time) is handled to its end before the next
one, so what a host answers at once is handled as if it had come later.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from pathlib import Path

import msgspec

from swell.executors.awake_clock import AwakeClock
from swell.executors.controller.file_store import FileStore, NotedHost
from swell.executors.controller.gangs import KnownGangs, cannot_change, unknown
from swell.executors.controller.known_hosts import KnownHosts
from swell.executors.controller.outbox import DaemonLine, Outbox
from swell.executors.controller.preparation import Preparation
from swell.executors.controller.protocol import ExecutorCommand, Gathering, Inventory
from swell.executors.controller.rounds import Rounds
from swell.executors.controller.run import DirectedRun
from swell.executors.controller.shares import KnownShares, not_shared
from swell.executors.controller.succession import Succession
from swell.executors.controller.trial_devices import Machine
from swell.executors.controller.trials import Trials
from swell.executors.controller.usage_reports import UsageReports, tells_anything, usage_report
from swell.executors.controller.worker_numbers import WorkerNumbers
from swell.executors.exit_status import HOST_LOST, NOT_STARTED
from swell.executors.gang.effects import (
    Choreography,
    Effect,
    FindPort,
    Kill,
    Report,
    Send,
    Spawn,
    WorkerExit,
)
from swell.executors.gang.elastic_controller import Gang
from swell.executors.gang.gang_settings import Conduct
from swell.executors.gang.restart_controller import RestartGang
from swell.executors.hosts import messages
from swell.executors.hosts.file_messages import FileMessage
from swell.executors.hosts.messages import FromHost, NodeHost, ToHost
from swell.model.command import GangCommand, LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang
from swell.model.event import AnyEvent, GangEnded, HostRuledOut, JobWarned, Outcome, StepsReported
from swell.wire.messages import Alive, Finished, FromAgent, FromWorker, Welcome

#: A daemon that waits is told so again, lest it take the agent for dead.
GATHERING_EVERY_S = 1.0
#: Hosts that are told in a tick to drop the code of a job which was not there in the end: it is not urgent.
DROPS_AT_ONCE = 50
#: A gang that has broken waits so long for a host without a line: it is dead, or comes back at once.
UNREACHED_S = 1.0

log = logging.getLogger("swell.hosts")


class Controller:
    """Of one platform. Every method returns at once, and must be called from one thread."""

    def __init__(
        self,
        state_dir: Path,
        conduct: Conduct,
        boot_id: str,
        protocol: int,
        time_s: Callable[[], float] = time.monotonic,
        files: FileStore | None = None,
    ) -> None:
        """
        Args:
            boot_id, protocol: told to daemons, see `Inventory`.
            time_s: a clock that never goes back.
            files: for hosts whose state folder is another one; None: there will be none.
        """
        self._boot_id, self._protocol = boot_id, protocol
        self._clock = AwakeClock(time_s)
        self._files = files
        self._hosts = KnownHosts()
        numbers = WorkerNumbers(state_dir)
        self._gangs = KnownGangs(conduct, self._hosts.bindings, self._hosts.host_of, numbers)
        self._runs: dict[str, DirectedRun] = {}
        self._rounds = Rounds()
        self._preparing: dict[str, Preparation] = {}  #: by job
        self._shares = KnownShares()
        self._usage = UsageReports()
        self._outbox = Outbox()
        self._session, self._num_performed = "", 0
        self._trials = Trials(state_dir, self, conduct)
        self._succession = Succession(self, self._gangs, self._shares)
        self._waiting: tuple[DaemonLine, str] | None = None  #: a daemon that has yet to be told what runs
        self._told_waiting_s = 0.0
        self._drops_due: deque[tuple[str, str]] = deque()  #: hosts that are to drop the code of a job
        self._inbox: deque[Callable[[], None]] = deque()
        self._is_busy = False

    def now_s(self) -> float:
        """By a clock that counts no time in which the controller itself was stopped."""
        return self._clock.now_s()

    # ------------------------------------------------------------ the daemon
    def attach(self, line: DaemonLine, session: str) -> None:
        """A daemon has come. It hears what runs, once that is known, and what no daemon has acknowledged."""
        self._waiting = line, session
        self._greet()

    def _greet(self) -> None:
        if self._waiting is None:
            return
        line, session = self._waiting
        if not self._succession.is_over:
            self._told_waiting_s = self.now_s()
            line.send(Gathering(hosts=tuple(sorted(self._succession.awaited))))
            return
        self._waiting = None
        if session != self._session:
            self._session, self._num_performed = session, 0
            self._gangs.forget_ended(self._outbox.ended_gangs())
        line.send(self._inventory())
        self._outbox.attach(line)

    def detach(self, line: DaemonLine) -> None:
        """The line is gone. No effect if another daemon has come since."""
        if self._waiting is not None and self._waiting[0] is line:
            self._waiting = None
        self._outbox.detach(line)

    def acknowledge(self, number: int) -> None:
        """Events up to this number are in the journal."""
        self._outbox.acknowledge(number)

    def perform(self, number: int, command: ExecutorCommand) -> int:
        """Take a command, if it was not taken before. Returns how many of the session have been taken."""
        if number > self._num_performed:
            self._num_performed = number
            self._handle(lambda: self._perform(command))
        return self._num_performed

    def running_kinds(self, host: str) -> set[tuple[str, str]]:
        """Jobs with workers on this host, each with the kinds of devices that these are on."""
        bindings, host_of = self._hosts.bindings, self._hosts.host_of
        return {
            (run.job_id, bindings[device].kind)
            for run in self._runs.values()
            for device in run.director.devices
            if host_of.get(device) == host
        }

    def _inventory(self) -> Inventory:
        return Inventory(
            protocol=self._protocol,
            boot_id=self._boot_id,
            num_performed=self._num_performed,
            gangs=self._gangs.live(),
            profiling=self._trials.jobs,
            untold=self._outbox.ended_gangs(),
            nodes=self._hosts.nodes,
        )

    # ------------------------------------------------------------ inputs, one after another
    def tick(self) -> None:
        """Time has passed. To be called ten times a second."""
        self._handle(self._pass_time)

    def hear(self, host: str, message: FromHost) -> None:
        """What a host says; one that is not of this platform is not heard."""
        self._handle(lambda: self._hear_member(host, message))

    def await_hosts(self, names: Collection[str]) -> None:
        """They may run workers of the controller before. To be called before anything else.

        Each of them joins, or `lose_host` is called for it when none of these can live any more; until then
        daemons wait.
        """
        self._succession.takeover.awaited.update(names)

    def join_host(self, name: str, host: NodeHost) -> None:
        """From now on it is told what to do. Its first message names its devices."""
        self._handle(lambda: self._join_host(name, host))

    def lose_host(self, name: str, why: str) -> None:
        """Its processes are gone, or will be before anything is done with its devices."""
        self._handle(lambda: self._lose_host(name, why))

    def _handle(self, work: Callable[[], None]) -> None:
        self._inbox.append(work)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._inbox:
                self._inbox.popleft()()
        finally:
            self._is_busy = False

    def _pass_time(self) -> None:
        now_s = self.now_s()
        for key in self._rounds.next(self._runs):
            if (run := self._runs.get(key)) is not None:
                self.do(run, run.director.tick(now_s))
        self._leave_unreached(now_s)
        for preparation in list(self._preparing.values()):
            if preparation.give_up_setting(now_s):
                self._go_on(preparation)
        self._send(self._usage.late(now_s))
        for job_id in self._usage.silent(now_s):
            gang = self._gangs.get(job_id)
            if gang is not None:
                self.report(usage_report(job_id, gang.generation, gang.steps))
        self._trials.advance()
        for _ in range(min(DROPS_AT_ONCE, len(self._drops_due))):
            host, job_id = self._drops_due.popleft()
            self._hosts.tell(host, messages.DropCode(job_id=job_id))
        if now_s - self._told_waiting_s >= GATHERING_EVERY_S:
            self._greet()
        self._outbox.send()

    # ------------------------------------------------------------ commands
    def _perform(self, command: ExecutorCommand) -> None:
        if isinstance(command, ProfileJob):
            self._trials.add(command)
        elif (preparation := self._preparing.get(command.job_id)) is not None:
            if isinstance(command, StopGang | SuspendGang) and preparation.is_before(command):
                self._call_off(preparation, command)
            else:
                preparation.behind.append(command)
        elif isinstance(command, LaunchGang) and self._gangs.is_free(command):
            self._prepare_launch(command)
        else:
            self._command(command)

    def _command(self, command: GangCommand) -> None:
        gang, refusal = self._gangs.get(command.job_id), self._gangs.refusal(command)
        if gang is None:
            self._trials.cancel(command.job_id)
        if gang is None or refusal is not None:
            self.report(refusal or unknown(command))
            return
        run = self._runs.get(command.job_id)
        is_old = gang.is_over or command.generation < gang.generation
        if run is None or is_old or not isinstance(command, Reconfigure):
            self._obey(gang, command)
        else:
            self._prepare_change(run, command)

    def _obey(self, gang: Choreography, command: GangCommand) -> None:
        run = self._runs.get(command.job_id)
        if run is not None:
            self._gangs.note_wanted(command)
        effects = gang.command(command, self.now_s())
        if run is not None:
            self.do(run, effects, is_commanded=True)
        else:  # over: all it has to say is how it ended
            for effect in effects:
                if isinstance(effect, Report):
                    self.report(effect.event)

    def _call_off(self, preparation: Preparation, command: StopGang | SuspendGang) -> None:
        """The end of a gang waits for no host that makes ready for what it puts an end to."""
        is_launch = isinstance(preparation.command, LaunchGang) and not preparation.is_called_off
        preparation.call_off(command)
        if is_launch:
            self.report(self._gangs.called_off(command))
        else:
            self._command(command)

    # ------------------------------------------------------------ hosts make ready
    def _prepare_launch(self, command: LaunchGang) -> None:
        if obstacle := self._gangs.obstacle(command):
            self.report(self._gangs.not_launched(command, Outcome.LOST, obstacle))
            return
        self._prepare(Preparation(command, opening=self._hosts.of(command.target.devices)))

    def _prepare_change(self, run: DirectedRun, command: Reconfigure) -> None:
        """The share is set before the gang hears of it, on all hosts; new ones open the run."""
        new = self._hosts.of(command.target.devices) - run.checkpoint_dirs.keys()
        preparation = Preparation(command, opening=new, since_s=self.now_s())
        if self._shares.is_news(command):
            is_of_same = set(command.target.devices) == set(run.director.devices)
            is_needed = self._shares.is_needed(command, is_of_same)
            # What is not needed is waited for by nobody: hosts hear it before all that follows.
            (preparation.setting if is_needed else preparation.shared).update(run.checkpoint_dirs)
            share = command.target.configuration.weight
            self._set_share(run, run.checkpoint_dirs, command.generation, share, is_needed)
        self._prepare(preparation)

    def _prepare(self, preparation: Preparation) -> None:
        command = preparation.command
        self._preparing[command.job_id] = preparation
        if isinstance(command, LaunchGang):
            spec = command.spec
        else:
            spec = self._runs[command.job_id].spec
        order = messages.OpenRun(
            run=command.job_id, job_id=command.job_id, spec=spec, share=command.target.configuration.share
        )
        for host in sorted(preparation.opening):
            self._hosts.tell(host, order)
        self._go_on(preparation)

    def _go_on(self, preparation: Preparation) -> None:
        """If all hosts have answered: begin, and take what waits behind."""
        job_id = preparation.command.job_id
        if not preparation.is_complete or self._preparing.get(job_id) is not preparation:
            return
        del self._preparing[job_id]
        if preparation.is_called_off:
            self._undo(preparation)
        elif isinstance(preparation.command, LaunchGang):
            self._launch(preparation, preparation.command)
        else:
            self._change(preparation, preparation.command)
        for command in preparation.behind:
            self._perform(command)

    def _undo(self, preparation: Preparation) -> None:
        """Hosts are as they were before they made ready."""
        self._close_all(preparation)
        if (run := self._runs.get(preparation.command.job_id)) is not None:
            generation, share = preparation.command.generation, self._shares.due(run.job_id)
            self._set_share(run, preparation.shared, generation, share)
            self.release_hosts(run)

    def _launch(self, preparation: Preparation, command: LaunchGang) -> None:
        refusal = preparation.refusal
        if refusal is None and (obstacle := self._gangs.obstacle(command)):
            refusal = Outcome.LOST, obstacle  # since the hosts were asked
        if refusal is None and not preparation.opened:
            refusal = Outcome.LOST, "it was given no devices"
        if refusal is not None:
            self._close_all(preparation)
            self.report(self._gangs.not_launched(command, *refusal))
            return
        run = self._gangs.open(command, preparation.opened)
        self._shares.launch(command)
        self.begin_run(run)
        gang = self._gangs.get(command.job_id)
        assert gang is not None  # noqa: S101 - it was just opened
        self._obey(gang, command)

    def _change(self, preparation: Preparation, command: Reconfigure) -> None:
        gang, run = self._gangs.get(command.job_id), self._runs.get(command.job_id)
        obstacle = self._gangs.refusal(command)  # there may be one since the hosts were asked
        is_off = preparation.refusal is not None or preparation.why_not_shared or obstacle is not None
        if run is None or is_off:
            self._undo(preparation)
        if gang is None:
            self.report(unknown(command))
        elif run is None:
            self._obey(gang, command)
        elif is_off:
            if preparation.refusal is not None:
                obstacle = cannot_change(command, preparation.refusal[1])
            self.report(obstacle or not_shared(command, preparation.why_not_shared))
        else:
            dirs = {host: opened.checkpoint_dir for host, opened in preparation.opened.items()}
            run.checkpoint_dirs.update(dirs)
            gang.number_from(max((o.first_worker for o in preparation.opened.values()), default=0))
            if preparation.shared or preparation.opened:
                self._shares.ask(command)
            self._obey(gang, command)

    def _set_share(
        self,
        run: DirectedRun,
        hosts: Iterable[str],
        generation: int,
        share: float,
        is_needed: bool = False,
    ) -> None:
        """What is not needed, and cannot be had at once, is tried again."""
        order = messages.SetShare(run=run.key, generation=generation, share=share, is_needed=is_needed)
        for host in sorted(hosts):
            self._hosts.tell(host, order)

    def _close_all(self, preparation: Preparation) -> None:
        """What was opened for a command that comes to nothing."""
        for host in sorted(preparation.opened):
            self._hosts.tell(host, messages.CloseRun(run=preparation.command.job_id))

    # ------------------------------------------------------------ what hosts say
    def _hear_member(self, host: str, message: FromHost) -> None:
        """A host may have been lost after it said this."""
        if host not in self._hosts:
            return
        if self._files is not None:
            self._files.note_said(host, message)
        if not self._succession.keep(host, message):
            self._hear(host, message)

    def _hear(self, host: str, message: FromHost) -> None:
        match message:
            case messages.RunKept() | messages.TalkKept() | messages.EndKept():
                self._succession.hear(host, message)
            case messages.DevicesOffered():
                self._succession.hear_offer(host, message)
                self._greet()
            case messages.RunOpened() | messages.RunRefused():
                self._hear_ready(host, message)
            case messages.ShareSet(run=key, generation=generation, why_not=why_not):
                preparation = self._preparing.get(key)
                if preparation is not None and preparation.command.generation == generation:
                    preparation.note_shared(host, why_not)
                    self._go_on(preparation)
            case messages.WorkersAlive(runs=runs):
                self._hear_alive(host, runs)
            case messages.UsageRead(run=key, usage=usage):
                self._send(self._usage.answered(key, host, usage))
            case messages.OwnerWarned(job_id=job_id, about=about, message=text):
                self.report(JobWarned(at_s=0.0, job_id=job_id, about=about, message=text))
            case messages.HostLeaving():
                self._report_all(self._hosts.warn(host, message, time.clock_gettime(time.CLOCK_BOOTTIME)))
            case FileMessage():
                if self._files is not None:
                    self._files.hear(host, message)
            case messages.RunPortFound() | messages.RunPortRefused():
                run = self._runs.get(message.run)
                if run is not None and run.port_host == host:
                    self._hear_port(run, message)
            case _ if self._succession.is_remnant(host, message.run):
                if isinstance(message, messages.WorkerExited):
                    self._succession.hear_exit(host, message.run, message.worker)
                    self._greet()
            case _:
                run = self._runs.get(message.run)
                if run is not None and run.workers.get(message.worker) == host:
                    self._hear_of_worker(run, message)

    def _hear_ready(self, host: str, message: messages.RunOpened | messages.RunRefused) -> None:
        preparation = self._preparing.get(message.run)
        if isinstance(message, messages.RunRefused) and message.is_lacking:
            self._rule_out(host, message)
        if preparation is None and isinstance(message, messages.RunOpened):
            self._trials.opened(host, message)
        elif preparation is None and isinstance(message, messages.RunRefused):
            self._trials.refused(host, message.run, message.outcome, message.why)
        elif preparation is not None:
            if isinstance(message, messages.RunOpened):
                preparation.note_opened(host, message)
            else:
                preparation.note_refused(host, message.outcome, message.why)
            self._go_on(preparation)

    def _rule_out(self, host: str, refused: messages.RunRefused) -> None:
        """Before what comes of it is told, so that the head does not choose the host again."""
        job_id = self._trials.job_of(refused.run) or refused.run
        devices = tuple(sorted(device for device, of in self._hosts.host_of.items() if of == host))
        self.report(HostRuledOut(at_s=0.0, job_id=job_id, devices=devices, message=refused.why))

    def _hear_port(self, run: DirectedRun, message: messages.RunPortFound | messages.RunPortRefused) -> None:
        if not isinstance(run.director, RestartGang):
            return
        run.port_host = ""
        if isinstance(message, messages.RunPortFound):
            self.do(run, run.director.port_found(message.address, message.port, self.now_s()))
        else:
            self.do(run, run.director.no_port(message.why, self.now_s()))

    def _hear_of_worker(
        self,
        run: DirectedRun,
        message: messages.WorkerForked | messages.WorkerSaid | messages.WorkerHalted | messages.WorkerExited,
    ) -> None:
        worker, now_s = message.worker, self.now_s()
        match message:
            case messages.WorkerForked(pid=pid):
                self.do(run, run.director.forked(worker, pid, now_s))
            case messages.WorkerSaid(message=said):
                self._hear_worker(run, worker, said)
            case messages.WorkerHalted(is_stopped=is_stopped):
                (run.stopped.add if is_stopped else run.stopped.discard)(worker)
            case messages.WorkerExited(status=status, log_tail=log_tail):
                del run.workers[worker]
                run.stopped.discard(worker)
                self.do(run, run.director.exited(worker, status, log_tail, now_s))
                self.release_hosts(run)

    def _hear_alive(self, host: str, runs: Mapping[str, Mapping[int, Alive]]) -> None:
        for key, pulses in runs.items():
            if (run := self._runs.get(key)) is not None:
                own = {worker: pulse for worker, pulse in pulses.items() if run.workers.get(worker) == host}
                run.director.alive(own, self.now_s())

    def _hear_worker(self, run: DirectedRun, worker: int, said: FromWorker) -> None:
        now_s = self.now_s()
        if isinstance(said, Finished) and run.finished_s is None:
            run.finished_s = now_s
        self.do(run, run.director.said(worker, said, now_s))

    def _join_host(self, name: str, host: NodeHost) -> None:
        if self._files is not None:
            self._files.join(name, host.tell)
            host = NotedHost(name, host, self._files)
        self._hosts.join(name, host)

    def offer(self, host: str, offered: messages.DevicesOffered) -> None:
        """Use these devices of the host, and no others."""
        self._report_all(self._hosts.offer(host, offered))

    def _lose_host(self, name: str, why: str) -> None:
        """Its nodes go first: what becomes of gangs that were on them is then no fault of their jobs."""
        self._succession.lose_host(name)
        self._greet()
        lost_nodes = self._hosts.lose(name, why)
        if lost_nodes is None:
            return
        if self._files is not None:
            self._files.lose(name)
        self._report_all(lost_nodes)
        self._send(self._usage.lose_host(name))
        self._trials.lose_host(name, why)
        for run in [run for run in self._runs.values() if run.is_on(name)]:
            self._lose_workers(run, name, why)
        for preparation in list(self._preparing.values()):
            if preparation.lose_host(name, why):
                self._go_on(preparation)

    def _leave_unreached(self, now_s: float) -> None:
        """Gangs that have broken go on without workers on hosts that have no line, and may be dead.

        Those may live: their devices are nobody's until they have been killed, or their host is lost.
        """
        unreached = self._hosts.unreached(now_s, UNREACHED_S)
        if not unreached or not self._succession.is_over:
            return
        for run in list(self._runs.values()):
            hosts = set(run.workers.values())
            is_broken = isinstance(run.director, Gang) and run.director.is_broken
            if is_broken and hosts - unreached:
                for host in sorted(hosts & unreached):
                    self._leave_workers(run, host)

    def _leave_workers(self, run: DirectedRun, host: str) -> None:
        why = f"host {host!r} is not reached, and job {run.job_id!r} goes on without it"
        log.warning("%s; its devices are not used until its workers are known to be gone", why)
        offered, lost_nodes = self._hosts.withdraw(host, why)
        self._report_all(lost_nodes)
        left = [worker for worker, of in run.workers.items() if of == host]
        self._succession.leave_workers(host, run.key, left, offered)
        preparation = self._preparing.get(run.key)
        self._send(self._usage.leave_host(run.job_id, host))
        self._lose_workers(run, host, why)
        if preparation is not None and preparation.lose_host(host, why):
            self._go_on(preparation)

    def _lose_workers(self, run: DirectedRun, host: str, why: str) -> None:
        """All that a run had on a host, at once."""
        run.checkpoint_dirs.pop(host, None)
        gone = [worker for worker, of in run.workers.items() if of == host]
        for worker in gone:
            del run.workers[worker]
        run.stopped.difference_update(gone)
        exits = [WorkerExit(worker, HOST_LOST, why) for worker in gone]
        if exits:
            self.do(run, run.director.exited_together(exits, self.now_s()))
        self._forget_port(run, host, why)

    def _forget_port(self, run: DirectedRun, host: str, why: str) -> None:
        """This host is asked for none any more."""
        if run.port_host == host and isinstance(run.director, RestartGang):
            run.port_host = ""
            self.do(run, run.director.no_port(why, self.now_s()))

    # ------------------------------------------------------------ what trials ask
    def machine(self, host: str) -> Machine:
        """Devices of one host, and how many processes each has now."""
        runs = (run for run in self._runs.values() if run.is_on(host))
        return self._hosts.machine(host, (device for run in runs for device in run.director.devices))

    def host_with(self, kind: str, avoid: Container[str], but: Container[str] = ()) -> str:
        """The host with the most devices of a kind, some left out, that is not one of `but`; empty if there
        is none.
        """
        return self._hosts.with_most(kind, avoid, but)

    def hosts_with(self, kind: str, avoid: Container[str]) -> list[str]:
        """Hosts with devices of a kind, some left out: those with the most first."""
        return self._hosts.with_any(kind, avoid)

    def open_trial(self, host: str, run: str, command: ProfileJob) -> None:
        """Have a host open the run of a trial; its answer goes to the trials."""
        order = messages.OpenRun(run=run, job_id=command.job_id, spec=command.spec, is_trial=True)
        self._hosts.tell(host, order)

    def close_trial(self, host: str, run: str) -> None:
        """A host that made ready for a trial run is not needed."""
        self._hosts.tell(host, messages.CloseRun(run=run))

    # ------------------------------------------------------------ doing what a choreography says
    def begin_run(self, run: DirectedRun) -> None:
        """Register a run that is open on its hosts."""
        self._runs[run.key] = run

    def do(self, run: DirectedRun, effects: Iterable[Effect], is_commanded: bool = False) -> None:
        """Perform the effects in order. `is_commanded`: they come of a command, which hosts are to keep."""
        effects = tuple(effects)
        is_told = any(not (isinstance(e, Report) and isinstance(e.event, StepsReported)) for e in effects)
        if is_told or is_commanded:
            self._keep_record(run, effects)
        for effect in effects:
            match effect:
                case Spawn():
                    self._spawn(run, effect)
                case Send(worker, message):
                    self._say(run, worker, message)
                case Kill(worker, number):
                    if (host := run.workers.get(worker)) is not None:
                        self._hosts.tell(
                            host, messages.SignalWorker(run=run.key, worker=worker, signal=number)
                        )
                case FindPort(devices):
                    self._find_port(run, devices[0])
                case Report(event):
                    self._trials.shown(run, event)
                    self.report(event)
        if run.director.is_over and self._runs.get(run.key) is run:
            self._end_run(run)
        elif run.is_trial:
            self._trials.advance()
        elif is_told or is_commanded:
            self.release_hosts(run)

    def _keep_record(self, run: DirectedRun, effects: Iterable[Effect]) -> None:
        """All hosts of the run keep what its gang has in mind, from before the first of these effects on."""
        gang = run.director
        if not isinstance(gang, Gang | RestartGang):
            return
        spawned = {
            e.worker: self._hosts.host_of.get(e.devices[0], "") for e in effects if isinstance(e, Spawn)
        }
        self._gangs.note_numbers(run.job_id, spawned)
        share, asked_share = self._shares.record(run.job_id)
        before = run.record
        record = messages.RunSnapshot(
            launch=run.launch,
            version=0 if before is None else before.version,
            hosts=tuple(sorted(run.checkpoint_dirs)),
            workers=run.workers | spawned,
            total_steps=run.total_steps,
            share=share,
            asked_share=asked_share,
            gang=gang.record(),
        )
        if record == before:
            return
        run.record = record = msgspec.structs.replace(record, version=record.version + 1)
        for host in record.hosts:
            self.tell(host, messages.KeepRecord(run=run.key, record=record))

    def _spawn(self, run: DirectedRun, spawn: Spawn) -> None:
        hosts = {self._hosts.host_of.get(device, "") for device in spawn.devices}
        host = hosts.pop()
        run.workers[spawn.worker] = host
        if hosts or host not in run.checkpoint_dirs:
            why = "its devices are of several hosts" if hosts else "its host is gone"
            status = NOT_STARTED if hosts else HOST_LOST
            exited = messages.WorkerExited(run=run.key, worker=spawn.worker, status=status, log_tail=why)
            self._handle(lambda: self._hear(host, exited))
            return
        order = messages.StartWorker(
            run=run.key,
            worker=spawn.worker,
            devices=spawn.devices,
            environ=spawn.environ,
            entry=spawn.entry,
            is_first=len(run.workers) == 1,
        )
        self._hosts.tell(host, order)

    def _say(self, run: DirectedRun, worker: int, message: FromAgent) -> None:
        host = run.workers.get(worker)
        if host is None:
            return
        if isinstance(message, Welcome):  # each host has folders of its own
            message = msgspec.structs.replace(message, checkpoint_dir=run.checkpoint_dirs[host])
        self._hosts.tell(host, messages.TellWorker(run=run.key, worker=worker, message=message))

    def _find_port(self, run: DirectedRun, device: str) -> None:
        run.port_host = self._hosts.host_of.get(device, "")
        if run.port_host:
            self._hosts.tell(run.port_host, messages.FindRunPort(run=run.key))
        elif isinstance(run.director, RestartGang):
            self.do(run, run.director.no_port("its host is gone", self.now_s()))

    def release_hosts(self, run: DirectedRun) -> None:
        """Close the run where no worker of the gang is left, and none is to come."""
        gang, dirs = run.director, run.checkpoint_dirs
        if len(dirs) < 2 or not isinstance(gang, Gang | RestartGang) or gang.is_over:
            return
        preparation = self._preparing.get(run.job_id)
        coming = () if preparation is None else preparation.command.target.devices
        wanted = {self._hosts.host_of.get(device) for device in (*gang.wanted_devices, *coming)}
        left = sorted(dirs.keys() - wanted - set(run.workers.values()))
        if not left or len(left) == len(dirs):
            return
        for host in left:
            del dirs[host]
        self._keep_record(run, ())  # before they are closed: what the others keep names them no longer
        for host in left:
            self._hosts.tell(host, messages.CloseRun(run=run.key))
            self._send(self._usage.leave_host(run.job_id, host))
            self._forget_port(run, host, "its job has left that host")

    def _end_run(self, run: DirectedRun) -> None:
        del self._runs[run.key]
        for host in list(run.checkpoint_dirs):
            self._hosts.tell(host, messages.CloseRun(run=run.key))
        self._gangs.ended(run)
        if not run.is_trial:
            self._shares.ended(run.job_id)
            self._usage.ended(run.job_id)
        self._trials.ended(run)

    def tell(self, host: str, message: ToHost) -> None:
        """To a host; nothing is lost with one that is gone: its end was told, or will be."""
        self._hosts.tell(host, message)

    # ------------------------------------------------------------ telling the daemon
    def report(self, event: AnyEvent) -> None:
        """Choreographies live by a clock that stands still while the machine sleeps; the head's does not."""
        run = self._runs.get(getattr(event, "job_id", ""))
        if run is not None:
            self._act_on(run, event)
        event = msgspec.structs.replace(event, at_s=time.clock_gettime(time.CLOCK_BOOTTIME))
        now_s = self.now_s()
        if run is not None:
            self._usage.note(event, now_s)
        if self._usage.keep(event):
            return
        asked: Collection[str] = ()
        if run is not None and isinstance(event, StepsReported):
            asked = self._usage.await_usage(event, run.checkpoint_dirs, now_s)
        if not asked and tells_anything(event):
            self._outbox.add(event)
        for host in asked:
            self._hosts.tell(host, messages.ReadUsage(run=getattr(event, "job_id", "")))

    def _report_all(self, events: Iterable[AnyEvent]) -> None:
        for event in events:
            self.report(event)

    def _act_on(self, run: DirectedRun, event: AnyEvent) -> None:
        """What follows on the hosts of a gang from what is told of it."""
        share = self._shares.told(event)
        if share is not None:
            self._set_share(run, run.checkpoint_dirs, share.generation, share.share)
        if isinstance(event, GangEnded) and event.outcome is Outcome.SUCCEEDED:
            for host in run.checkpoint_dirs:
                self._hosts.tell(host, messages.DropCode(job_id=run.job_id))
            others = (host for host in self._hosts.names if host not in run.checkpoint_dirs)
            self._drops_due.extend((host, run.job_id) for host in others)  # it may have had workers there

    def _send(self, events: Iterable[AnyEvent]) -> None:
        for event in events:
            self._outbox.add(event)
