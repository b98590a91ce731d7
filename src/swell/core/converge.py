"""Level-triggered: compares what is wanted with what is, and says what to do about the difference.

A lost message heals, because the difference is still there the next time. Nothing is handed out before
the processes that held it are gone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

import msgspec

from swell.core.record import JobRecord
from swell.core.state import HeadState
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang
from swell.model.job import Elasticity, Phase
from swell.model.plan import JobPlan
from swell.model.target import Configuration, Target


class Converger:
    """One pass over the jobs to change; keeps count of free devices as it goes.

    Args:
        yield_s: see `CoreSettings`.
        chooses_intervals: workers are told what to choose their interval between checkpoints by.
    """

    def __init__(
        self, state: HeadState, yield_s: float = math.inf, *, chooses_intervals: bool = False
    ) -> None:
        self._state, self._now_s = state, state.now_s
        self._yield_s, self._chooses_intervals = yield_s, chooses_intervals
        self._taken: dict[str, str] = {}  #: device -> job, in this pass
        self._plans: Mapping[str, JobPlan] = {}
        self.stopped: list[JobRecord] = []  #: that had been asked to give up devices, and took too long
        self.waiting: list[JobRecord] = []  #: for devices that others have yet to leave
        self.launched: list[JobRecord] = []  #: in this pass
        self.improvised: list[JobRecord] = []  #: that go elsewhere for now, and are to be planned again
        self.commands: list[AnyCommand] = []

    def run(self, plans: Mapping[str, JobPlan], is_short: bool = False) -> list[AnyCommand]:
        """Towards the plan.

        Args:
            plans: for the jobs whose devices are to be others than they are, at least.
            is_short: a promise needs more devices now than its job has.
        """
        self._plans = plans
        self._repair()
        if is_short:
            self._clear_away()
        for job_id, plan in plans.items():
            record = self._state.records.get(job_id)
            if record is not None and not record.phase.is_end:
                self._move_towards(record, plan.target)
        self._break_deadlocks()
        return self.commands

    def drain(self) -> list[AnyCommand]:
        """Towards nothing running at all."""
        self._repair()
        for record in self._state.records.values():
            self._leave(record)
        return self.commands

    def _clear_away(self) -> None:
        """A promise lacks devices: who does not come to give up theirs goes on from the last checkpoint."""
        for record in self._state.watchlist("leaving"):
            if self._is_late(record) and not record.admission.is_promised:
                self._stop(record)
                self.stopped.append(record)

    def _is_late(self, record: JobRecord) -> bool:
        return record.gang.is_leaving and self._now_s >= record.commanded.asked_s + self._yield_s

    def _repair(self) -> None:
        for record in self._state.watchlist("ailing"):
            if _must_stop(record) or (record.is_cancelled and self._is_late(record)):
                self._stop(record)
            elif record.gang.is_broken:
                self._heal(record)
            elif record.is_held:
                self._leave(record)
        owner = self._state.index.owner
        for job_id in sorted({owner[device] for device in self._state.reserved.keys() & owner.keys()}):
            record = self._state.records[job_id]
            if record.phase is Phase.STARTING and not record.is_apart:
                self._stop(record)  # what it would make room by could come too late

    def _leave(self, record: JobRecord) -> None:
        """Have it give up its devices, with its state saved if it has begun to train."""
        if record.phase is Phase.STARTING:
            self._stop(record)
        elif self._may_change(record):
            self._suspend(record)

    def _move_towards(self, record: JobRecord, target: Target) -> None:
        if record.phase is Phase.QUEUED:
            if target.devices and self._now_s >= record.backoff.until_s:
                self._launch(record, target)
        elif self._may_change(record):
            if not target.devices:
                self._suspend(record)
            elif set(target.devices) != set(record.gang.members.devices):
                self._reconfigure(record, target)
            elif target.configuration != record.gang.members.configuration:
                self._configure(record, target.configuration)

    def _may_change(self, record: JobRecord) -> bool:
        is_held_back = self._now_s < record.backoff.until_s
        return record.phase is Phase.RUNNING and not record.gang.is_pinned and not is_held_back

    def _launch(self, record: JobRecord, target: Target) -> None:
        if record.id in self._state.unknown.owner.values() or not self._take(record, target.devices):
            self.waiting.append(record)
            return
        record.advance(self._now_s)  # it has held nothing so far
        record.generation += 1
        record.become(record.gang.launch(self._with_time_to_loss(record, target)))
        times = record.commanded
        times.launched_s = times.changed_s = times.asked_s = self._now_s
        self.launched.append(record)
        self.commands.append(launch_of(record))

    def _reconfigure(self, record: JobRecord, target: Target) -> None:
        own = record.gang.members.devices
        if not self._may_take(record, target.devices):
            unbooked = self._unbooked(record)
            if len(target.devices) < len(own):
                target = msgspec.structs.replace(target, devices=self._part_to_keep(record, target.devices))
                self.improvised.append(record)
            if len(unbooked) < len(own) and not set(unbooked).issuperset(target.devices):
                self.improvised.append(record)
                if len(unbooked) < record.spec.min_workers * record.spec.devices_per_worker:
                    self._suspend(record)
                    return
                target = self._state.target_on(record, unbooked)
        if self._take_and_ask(record, target):
            record.commanded.changed_s = self._now_s

    def _unbooked(self, record: JobRecord) -> tuple[str, ...]:
        """Devices of its workers that have none of a booking: that does not wait for jobs to go elsewhere."""
        own, each = record.gang.members.devices, record.spec.devices_per_worker
        of_booking = [self._state.reserved.get(device) in self._state.bookings for device in own]
        workers = (slice(first, first + each) for first in range(0, len(own), each))
        return tuple(device for one in workers if not any(of_booking[one]) for device in own[one])

    def _part_to_keep(self, record: JobRecord, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Devices that a shrinking gang keeps for now: as many of its own as it is to have.

        So it does not wait for devices that other jobs have yet to release. It prefers devices of usable
        nodes, among them those that it is to have anyway, then those that no other job is to have.
        """
        plans = [plan for job, plan in self._plans.items() if job != record.id]
        others = {device for plan in plans for device in plan.target.devices}
        own, usable = record.gang.members.devices, self._state.devices
        first = sorted(own, key=lambda device: (device not in usable, device not in wanted, device in others))
        kept = set(first[: len(wanted)])
        return tuple(device for device in own if device in kept)

    def _configure(self, record: JobRecord, configuration: Configuration) -> None:
        """Its size stays, and with it the time since which it has been held."""
        is_share = configuration.trains_as(record.gang.members.configuration)
        if is_share and self._now_s < record.backoff.share_until_s:
            return
        self._ask(record, Target(devices=record.gang.members.devices, configuration=configuration))

    def _take_and_ask(self, record: JobRecord, target: Target) -> bool:
        """Whether the devices could be had; if not, it waits for them."""
        if not self._take(record, target.devices):
            self.waiting.append(record)
            return False
        self._ask(record, target)
        return True

    def _ask(self, record: JobRecord, target: Target) -> None:
        record.generation += 1
        target = self._with_time_to_loss(record, target)
        record.become(record.gang.ask(target))
        record.commanded.asked_s = self._now_s
        self.commands.append(Reconfigure(job_id=record.id, generation=record.generation, target=target))

    def _with_time_to_loss(self, record: JobRecord, target: Target) -> Target:
        """The target with what its workers choose their interval between checkpoints by, if they do."""
        spec = record.spec
        is_chosen = spec.checkpoint_interval_s is None and spec.elasticity is Elasticity.LIVE
        if not (self._chooses_intervals and is_chosen):
            return target
        time_s = self._state.mean_time_to_loss_s(target.devices)
        return msgspec.structs.replace(target, mean_time_to_loss_s=time_s)

    def _suspend(self, record: JobRecord) -> None:
        record.generation += 1
        record.become(record.gang.save())
        record.commanded.changed_s = record.commanded.asked_s = self._now_s
        self.commands.append(SuspendGang(job_id=record.id, generation=record.generation))

    def _stop(self, record: JobRecord) -> None:
        if record.gang.is_ending:
            return
        record.become(record.gang.end())
        self.commands.append(StopGang(job_id=record.id, generation=record.generation))

    def _heal(self, record: JobRecord) -> None:
        """Survivors of a loss go on at once, at whatever size they are; the plan may grow them later."""
        if record.phase is Phase.STOPPING:
            record.generation += 1
            record.become(record.gang.save())
            self.commands.append(SuspendGang(job_id=record.id, generation=record.generation))
            return
        # `changed_s` stays: a loss is no reason to hold the job at its smaller size.
        self._take_and_ask(record, self._state.target_on(record, record.gang.members.devices))

    def _take(self, record: JobRecord, devices: tuple[str, ...]) -> bool:
        """Make the devices this job's, if each is there and free or its own already."""
        is_free = self._may_take(record, devices)
        if is_free:
            self._taken.update(dict.fromkeys(devices, record.id))
        return is_free

    def _may_take(self, record: JobRecord, devices: tuple[str, ...]) -> bool:
        new = set(devices).difference(record.gang.members.devices)  # no other can have those of its gang
        unplaceable = set(devices).difference(self._state.devices, self._state.reserved_for(record))
        is_free = self._state.warned_devices.issuperset(unplaceable) and unplaceable.isdisjoint(new)
        for others in (self._state.index.owner, self._taken, self._state.unknown.owner):
            is_free = is_free and others.keys().isdisjoint(new)  # in this order: it looks up `new` alone
        return is_free

    def _break_deadlocks(self) -> None:
        """Gangs that wait for each other's devices: one of each circle steps aside.

        The smallest to which nothing is promised, if there is one: a promise may have no time to spare.
        """
        waits_for = {
            record.id: self._blockers(record) for record in self.waiting if record.phase is Phase.RUNNING
        }
        while circle := _circle(waits_for):
            record = min((self._state.records[job] for job in circle), key=_yields_first)
            self._suspend(record)
            self.improvised.append(record)
            del waits_for[record.id]

    def _blockers(self, record: JobRecord) -> set[str]:
        """Jobs whose devices it is to have."""
        plan = self._plans.get(record.id)
        devices = plan.target.devices if plan is not None else record.gang.members.devices
        owner = self._state.index.owner
        return {owner[device] for device in devices if device in owner} - {record.id}


