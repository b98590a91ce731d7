"""What becomes of commands of the scheduler: hosts make ready, then the gang hears of it."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from swell.executors.controller.directed_runs import DirectedRuns
from swell.executors.controller.known_hosts import KnownHosts, Opening, OpeningSet
from swell.executors.controller.protocol import ExecutorCommand
from swell.executors.controller.trials import TrialQueue
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord, RestartSet, StepTally
from swell.executors.gang.host_messages import CloseRun, OpenRun, WorkerOrder
from swell.model.command import GangCommand, LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang
from swell.model.event import GangEnded, Outcome, ResizeFailed
from swell.model.job import Elasticity, JobSpec


class CommandQueue:
    """Commands of a job whose hosts make ready wait in line; those of other jobs do not."""

    def __init__(
        self, hosts: KnownHosts, openings: OpeningSet, runs: DirectedRuns, trials: TrialQueue
    ) -> None:
        self._hosts, self._openings, self._runs, self._trials = hosts, openings, runs, trials

    def perform(self, command: ExecutorCommand) -> None:
        """Answered by events, now or later."""
        if isinstance(command, LaunchGang | Reconfigure):
            self._trials.make_way(command.target.devices)
        if isinstance(command, ProfileJob):
            self._trials.add(command)
        elif (opening := self._openings.under_way.get(command.job_id)) is not None:
            is_later = command.generation >= opening.commands[0].generation
            if isinstance(command, StopGang | SuspendGang) and is_later:
                self._call_off(opening, command)
            else:
                opening.commands.append(command)
        elif isinstance(command, LaunchGang) and self._is_new(command):
            if obstacle := self._runs.obstacle(command):
                self._runs.report(not_launched(command, Outcome.LOST, obstacle))
            else:
                hosts = self._hosts.of(command.target.devices)
                self._prepare(command, command.spec, command.total_steps, hosts)
        else:
            self._command(command)

    def forget_launches(self) -> None:
        """Another daemon has come. It takes a launch of which nothing is there yet for one that never was."""
        for opening in self._openings.under_way.values():
            if opening.commands and isinstance(opening.commands[0], LaunchGang):
                opening.is_called_off = True
                del opening.commands[1:]

    def _is_new(self, command: LaunchGang) -> bool:
        """Whether the job has no gang, so that this command begins one."""
        gang = self._runs.gang(command.job_id)
        return gang is None or (gang.is_over and command.generation > gang.generation)

    def _command(self, command: GangCommand) -> None:
        gang, run = self._runs.gang(command.job_id), self._runs.by_key.get(command.job_id)
        if gang is None:
            self._trials.cancel(command.job_id)
            self._runs.report(unknown(command))
        elif not isinstance(command, Reconfigure):
            self._obey(gang, command)
        elif obstacle := self._runs.obstacle(command):
            self._runs.report(cannot_change(command, obstacle))
        elif run is None or gang.is_over or command.generation < gang.generation:
            self._obey(gang, command)
        else:
            run.coming = self._hosts.of(command.target.devices)
            self._prepare(command, run.job.spec, run.job.total_steps, run.coming - run.hosts)

    def _obey(self, gang: GangController, command: GangCommand) -> None:
        run = self._runs.by_key.get(command.job_id)
        effects = gang.command(command, self._runs.now_s())
        if run is not None:
            self._runs.perform_effects(run, effects)
            self._runs.release_hosts(run)
        else:  # over: all it has to say is how it ended
            self._runs.report_all(effect for effect in effects if not isinstance(effect, WorkerOrder))

    def _call_off(self, opening: Opening, command: StopGang | SuspendGang) -> None:
        """The end of a gang waits for no host that makes ready for what it puts an end to."""
        first, *later = opening.commands
        is_launch = isinstance(first, LaunchGang) and not opening.is_called_off
        opening.is_called_off = True
        opening.commands = [first, *(other for other in later if other.generation > command.generation)]
        if is_launch:
            self._runs.report(not_launched(command, Outcome.STOPPED))
        else:
            self._command(command)

    # ------------------------------------------------------------ hosts make ready
    def _prepare(
        self,
        command: LaunchGang | Reconfigure,
        spec: JobSpec,
        total_steps: int | None,
        hosts: Collection[str],
    ) -> None:
        job_id, share = command.job_id, command.target.configuration.share
        order = OpenRun(run=job_id, job_id=job_id, spec=spec, total_steps=total_steps, share=share)
        self._openings.ask(order, hosts, partial(self._go_on, command), command)

    def _go_on(self, command: LaunchGang | Reconfigure, opening: Opening) -> None:
        """All hosts have answered: begin, and take what waits behind."""
        if (run := self._runs.by_key.get(command.job_id)) is not None:
            run.coming = set()
        is_begun = not opening.is_called_off and (
            self._launch(command, opening)
            if isinstance(command, LaunchGang)
            else self._change(command, opening)
        )
        if not is_begun:
            self._hosts.tell_all(opening.opened, CloseRun(run=command.job_id))
            if run is not None:
                self._runs.release_hosts(run)
        for following in opening.commands[1:]:
            self.perform(following)

    def _launch(self, command: LaunchGang, opening: Opening) -> bool:
        refusal = opening.refusal
        if refusal is None and (obstacle := self._runs.obstacle(command)):
            refusal = Outcome.LOST, obstacle  # since the hosts were asked
        if refusal is None and not opening.opened:
            refusal = Outcome.LOST, "it was given no devices"
        if refusal is not None:
            self._runs.report(not_launched(command, *refusal))
            return False
        former = self._runs.gang(command.job_id)
        is_restart = command.spec.elasticity is not Elasticity.LIVE
        known = GangRecord(max_local_batch=command.max_local_batch) if former is None else former.gang
        record = GangRecord(
            launch=command.generation,
            next_worker=max(known.next_worker, opening.first_worker),
            max_local_batch=known.max_local_batch or command.max_local_batch,
            saved_steps=command.done_steps,
            known_findings=command.known_findings,
            verified_steps=command.verified_steps,
            rolls_back=command.rolls_back,
            steps=command.done_steps if is_restart else 0,
            restarts=RestartSet(tally=StepTally(steps=command.done_steps)) if is_restart else None,
        )
        job = self._runs.job_context(command.job_id, command.spec, command.total_steps)
        _, gang = self._runs.begin_gang(job, record, opening.opened)
        self._obey(gang, command)
        return True

    def _change(self, command: Reconfigure, opening: Opening) -> bool:
        gang, run = self._runs.gang(command.job_id), self._runs.by_key.get(command.job_id)
        if gang is None or run is None:
            self._command(command)
            return False
        refusal = opening.refusal[1] if opening.refusal is not None else self._runs.obstacle(command)
        if refusal:
            self._runs.report(cannot_change(command, refusal))
            return False
        run.note_opened(opening.opened)
        gang.number_from(opening.first_worker)
        self._obey(gang, command)
        return True


# ---------------------------------------------------------------- answers to what no gang hears
def unknown(command: GangCommand) -> GangEnded:
    """There is no such gang: a stop has what it wants, anything else has lost its gang."""
    if isinstance(command, StopGang):
        return _ended(command, Outcome.STOPPED, "")
    return _ended(command, Outcome.LOST, "the agent knows no such gang")


def not_launched(command: GangCommand, outcome: Outcome, why: str = "") -> GangEnded:
    """The answer to a launch that comes to nothing, or to what has called it off."""
    return _ended(command, outcome, why and f"job {command.job_id!r} cannot be started: {why}")


def _ended(command: GangCommand, outcome: Outcome, message: str) -> GangEnded:
    generation = command.generation
    return GangEnded(
        at_s=0.0, job_id=command.job_id, generation=generation, outcome=outcome, steps=0, message=message
    )


def cannot_change(command: Reconfigure, why: str) -> ResizeFailed:
    """The answer to a change that its gang does not hear of."""
    message = f"job {command.job_id!r} cannot change: {why}"
    return ResizeFailed(at_s=0.0, job_id=command.job_id, generation=command.generation, message=message)
