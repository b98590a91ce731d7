"""The gangs of a platform, by job: how one begins, and what is known of it when it is no more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from swell.executors.controller.protocol import LiveGang
from swell.executors.controller.run import DirectedRun, WholeRun
from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord, read_record
from swell.executors.gang.gang_settings import GangSettings
from swell.executors.gang.job_context import DeviceBinding, JobContext
from swell.executors.gang.restart_state import Restarts
from swell.model.command import GangCommand, LaunchGang, Reconfigure
from swell.model.job import Elasticity
from swell.model.target import Target

#: Ended gangs that are remembered, to answer a command that was said twice.
NUM_REMEMBERED = 1000


class KnownGangs:
    """The gangs that the controller knows: live ones, and ended ones for a while."""

    def __init__(
        self,
        gang_settings: GangSettings,
        bindings: Mapping[str, DeviceBinding],
        hosts: Mapping[str, str],
    ) -> None:
        """
        Args:
            bindings: what each device id stands for; more may come.
            hosts: the host of each device id; likewise.
        """
        self._next_numbers: dict[str, int] = {}  #: of jobs: no worker has had this number, or a higher one
        self._gang_settings = gang_settings
        self._bindings = bindings
        self._hosts = hosts
        self._gangs: dict[str, GangController] = {}  # the newest last
        #: By device, jobs whose gangs may be on it. A gang keeps its claims until it is over: on its way from
        #: one set of devices to another it may be on both.
        self._claims: defaultdict[str, set[str]] = defaultdict(set)
        self._max_local_batch: dict[str, int] = {}  #: by job, as its latest gang has found out

    def get(self, job_id: str) -> GangController | None:
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
    def open(self, command: LaunchGang, opened: Mapping[str, int]) -> DirectedRun:
        """A run of a new gang that has yet to hear the command.

        Args:
            opened: `RunOpened.first_worker`, by host, of every host of the command's devices.
        """
        first = max(self._next_numbers.get(command.job_id, 0), *opened.values())
        gang = GangRecord(
            next_worker=first,
            max_local_batch=self._max_local_batch.get(command.job_id, command.max_local_batch),
            restarts=Restarts() if command.spec.elasticity is Elasticity.RESTART else None,
        )
        return self._enter(command, gang, set(), set(opened))

    def adopt(self, whole: WholeRun) -> DirectedRun:
        """A run of a gang that another controller launched, and that has yet to take the record over."""
        answers, record = whole.kept, whole.record
        order = next(iter(answers.values())).order
        command = LaunchGang(
            job_id=order.job_id,
            generation=record.launch,
            target=Target(devices=()),
            spec=order.spec,
            total_steps=record.total_steps,
        )
        known = read_record(record.gang)
        first = max(self._next_numbers.get(order.job_id, 0), *(a.first_worker for a in answers.values()))
        known.next_worker = max(known.next_worker, first)
        stopped = {worker.number for worker in whole.workers.values() if worker.is_stopped}
        run = self._enter(command, known, stopped, set(answers))
        for slot in (*known.wanted_slots, *(member.slot for member in known.members.values())):
            self._claim(run.job_id, slot)
        run.record = record
        run.workers, run.dealings = whole.hosts_of_workers, whole.dealings
        return run

    def note_wanted(self, command: GangCommand) -> None:
        """Record the devices that a command gives its gang. Call it before the gang gets the command."""
        if isinstance(command, LaunchGang | Reconfigure):
            self._claim(command.job_id, command.target.devices)

    def _claim(self, job_id: str, devices: Iterable[str]) -> None:
        for device in devices:
            self._claims[device].add(job_id)

    def note_numbers(self, job_id: str, workers: Collection[int]) -> None:
        """These are about to be started."""
        if workers:
            self._next_numbers[job_id] = max(self._next_numbers.get(job_id, 0), max(workers) + 1)

    def _enter(
        self, command: LaunchGang, gang: GangRecord, stopped: set[int], hosts: set[str]
    ) -> DirectedRun:
        job_id, settings = command.job_id, self._gang_settings
        job = JobContext(
            job_id, command.spec, command.total_steps, self._bindings, settings.worker_settings, self._hosts
        )
        controller = GangController(job, gang, stopped.__contains__, settings.timeouts)
        self._gangs.pop(job_id, None)
        self._gangs[job_id] = controller
        return DirectedRun(
            job_id,
            job_id,
            command.spec,
            controller,
            stopped,
            hosts=hosts,
            launch=command.generation,
            total_steps=command.total_steps,
        )

    def ended(self, run: DirectedRun) -> None:
        """Record the end of any run, trial or not: a gang's device claims end, and its legacy is kept."""
        gang = run.gang
        if gang is not None:
            for jobs in self._claims.values():
                jobs.discard(run.job_id)
            if gang.gang.max_local_batch is not None:
                self._max_local_batch[run.job_id] = gang.gang.max_local_batch
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

    def obstacle(self, command: LaunchGang | Reconfigure) -> str:
        """What is wrong if a device is of no host, or another job's workers are on it; else empty."""
        for device in command.target.devices:
            if device not in self._hosts:
                return f"device {device!r} is not one of this machine's; see `swell nodes`"
            for job_id in sorted(self._claims[device] - {command.job_id}):
                if (gang := self._gangs.get(job_id)) is not None and device in gang.devices:
                    return f"device {device!r} is still held by workers of job {job_id!r}"
        return ""
