"""The gangs of this machine, by job: how one begins, and what is known of it when it is no more."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from swell.executors.gang.effects import Choreography
from swell.executors.gang.elastic_controller import Gang
from swell.executors.gang.gang_settings import Conduct
from swell.executors.gang.job_context import DeviceBinding, Stage
from swell.executors.gang.restart_controller import RestartGang
from swell.executors.local.agent.job_code import drop_code, place_code
from swell.executors.local.agent.run import AgentRun, stopped_by_number
from swell.executors.local.logs.files import WORKER, job_folder, next_number
from swell.executors.local.protocol import LiveGang
from swell.model.command import GangCommand, LaunchGang, Reconfigure, StopGang
from swell.model.event import AnyEvent, GangEnded, Outcome, ResizeFailed
from swell.model.job import Elasticity

LOOPBACK = "127.0.0.1"
#: Ended gangs that are remembered, to answer a command that was said twice.
NUM_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class Legacy:
    """What a job's next gang is to know of the one before."""

    saved_steps: int = 0
    max_local_batch: int | None = None


class AgentGangs:
    """Live ones, and ended ones for a while."""

    def __init__(self, state_dir: Path, conduct: Conduct, bindings: Mapping[str, DeviceBinding]) -> None:
        """`bindings`: what each device id stands for; more may come."""
        self._state_dir = state_dir
        self._conduct = conduct
        self._bindings = bindings
        self._gangs: dict[str, Choreography] = {}  # the newest last
        self._legacies: dict[str, Legacy] = {}

    def get(self, job_id: str) -> Choreography | None:
        """The job's gang, which may have ended recently; None if there is none."""
        return self._gangs.get(job_id)

    def is_free(self, command: GangCommand) -> bool:
        """Whether the job has no gang, so that this command may begin one."""
        gang = self._gangs.get(command.job_id)
        return gang is None or (gang.is_over and command.generation > gang.generation)

    def live(self) -> tuple[LiveGang, ...]:
        """Gangs that have not ended."""
        return tuple(
            LiveGang(
                job_id=job_id,
                generation=gang.generation,
                devices=gang.devices,
                pids=gang.pids,
                steps=gang.steps,
            )
            for job_id, gang in self._gangs.items()
            if not gang.is_over
        )

    # ------------------------------------------------------------ begin and end
    def open(self, command: LaunchGang) -> AgentRun | GangEnded:
        """A run of a new gang that has yet to hear the command; or why there is none.

        What this machine lacks for now (a device, room on the disk) loses a gang: it is tried again. What the
        job itself makes impossible fails it.
        """
        if obstacle := self._obstacle(command):
            return self._not_launched(command, Outcome.LOST, obstacle)
        try:
            folder = job_folder(self._state_dir, command.job_id)
            (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
            place_code(self._state_dir, folder, command.spec)
            first = next_number(folder, WORKER)
        except ValueError as error:
            return self._not_launched(command, Outcome.FAILED, str(error))
        except OSError as error:
            return self._not_launched(command, Outcome.LOST, str(error))
        pids: dict[int, int] = {}
        gang = self._new_gang(command, folder, first, stopped_by_number(pids))
        self._gangs.pop(command.job_id, None)
        self._gangs[command.job_id] = gang
        return AgentRun(command.job_id, command.job_id, command.spec, gang, folder, self._bindings, pids=pids)

    def _new_gang(
        self, command: LaunchGang, folder: Path, first: int, is_stopped: Callable[[int], bool]
    ) -> Choreography:
        conduct, spec = self._conduct, command.spec
        checkpoints = str(folder / "checkpoints")
        stage = Stage(
            command.job_id, spec, command.total_steps, checkpoints, self._bindings, conduct.worker_settings
        )
        if spec.elasticity is Elasticity.RESTART:
            return RestartGang(stage, first, is_stopped, conduct.patience)
        before = self._legacies.get(command.job_id, Legacy())
        known = before.max_local_batch
        bound = command.max_local_batch if known is None else known
        return Gang(stage, first, is_stopped, before.saved_steps, conduct.patience, bound)

    def ended(self, run: AgentRun) -> None:
        """To be told of the end of every run; most are trials."""
        if isinstance(run.director, Gang):
            self._legacies[run.job_id] = Legacy(run.director.saved_steps, run.director.max_local_batch)
        over = [job_id for job_id, gang in self._gangs.items() if gang.is_over]
        for job_id in over[:-NUM_REMEMBERED]:
            del self._gangs[job_id]

    def forget_ended(self, untold: Collection[str]) -> None:
        """Another daemon has come: what it asks of a gang whose end is in the journal is no repetition.

        Its journal may be an older copy, in which that gang, and its generation, never were.
        """
        over = [job_id for job_id, gang in self._gangs.items() if gang.is_over and job_id not in untold]
        for job_id in over:
            del self._gangs[job_id]

    def told(self, event: AnyEvent) -> None:
        """To be told of every report."""
        if isinstance(event, GangEnded) and event.outcome is Outcome.SUCCEEDED:
            drop_code(job_folder(self._state_dir, event.job_id))

    # ------------------------------------------------------------ what cannot be
    def refusal(self, command: GangCommand) -> AnyEvent | None:
        """The answer, if the command cannot be about the job's gang."""
        if command.job_id not in self._gangs:
            return unknown(command)
        if isinstance(command, Reconfigure) and (obstacle := self._obstacle(command)):
            return ResizeFailed(
                at_s=0.0,
                job_id=command.job_id,
                generation=command.generation,
                message=f"job {command.job_id!r} cannot change: {obstacle}",
            )
        return None

    def _not_launched(self, command: LaunchGang, outcome: Outcome, why: str) -> GangEnded:
        return GangEnded(
            at_s=0.0,
            job_id=command.job_id,
            generation=command.generation,
            outcome=outcome,
            steps=self._legacies.get(command.job_id, Legacy()).saved_steps,
            message=f"job {command.job_id!r} cannot be started: {why}",
        )

    def _obstacle(self, command: LaunchGang | Reconfigure) -> str:
        """What is wrong if a device is not this machine's, or another job's workers are on it; else empty."""
        for device in command.target.devices:
            if device not in self._bindings:
                return f"device {device!r} is not one of this machine's; see `swell nodes`"
        for job_id, gang in self._gangs.items():
            shared = (
                set(gang.devices).intersection(command.target.devices) if job_id != command.job_id else None
            )
            if shared:
                return f"device {min(shared)!r} is still held by workers of job {job_id!r}"
        return ""


def unknown(command: GangCommand) -> GangEnded:
    """There is no such gang: a stop has what it wants, anything else has lost its gang."""
    outcome = Outcome.STOPPED if isinstance(command, StopGang) else Outcome.LOST
    return GangEnded(
        at_s=0.0,
        job_id=command.job_id,
        generation=command.generation,
        outcome=outcome,
        steps=0,
        message="" if outcome is Outcome.STOPPED else "the agent knows no such gang",
    )


def find_port() -> int:
    """One that is free now."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
