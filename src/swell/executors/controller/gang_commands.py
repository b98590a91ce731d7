"""What becomes of commands of the scheduler: hosts make ready, then the gang hears of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from swell.executors.controller.directed_runs import DirectedRuns
from swell.executors.controller.gangs import KnownGangs, cannot_change, unknown
from swell.executors.controller.known_hosts import KnownHosts
from swell.executors.controller.protocol import ExecutorCommand
from swell.executors.controller.trials import Trials
from swell.executors.gang.effects import Report
from swell.executors.gang.gang_controller import GangController
from swell.executors.hosts import messages
from swell.executors.hosts.messages import RunOpened, RunRefused, trial_run
from swell.model.command import GangCommand, LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang
from swell.model.event import HostRuledOut, Outcome
from swell.model.job import JobSpec


@dataclass(slots=True)
class Preparation:
    """One command, what its hosts have answered so far, and the later commands of its job."""

    command: LaunchGang | Reconfigure
    opening: set[str] = field(default_factory=set)  #: hosts that have yet to open the run
    opened: dict[str, int] = field(default_factory=dict)  #: `first_worker` by host
    refusal: tuple[Outcome, str] | None = None  #: the first one
    is_called_off: bool = False  #: nothing follows from it but that what was opened is closed
    behind: deque[GangCommand] = field(default_factory=deque)

    def hear(self, host: str, answer: RunOpened | RunRefused) -> None:
        """No effect if the host was not asked, or has answered."""
        if host in self.opening:
            self.opening.discard(host)
            if isinstance(answer, RunOpened):
                self.opened[host] = answer.first_worker
            else:
                self.refusal = self.refusal or (answer.outcome, answer.why)

    def lose_host(self, host: str, why: str) -> None:
        """It answers nothing more, and what it has opened is gone with it."""
        if host in self.opening or host in self.opened:
            self.opening.discard(host)
            self.opened.pop(host, None)
            self.refusal = self.refusal or (Outcome.LOST, why)


class GangCommands:
    """Commands of a job whose hosts make ready wait in line; those of other jobs do not."""

    def __init__(
        self,
        hosts: KnownHosts,
        gangs: KnownGangs,
        runs: DirectedRuns,
        trials: Trials,
    ) -> None:
        self._hosts, self._gangs, self._runs, self._trials = hosts, gangs, runs, trials
        self.preparing: dict[str, Preparation] = {}  #: by job

    def perform(self, command: ExecutorCommand) -> None:
        """Answered by events, now or later."""
        if isinstance(command, LaunchGang | Reconfigure):
            self._trials.make_way(command.target.devices)
        if isinstance(command, ProfileJob):
            self._trials.add(command)
        elif (preparation := self.preparing.get(command.job_id)) is not None:
            is_later = command.generation >= preparation.command.generation
            if isinstance(command, StopGang | SuspendGang) and is_later:
                self._call_off(preparation, command)
            else:
                preparation.behind.append(command)
        elif isinstance(command, LaunchGang) and self._gangs.is_free(command):
            self._prepare_launch(command)
        else:
            self._command(command)

    def _command(self, command: GangCommand) -> None:
        gang = self._gangs.get(command.job_id)
        if gang is None:
            self._trials.cancel(command.job_id)
            self._runs.report(unknown(command))
            return
        if (refusal := self._gangs.refusal(command)) is not None:
            self._runs.report(refusal)
            return
        run = self._runs.by_key.get(command.job_id)
        is_old = gang.is_over or command.generation < gang.generation
        if run is None or is_old or not isinstance(command, Reconfigure):
            self._obey(gang, command)
        else:
            run.coming = self._hosts.of(command.target.devices)
            self._prepare(command, run.spec, run.coming - run.hosts)

    def _obey(self, gang: GangController, command: GangCommand) -> None:
        run = self._runs.by_key.get(command.job_id)
        if run is not None:
            self._gangs.note_wanted(command)
        effects = gang.command(command, self._runs.now_s())
        if run is not None:
            self._runs.do(run, effects, is_kept=True)
        else:  # over: all it has to say is how it ended
            for effect in effects:
                if isinstance(effect, Report):
                    self._runs.report(effect.event)

    def _call_off(self, preparation: Preparation, command: StopGang | SuspendGang) -> None:
        """The end of a gang waits for no host that makes ready for what it puts an end to."""
        is_launch = isinstance(preparation.command, LaunchGang) and not preparation.is_called_off
        preparation.is_called_off = True
        preparation.behind = deque(
            other for other in preparation.behind if other.generation > command.generation
        )
        if is_launch:
            self._runs.report(self._gangs.not_launched(command, Outcome.STOPPED))
        else:
            self._command(command)

    # ------------------------------------------------------------ hosts make ready
    def _prepare_launch(self, command: LaunchGang) -> None:
        if obstacle := self._gangs.obstacle(command):
            self._runs.report(self._gangs.not_launched(command, Outcome.LOST, obstacle))
            return
        self._prepare(command, command.spec, self._hosts.of(command.target.devices))

    def _prepare(self, command: LaunchGang | Reconfigure, spec: JobSpec, opening: set[str]) -> None:
        job_id, share = command.job_id, command.target.configuration.share
        preparation = self.preparing[job_id] = Preparation(command, opening=opening)
        order = messages.OpenRun(run=job_id, job_id=job_id, spec=spec, share=share)
        self._hosts.tell_all(opening, order)
        self._go_on(preparation)

    def _go_on(self, preparation: Preparation) -> None:
        """If all hosts have answered: begin, and take what waits behind."""
        job_id = preparation.command.job_id
        if preparation.opening or self.preparing.get(job_id) is not preparation:
            return
        del self.preparing[job_id]
        if (run := self._runs.by_key.get(job_id)) is not None:
            run.coming = set()
        if preparation.is_called_off:
            self._undo(preparation)
        elif isinstance(preparation.command, LaunchGang):
            self._launch(preparation, preparation.command)
        else:
            self._change(preparation, preparation.command)
        for command in preparation.behind:
            self.perform(command)

    def _undo(self, preparation: Preparation) -> None:
        """Hosts are as they were before they made ready."""
        self._close_all(preparation)
        if (run := self._runs.by_key.get(preparation.command.job_id)) is not None:
            self._runs.release_hosts(run)

    def _launch(self, preparation: Preparation, command: LaunchGang) -> None:
        refusal = preparation.refusal
        if refusal is None and (obstacle := self._gangs.obstacle(command)):
            refusal = Outcome.LOST, obstacle  # since the hosts were asked
        if refusal is None and not preparation.opened:
            refusal = Outcome.LOST, "it was given no devices"
        if refusal is not None:
            self._close_all(preparation)
            self._runs.report(self._gangs.not_launched(command, *refusal))
            return
        run = self._gangs.open(command, preparation.opened)
        self._runs.begin_run(run)
        gang = self._gangs.get(command.job_id)
        assert gang is not None  # noqa: S101 - it was just opened
        self._obey(gang, command)

    def _change(self, preparation: Preparation, command: Reconfigure) -> None:
        gang, run = self._gangs.get(command.job_id), self._runs.by_key.get(command.job_id)
        refusal = self._gangs.refusal(command)  # there may be one since the hosts were asked
        if preparation.refusal is not None:
            refusal = cannot_change(command, preparation.refusal[1])
        if gang is None or run is None:
            self._undo(preparation)
            self._command(command)
        elif refusal is not None:
            self._undo(preparation)
            self._runs.report(refusal)
        else:
            run.hosts.update(preparation.opened)
            gang.number_from(max(preparation.opened.values(), default=0))
            self._obey(gang, command)

    def _close_all(self, preparation: Preparation) -> None:
        """What was opened for a command that comes to nothing."""
        self._hosts.tell_all(preparation.opened, messages.CloseRun(run=preparation.command.job_id))

    # ------------------------------------------------------------ what hosts answer
    def hear_ready(self, host: str, message: RunOpened | RunRefused) -> None:
        """The answer to `OpenRun`, of gangs and of trial runs."""
        preparation = self.preparing.get(message.run)
        if isinstance(message, RunRefused) and message.is_lacking:
            self._rule_out(host, message)
        if preparation is not None:
            preparation.hear(host, message)
            self._go_on(preparation)
        elif isinstance(message, RunOpened):
            self._trials.opened(host, message)
        else:
            self._trials.refused(host, message)

    def _rule_out(self, host: str, refused: RunRefused) -> None:
        """Before what comes of it is told, so that the head does not choose the host again."""
        devices = tuple(sorted(device for device, of in self._hosts.host_of.items() if of == host))
        job_id = refused.run.removeprefix(trial_run(""))
        self._runs.report(HostRuledOut(at_s=0.0, job_id=job_id, devices=devices, message=refused.why))

    def lose_host(self, name: str, why: str) -> None:
        """It will answer nothing."""
        for job_id in list(self.preparing):
            self.leave_host(job_id, name, why)

    def leave_host(self, job_id: str, name: str, why: str) -> None:
        """The job waits for no answer of this host."""
        preparation = self.preparing.get(job_id)
        if preparation is not None:
            preparation.lose_host(name, why)
            self._go_on(preparation)
