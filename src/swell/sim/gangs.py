"""All gangs of a simulated world: what commands and time make of them, and what the head hears of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec

from swell.checkpoint_interval import interval_s
from swell.model import event as events
from swell.model.command import GangCommand, LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.model.gang_state import GangState
from swell.model.job import Elasticity
from swell.model.node import Node
from swell.model.quantities import told_workers
from swell.model.target import ShareKind, Target
from swell.sim.change_cost import ChangeCost, GangChange
from swell.sim.event_queue import EventQueue
from swell.sim.faults import MESSAGE, FaultSource
from swell.sim.gang import WHOLE, AskedChange, SharedCores, SimGang
from swell.sim.job import SimJob
from swell.sim.outcome import SegmentLog

#: What a live gang says each second is news at first, and less and less so: a simulated one reports after so
#: long at a size, and then whenever that time has doubled.
FIRST_REPORT_S = 2.0
#: After so many, or so long, the time of a step is known well.
SETTLING_STEPS, SETTLING_S = 50, 60.0
#: What is expected of a gang holds while this of it stays as it is.
GENERATION, MARK, END_MARK = map(attrgetter, ("generation", "mark", "end_mark"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GangTimes:
    """How long things take that are no change of a gang, and how often gangs report."""

    profiling_s: float = 0.0  #: a trial run
    save_s: float = 0.0  #: writing a checkpoint, at a suspend and while it trains: training stands still
    exit_s: float = 0.0  #: from a job's last step to the end of its process
    notice_s: float = 0.0  #: from the loss of a node, whose workers train no more, until anyone hears of it
    grain_steps: float = 0.0  #: gangs change and report after so many steps; 0: at any moment
    #: What is done since the last one is lost with the last worker; None: as the head says of each gang.
    checkpoint_interval_s: float | None = None
    #: Between two reports of a gang, once it has trained so long at its size; inf: it only reports pauses,
    #: which is enough where belief is truth.
    report_s: float = math.inf


class SimGangs:
    """The truth about training. Everything the head hears of it goes through `tell`."""

    def __init__(
        self,
        cost: ChangeCost,
        timings: GangTimes,
        queue: EventQueue,
        tell: Callable[[events.AnyEvent], None],
        faults: FaultSource,
        log: SegmentLog | None = None,
    ) -> None:
        self._log = log
        self.unnoticed_device_s = 0.0  #: of devices that were gone, until the head heard of that
        self._cores: SharedCores | None = None  #: None: no node has any, each device has its own
        self.training: dict[str, SimGang] = {}
        self.version = 0  #: changes whenever who trains on what does
        self._cost = cost
        self._timings = timings
        self._queue = queue
        self._tell = tell
        self._faults = faults
        self._silent: dict[str, float] = {}  #: since when devices are gone, of which no event has told yet
        self._node_of: dict[str, str] = {}  #: of a device, of all nodes that there have been
        self._left: dict[str, SimGang] = {}  #: job id -> its latest gang, if that is no more

    def usage(self) -> tuple[int, float]:
        """Devices of all gangs, and the sum over jobs of rate / rate on one device.

        Sums are in the order in which gangs were launched, so that their rounding comes out again.

        References: ElasticFlow, Eq. 8, times M.
        """
        gangs = self.training.values()
        speedups = [gang.rate_per_s / gang.job.speed.one_device_rate_per_s for gang in gangs]
        return sum([len(gang.devices) for gang in gangs]), sum(speedups)

    # ------------------------------------------------------------ from elsewhere
    def adopt(self, training: SimGang, now_s: float) -> None:
        """A gang that is there already; one without a rate stands still until it is told to change or end."""
        training.node_of = self._node_of
        training.become(GangState.TRAINING)
        self._save_each(training, None, now_s)
        self.training[training.job.id] = training
        self._note(training, now_s)
        self.version += 1
        if training.rate_per_s > 0.0:
            self._expect_end(training, now_s)
            self._expect_report(training, now_s)

    def shelve(self, training: SimGang) -> None:
        """A job without a gang, which will go on from `saved_steps`."""
        training.become(GangState.ENDED)
        self._left[training.job.id] = training

    def forget(self, job_id: str) -> None:
        """The job is over: it has no next gang."""
        self._left.pop(job_id, None)

    # ------------------------------------------------------------ commands
    def launch(self, job: SimJob, command: LaunchGang, gone: frozenset[str], now_s: float) -> None:
        latest = self.training.get(job.id) or self._left.get(job.id)
        if latest is not None and command.generation <= latest.generation:
            self._answer_again(latest, command, now_s)
            return
        training = SimGang(
            job, command.generation, command.target.devices, as_of_s=now_s, node_of=self._node_of
        )
        before = self._left.pop(job.id, None)
        if before is not None:
            training.steps = training.saved_steps = before.saved_steps
            training.known_sets = before.known_sets
            training.mark = before.end_mark  # what was expected of that gang is not expected of this one
        self.training[job.id] = training
        self.version += 1
        if gone:
            self._end(training, now_s, events.Outcome.LOST, "a device of it is gone")
            return
        delay_s = self._begin(training, 0, command.target, now_s)
        self._note(training, now_s)
        self._expect(now_s + delay_s, training, self.started)

    def reconfigure(self, command: Reconfigure, gone: frozenset[str], now_s: float) -> None:
        if (training := self._addressed(command, now_s)) is None:
            return
        if obstacle := _obstacle(training, command.target, gone):
            self._fail(training, now_s, obstacle)
            return
        training.is_unheard = False
        delay_s = self._begin(training, len(training.devices), command.target, now_s)
        self._note(training, now_s)
        self._may_lose_worker(training, now_s + delay_s / 2)
        self._expect(now_s + delay_s, training, self.changed)

    def suspend(self, command: SuspendGang, now_s: float) -> None:
        if (training := self._addressed(command, now_s)) is None:
            return
        training.become(GangState.SAVING)
        training.is_unheard = False
        if training.job.spec.fixed:
            self._end_in_grace(training, self.left, now_s)
            return
        boundary_s = self._boundary_s(training, now_s)
        if self._timings.grain_steps and boundary_s >= training.end_s():
            return  # it is done before it can leave
        training.advance(boundary_s)
        self._boundary_s(training, boundary_s)  # whole steps, to the last digit
        training.halt(boundary_s)
        self._note(training, boundary_s)
        self._may_lose_worker(training, boundary_s + self._timings.save_s / 2)
        self._expect(boundary_s + self._timings.save_s, training, self.left)

    def stop(self, command: StopGang, now_s: float) -> None:
        if (training := self.training.get(command.job_id)) is None:
            self._tell_end(command, now_s)
        else:
            training.generation = command.generation
            training.become(GangState.STOPPING)
            self._end_in_grace(training, partial(self._end, outcome=events.Outcome.STOPPED), now_s)

    def _end_in_grace(self, training: SimGang, ended: Callable[[SimGang, float], None], now_s: float) -> None:
        """A command is told to end, and takes all the time that it is given; workers take none."""
        if training.grace_s <= 0.0:
            ended(training, now_s)
            return
        training.halt(now_s)
        self._note(training, now_s)
        self._expect(now_s + training.grace_s, training, ended)

    def _addressed(self, command: GangCommand, now_s: float) -> SimGang | None:
        """The gang that is to obey. None: there is none, or the command was said before, or one that
        supersedes it; the answer is told then.
        """
        training = self.training.get(command.job_id)
        if training is None:
            self._tell_end(command, now_s)
        elif command.generation <= training.generation:
            self._answer_again(training, command, now_s)
        else:
            training.generation, training.answer = command.generation, None
            return training
        return None

    def _tell_end(self, command: GangCommand, now_s: float) -> None:
        left = self._left.get(command.job_id)
        if left is not None and left.answer is not None:
            self._tell(msgspec.structs.replace(left.answer, at_s=now_s, generation=command.generation))
            return
        outcome = events.Outcome.STOPPED if isinstance(command, StopGang) else events.Outcome.LOST
        self._tell(
            events.GangEnded(
                at_s=now_s,
                job_id=command.job_id,
                generation=command.generation,
                outcome=outcome,
                steps=0 if left is None else math.floor(left.saved_steps),
                message="" if outcome is events.Outcome.STOPPED else "there is no such gang",
            )
        )

    def _answer_again(self, training: SimGang, command: GangCommand, now_s: float) -> None:
        """The command was said before; an answer that is still to come will come by itself."""
        if training.answer is not None and command.generation == training.generation:
            self._tell(msgspec.structs.replace(training.answer, at_s=now_s))

    def _reply(self, training: SimGang, event: events.AnyEvent) -> None:
        training.answer = event
        self._tell(event)

    def _fail(self, training: SimGang, now_s: float, message: str) -> None:
        """The change was not to be had: it trains on as it was, and goes on reporting."""
        training.become(GangState.TRAINING)
        self._note(training, now_s)
        self._reply(training, events.ResizeFailed(**_facts(training, now_s), message=message))
        self._expect_report(training, now_s)

    def _begin(self, training: SimGang, before: int, target: Target, now_s: float) -> float:
        """Note the change that is under way; returns when it takes place, in seconds from now."""
        profile, devices = training.job.profile, target.devices
        if training.trains_on(devices):  # the same members go on with another batch, at once
            training.become(GangState.FORMING, AskedChange(target, None))
            return 0.0
        change = GangChange(
            before=before,
            after=len(devices),
            is_known_set=frozenset(devices) in training.known_sets,
            state_bytes=profile.state_bytes,
            start_s=profile.start_s,
            is_restart=training.job.spec.elasticity is Elasticity.RESTART,
        )
        cost = (training.job.cost or self._cost)(change)
        training.become(GangState.FORMING, AskedChange(target, cost.pause_s))
        return cost.delay_s

    # ------------------------------------------------------------ what time brings
    def _expect(
        self,
        at_s: float,
        training: SimGang,
        then: Callable[[SimGang, float], None],
        mark: Callable[[SimGang], object] = GENERATION,
    ) -> None:
        """Have this happen to the gang, unless it is no more by then, or the mark is another."""

        def happen(expected: object, now_s: float) -> None:
            if self.training.get(training.job.id) is training and mark(training) == expected:
                then(training, now_s)

        self._queue.put(at_s, partial(happen, mark(training)))

    def started(self, training: SimGang, now_s: float) -> None:
        change = training.change
        if change is None or self._hangs(training):
            return
        if self._is_struck("launch", training):
            self._end(training, now_s, events.Outcome.LOST, MESSAGE)
            return
        training.formed_s = now_s
        steps = training.told_steps
        self._reply(training, events.GangStarted(**_facts(training, now_s), steps=steps, pids=()))
        self._train(training, change.target, change.pause_s or 0.0, now_s)
        if training.job.spec.starts_silently:
            self._expect(max(training.resumes_s, now_s), training, self.resumed, MARK)
        if self._is_struck("warning", training):
            warning = events.JobWarned(
                at_s=now_s, job_id=training.job.id, message=MESSAGE, about="simulation"
            )
            self._tell(warning)

    def changed(self, training: SimGang, now_s: float) -> None:
        change = training.change
        if change is None or self._hangs(training):
            return
        if (boundary_s := self._boundary_s(training, now_s)) > now_s:
            self._expect(boundary_s, training, self.changed)
            return
        if training.rate_per_s > 0.0 and self._is_struck("resize", training):
            self._fail(training, now_s, MESSAGE)
            return
        training.advance(now_s)
        steps = math.floor(training.steps)
        self._reply(training, events.GangResized(**_facts(training, now_s), steps=steps, pids=()))
        self._train(training, change.target, change.pause_s, now_s)
        if training.state is GangState.ENDED:
            return  # it cannot be what it was told to be
        if change.pause_s is not None:
            training.paused_s = training.change_pause_s
        if change.pause_s is not None or training.resumes_s > now_s:  # its end is still to be told
            self._expect(training.resumes_s, training, self.resumed, MARK)

    def resumed(self, training: SimGang, now_s: float) -> None:
        training.advance(now_s)
        self._report(training, now_s, pause_s=training.paused_s)
        if training.job.spec.starts_silently and math.isinf(self._timings.report_s):
            # It has no trial run: this report shows how fast it is.
            num_steps = max(1, min(SETTLING_STEPS, int(SETTLING_S * training.rate_per_s)))
            self._expect(now_s + num_steps / training.rate_per_s, training, self.reported)

    def reported(self, training: SimGang, now_s: float) -> None:
        if training.rate_per_s <= 0.0:
            return
        training.advance(now_s)
        boundary_s = self._boundary_s(training, now_s)
        if self._counts_steps(training):
            boundary_s = max(boundary_s, training.whole_step_s(), training.first_step_s())
        if boundary_s > now_s:
            self._expect(boundary_s, training, self.reported)
            return
        self._report(training, now_s, step_s=1.0 / training.rate_per_s)
        self._expect_report(training, now_s)

    def left(self, training: SimGang, now_s: float) -> None:
        if self._hangs(training):
            return
        if not training.job.spec.fixed and self._is_struck("suspend", training):
            as_it_was = Target(devices=training.devices, configuration=training.configuration)
            self._train(training, as_it_was, 0.0, now_s)
            self._reply(training, events.SuspendFailed(**_facts(training, now_s), message=MESSAGE))
            return
        steps = training.saved_steps = training.told_steps
        self._remove(training, now_s, "suspended")
        self._reply(training, events.GangSuspended(**_facts(training, now_s), steps=steps))

    def ended(self, training: SimGang, now_s: float) -> None:
        training.advance(now_s)
        training.steps = float(training.end_step)
        job = training.job
        if job.dies_at_step is not None and job.dies_at_step <= job.num_steps:
            self._end(training, now_s, events.Outcome.FAILED, f"its script fails at step {job.dies_at_step}")
        else:
            self._end(training, now_s, events.Outcome.SUCCEEDED)

    def turned(self, training: SimGang, now_s: float) -> None:
        """The gang goes on at another speed, or at what its steps are worth in the next epoch."""
        turn = training.next_turn
        training.advance(now_s)
        training.steps = max(training.steps, turn)
        training.mark += 1
        training.rate_per_s = training.true_rate_per_s
        self._note(training, now_s)
        self.version += 1
        self._report(training, now_s)
        self._expect_end(training, now_s)

    # ------------------------------------------------------------ neighbours on a node
    def join(self, node: Node, cpu_shares: ShareKind) -> None:
        """The node is there from now on."""
        self._node_of |= dict.fromkeys(node.devices, node.name)
        if node.cores is not None:
            self._cores = self._cores or SharedCores(cpu_shares)
            self._cores.add(node, node.cores)

    def contends(self, job_id: str, now_s: float) -> None:
        training = self.training.get(job_id)
        if training is not None and self._cores is not None:
            self._cores.note(training)

    def settle(self, now_s: float) -> None:
        """Gangs go at the pace that their neighbours leave them, after all that has changed by now."""
        if self._cores is None:
            return
        for training, pace in self._cores.settle(now_s):
            if training.steps_at(now_s) >= training.end_step:
                continue  # it is on its way out
            training.go_at(pace, now_s)
            if self._log is not None:
                self._log.note(training, now_s)
            self.version += 1
            self._expect_end(training, now_s)

    def _note(self, training: SimGang, now_s: float, ended: str = "") -> None:
        """What the gang does has changed, or it is no more (`ended`: how)."""
        if self._log is not None and ended:
            self._log.end(training, now_s, ended)
        elif self._log is not None:
            self._log.note(training, now_s)
        if self._cores is not None:
            self._cores.note(training)
            if training.rate_per_s > 0.0 and training.resumes_s > now_s and not ended:
                self._queue.put(training.resumes_s, partial(self.contends, training.job.id))

    def _is_struck(self, kind: str, training: SimGang) -> bool:
        return self._faults.is_struck(kind, training.job.id, training.generation)

    # ------------------------------------------------------------ faults
    def silence(self, gone: frozenset[str], now_s: float) -> None:
        """These devices are no more, which is heard at `lose`. The workers that are left wait until then."""
        self._silent |= dict.fromkeys(gone, now_s)
        for training in self.training.values():
            if not gone.isdisjoint(training.devices) and training.rate_per_s > 0.0:
                training.halt(now_s)
                training.drop_step(self._timings.grain_steps)
                self._note(training, now_s)
                self.version += 1

    def _hangs(self, training: SimGang) -> bool:
        """Whether it waits for workers that are gone, and of which no event has told."""
        return not self._silent.keys().isdisjoint(training.occupied)

    def _count_unnoticed(self, training: SimGang, devices: Collection[str], now_s: float) -> None:
        """Count the time for which the gang has had devices of these that are gone."""
        formed_s = training.formed_s
        if self._silent and formed_s is not None:
            held = self._silent.keys() & devices & set(training.devices)
            times_s = [now_s - max(self._silent[device], formed_s) for device in held]
            self.unnoticed_device_s += math.fsum(times_s)

    def lose(self, gone: frozenset[str], now_s: float) -> None:
        """These devices are no more, and with them the workers on them."""
        for training in self.training.values():
            self._count_unnoticed(training, gone, now_s)
        self._silent = {device: at_s for device, at_s in self._silent.items() if device not in gone}
        for training in list(self.training.values()):
            if not gone.isdisjoint(training.occupied):
                self._lose_devices(training, gone, now_s, "a node was lost")

    def lose_worker(self, training: SimGang, now_s: float) -> None:
        newest = training.devices[-training.job.spec.devices_per_worker :]
        self._lose_devices(training, frozenset(newest), now_s, MESSAGE)

    def _may_lose_worker(self, training: SimGang, at_s: float) -> None:
        if self._is_struck("loss", training):
            self._expect(at_s, training, self.lose_worker)

    def _lose_devices(self, training: SimGang, gone: frozenset[str], now_s: float, cause: str) -> None:
        """The workers that are left wait for the head's word. A gang that was starting is lost whole."""
        devices, each = training.devices, training.job.spec.devices_per_worker
        workers = (devices[first : first + each] for first in range(0, len(devices), each))
        left = tuple(chain.from_iterable(worker for worker in workers if gone.isdisjoint(worker)))
        if training.formed_s is None or not left or training.job.spec.fixed:
            training.lose_unsaved(now_s)
            self._end(training, now_s, events.Outcome.LOST, cause)
            return
        lost = tuple(device for device in training.devices if device not in left)
        if not lost:
            self._fail(training, now_s, cause)
            return
        if training.state is GangState.FORMING:
            training.become(GangState.TRAINING)
        training.halt(now_s)
        training.drop_step(self._timings.grain_steps)
        training.devices, training.is_unheard = left, True
        self._note(training, now_s)
        self.version += 1
        self._reply(training, events.WorkersLost(**_facts(training, now_s), devices=lost, message=cause))

    # ------------------------------------------------------------ the same for all
    def _boundary_s(self, training: SimGang, now_s: float) -> float:
        """When the steps under way are done that nothing cuts in two; now if none is under way."""
        grain = self._timings.grain_steps
        if not grain or training.rate_per_s <= 0.0:
            return now_s
        training.advance(now_s)
        done = math.ceil(training.steps / grain - WHOLE) * grain
        left = done - training.steps
        if left <= WHOLE * grain:
            training.steps = done
            return now_s
        return training.reach_s(done)

    def _train(self, training: SimGang, target: Target, pause_s: float | None, now_s: float) -> None:
        training.become(GangState.TRAINING)
        self._save_each(training, target.mean_time_to_loss_s, now_s)
        training.train_on(target, now_s, pause_s or 0.0)
        if not training.is_possible:
            batch, workers = training.global_batch or "its own", told_workers(training.num_workers)
            self._end(training, now_s, events.Outcome.LOST, f"{workers} cannot have a batch of {batch}")
            return
        self._note(training, now_s)
        self.version += 1
        self._expect_end(training, now_s)
        reports = math.isfinite(self._timings.report_s) and not training.job.spec.fixed
        if pause_s is not None and self._cores is not None and reports:
            # It is reported at once: later losses are compared with the one after it.
            training.report_due_s = max(now_s, training.resumes_s)
            training.report_step = math.floor(training.steps + WHOLE) + 1.0
            self._expect(training.report_due_s, training, self.reported)
        else:
            self._expect_report(training, now_s, goes_on=pause_s is None)

    def _save_each(self, training: SimGang, mean_time_to_loss_s: float | None, now_s: float) -> None:
        """The gang makes checkpoints as live workers do, by the same rule."""
        if training.job.spec.fixed:
            return
        timings, named_s = self._timings, training.job.spec.checkpoint_interval_s
        fixed_s = timings.checkpoint_interval_s if named_s is None else named_s
        training.advance(now_s)
        training.save_each(interval_s(fixed_s, mean_time_to_loss_s, timings.save_s), timings.save_s, now_s)

    def _expect_end(self, training: SimGang, now_s: float) -> None:
        """Schedule the job's end, or the change of its speed that comes before it."""
        turn_s = training.turn_s()
        if math.isfinite(turn_s):
            self._expect(max(turn_s, now_s), training, self.turned, END_MARK)
        elif training.end_s() > training.limit_s:
            expire = partial(self._end, outcome=events.Outcome.TIMED_OUT)
            self._expect(training.limit_s + training.grace_s, training, expire, END_MARK)
        else:
            end_s = max(training.end_s(), now_s) + self._timings.exit_s
            self._expect(end_s, training, self.ended, END_MARK)

    def _expect_report(self, training: SimGang, now_s: float, goes_on: bool = False) -> None:
        """A gang whose members go on as they are reports when it would have without the change."""
        if math.isfinite(self._timings.report_s) and not training.job.spec.fixed:
            if not goes_on:
                since_s = max(now_s, training.resumes_s)
                so_far_s = (
                    math.inf if self._cores is not None else max(since_s - training.resumes_s, FIRST_REPORT_S)
                )
                training.report_due_s = since_s + min(so_far_s, self._timings.report_s)
            self._expect(max(now_s, training.report_due_s), training, self.reported)

    def _counts_steps(self, training: SimGang) -> bool:
        """Whether it reports at the end of a step, as live gangs do: that says how long steps take."""
        is_heard = math.isfinite(self._timings.report_s)
        return is_heard or self._cores is not None or training.job.loss is not None

    def _report(
        self, training: SimGang, now_s: float, step_s: float | None = None, pause_s: float | None = None
    ) -> None:
        training.advance(now_s)
        if self._counts_steps(training):
            training.steps = max(training.steps, float(math.floor(training.steps + WHOLE)))
        self._tell(
            events.StepsReported(
                **_facts(training, now_s),
                steps=math.floor(training.steps),
                num_workers=training.num_workers,
                global_batch=training.global_batch,
                step_s=step_s,
                pause_s=pause_s,
                noise_scale=training.noise_scale(),
                save_s=self._timings.save_s or None,
                usage=training.usage,
                **training.loss(),
            )
        )

    def _end(self, training: SimGang, now_s: float, outcome: events.Outcome, message: str = "") -> None:
        """Its processes are gone, at once."""
        self._count_unnoticed(training, self._silent.keys(), now_s)
        training.halt(now_s)
        self._remove(training, now_s, outcome.value)
        steps = training.told_steps
        end = events.GangEnded(**_facts(training, now_s), outcome=outcome, steps=steps, message=message)
        self._reply(training, end)

    def _remove(self, training: SimGang, now_s: float, how: str) -> None:
        training.become(GangState.ENDED)
        del self.training[training.job.id]
        self._left[training.job.id] = training
        self.version += 1
        self._note(training, now_s, how)


def _facts(training: SimGang, now_s: float) -> dict[str, Any]:
    return {"at_s": now_s, "job_id": training.job.id, "generation": training.generation}


def _obstacle(training: SimGang, target: Target, gone: frozenset[str]) -> str:
    """Why the gang cannot become this; empty if it can."""
    if training.is_unheard and set(target.devices) != set(training.devices):
        return "workers had been lost when this was asked for"
    if gone:
        return "a device of it is gone"
    is_fixed = training.job.batches is None and not training.job.spec.may_change_batch
    if target.configuration.global_batch is not None and is_fixed:
        return "its batch is its own, and not open"
    return ""