def _must_stop(record: JobRecord) -> bool:
    """The gang is not wanted, or nothing of it is left. A cancelled gang may finish its checkpoint."""
    gang = record.gang
    is_saving = gang.is_saving and not gang.is_broken
    is_unwanted = record.is_cancelled or record.is_overdue
    return (is_unwanted and not is_saving) or (gang.is_broken and not gang.members.devices)


def _circle(waits_for: Mapping[str, Set[str]]) -> list[str]:
    """Some jobs of which each waits for the next one, and the last for the first; empty if there are none."""
    done: set[str] = set()
    for start in waits_for:
        path: list[str] = []
        todo = [(start, 0)]
        while todo:
            job, depth = todo.pop()
            del path[depth:]
            if job in path:
                return path[path.index(job) :]
            if job in done or job not in waits_for:
                continue
            path.append(job)
            todo += [(other, depth + 1) for other in sorted(waits_for[job])]
        done.add(start)
    return []


def _yields_first(record: JobRecord) -> tuple[bool, int, str]:
    return record.admission.is_promised, len(record.gang.members.devices), record.id


def trial_run(state: HeadState, record: JobRecord) -> ProfileJob:
    """Return the command for a new job's trial run, on the kind of device that the cluster has."""
    barred = [node.devices for node in state.cluster.nodes if node.name in record.ruled_out]
    nodes, sizes = state.usable.nodes or state.cluster.nodes, state.sizes_of(record)
    powers = sizes[(sizes & (sizes - 1)) == 0]  # a curve needs no more points than these
    return ProfileJob(
        job_id=record.id,
        spec=record.spec,
        sizes=tuple((powers if powers.size else sizes).tolist()),
        device_kind=nodes[0].kind if nodes else "",
        attempt=record.backoff.num_trials,
        avoid=tuple(sorted(state.warned_devices.difference(state.booked_for(record)).union(*barred))),
    )


def launch_of(record: JobRecord) -> LaunchGang:
    """Return the command that launches the record's gang, with its goal as target."""
    return LaunchGang(
        job_id=record.id,
        generation=record.generation,
        target=record.gang.goal,
        spec=record.spec,
        total_steps=record.known_total,
        max_local_batch=record.max_local_batch,
        done_steps=int(record.progress.done_steps) if record.spec.counts_steps else 0,
        known_findings=record.known_findings,
        verified_steps=record.verified_steps if record.is_to_roll_back else None,
        rolls_back=record.rolls_back,
    )


def pending(state: HeadState, record: JobRecord) -> AnyCommand | None:
    """The command that the job's next answer is to; None if none is out."""
    job_id, generation = record.id, record.generation
    if record.is_profiling:
        return trial_run(state, record)
    if record.gang.is_ending:
        return StopGang(job_id=job_id, generation=generation)
    if record.gang.is_launching:
        return launch_of(record)
    if record.gang.awaits_change:
        return Reconfigure(job_id=job_id, generation=generation, target=record.gang.goal)
    return SuspendGang(job_id=job_id, generation=generation) if record.gang.is_saving else None
