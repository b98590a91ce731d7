"""A script under Swell: the gang changes while it trains, as the agent says.

An order (Regroup, Suspend) waits in the link. As soon as a Regroup comes, a thread of each worker begins to
form its group, while the present one trains (`next_group`). Each step's all-reduce sums how many workers are
ready to change: their next group is formed, or the order is to leave or to suspend. When all are, all carry
it out before the next step: they leave the present group, enter the next one, and those who lack the state
take it over. So nobody connects to anybody at the switch.

Until all have voted the present group goes on, whatever becomes of the next one: a joiner dies, a member
cannot be reached, a newer order comes. A worker whose next group fails says JoinFailed and does not vote for
it, and no worker has entered that group, for this takes the votes of all. Once all have voted, all leave the
present group. One whose next group fails in that very moment says Broken and waits for the next order; the
others miss it in the group that they have entered.

The agent sends an order to every member of a generation, and the next one when that is done or has failed. A
worker in no group, before the first and after a broken one, waits for the next group and enters it at once.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec
import torch

from swell.tally import Reduction, Tally, tally_of
from swell.train.collective.gradients import StepTotals, StepVote
from swell.train.collective.group import GroupBroken, check_no_group
from swell.train.collective.next_group import FormFailed
from swell.train.collective.positions import Positions
from swell.train.data.loader import Feed
from swell.train.data.place import Place, StreamPosition
from swell.train.data.sample_schedule import Share, tighter
from swell.train.link.agent_link import Link, Order, Superseded, close_script, exit_now
from swell.train.link.code_paths import place_of
from swell.train.link.pending_values import PendingValues
from swell.train.runtime.host import Host, Task, warm_up
from swell.train.runtime.meter import Meter
from swell.train.runtime.proof import Proof, Prover
from swell.train.runtime.share_balance import ShareBalance
from swell.train.runtime.step_comparison import tolerance_of
from swell.train.runtime.witness import (
    StepNotes,
    WitnessedStep,
    WorkerNotes,
    different_reports,
    read_witness,
)
from swell.train.state.checkpoint import CheckpointStore, SaveError, room_for_next
from swell.train.state.codec import EncodeError
from swell.train.state.drift import DriftError, DriftWatch
from swell.train.state.loss import LossNotFinite, not_finite
from swell.train.state.state_transfer import (
    NO_STATE,
    MemberCard,
    allow_siblings,
    hand_state,
    own_place,
)
from swell.wire import environ, messages
from swell.wire.checkpoint_files import checkpoint_name, steps_in, witness_path
from swell.wire.reports import LOSS, NOISE_SCALE, spelled
from swell.wire.whole_files import write_whole

PROGRESS_INTERVAL_S = 0.5
#: A larger state is not saved once more at the end: the job's devices would be free that much later.
MOST_LAST_BYTES = 2**28
#: A joiner of a stream that has read for less than this is near enough to where the others are by now.
NEAR_S = 1.0


class AgentWorker(Host):
    """A worker of an agent."""

    def __init__(self, link: Link, max_local_batch: int | None, positions: Positions) -> None:
        super().__init__(link.welcome, max_local_batch, link, positions)
        self._link = link
        self._meter = Meter(self.welcome.pace_per_s)
        self._is_member = False
        self._generation = -1
        self._is_agreed = False
        self._is_unsaved = False  # a step is done since a checkpoint was thought of
        self._values = PendingValues()
        self._reported_s = -math.inf
        self._told_measured = 0  # measurements of noise when it was last told
        self._stepped_generation = -1  # in which this worker made a step last
        self._whereabouts: StreamPosition | None = None
        self._is_save_agreed = False  # by the votes of the last step
        self._noted_steps: int | None = None  # before the step that was noted last in this group
        self._reports: dict[str, tuple[int, float, str]] = {}  # the last ones, see `WorkerNotes`
        self._told_reports: set[str] = set()  # names of which it was told that they differ
        self._saved_steps = -1  # of the checkpoint that this worker has written last
        self._steps_to_save = -1  # of the state that it saves
        self._is_witness_out = False  # asked for by the agent, and not told of yet
        self._leaves_as: int | None = None  # the generation that is saved, and makes the step that is noted

    def read_ahead(self, feed: Feed) -> None:
        """Read a stream up to where the others are, while they train."""
        self._whereabouts = StreamPosition(Path(self.welcome.checkpoint_dir))
        with self._link.heartbeat.waiting("data"):
            while (place := self._whereabouts.read()) is not None:
                begun_s = time.monotonic()
                feed.warm_up(place)
                if time.monotonic() - begun_s < NEAR_S:
                    break

    def enter(self, task: Task) -> Host:
        check_no_group(self.positions)
        self._task = task
        welcome = self.welcome
        self._balance = ShareBalance(task.course, self.device, self.positions.num == 1)
        self._drift_watch = DriftWatch(task.state, task.course, welcome.on_drift)
        self._checkpoints = CheckpointStore(
            Path(welcome.checkpoint_dir),
            welcome.keep_checkpoints,
            welcome.checkpoint_interval_s,
            positions=self.positions,
        )
        self._checkpoints.verified_steps = welcome.verified_steps
        self._checkpoints.tell_damaged = lambda message, sound_steps: self._link.send(
            messages.CheckpointDamaged(message=message, sound_steps=sound_steps)
        )
        task.state.variables.tell = lambda found: self._link.send(messages.ScriptFound(finding=found))
        self._place_to_save: Place | None = None  # of the state that is being saved
        allow_siblings()
        warm_up(task)
        task.state.encode()  # raises now, not at the first save, if something cannot be saved
        self._link.send(messages.Ready())
        while True:
            order = self.positions.take_order(self._link)
            if not isinstance(order, messages.Prove):
                if self._carry_out(order):
                    return self
            elif (prover := self._prover(order)) is not None:
                return prover

    def reach_boundary(self) -> None:
        self._link.lease.check()
        if self._meter.is_begun:
            self._meter.come_back()
        if self._is_agreed:
            self._task.state.forms.look(sys._getframe(1))
            self._meter.begin_change()
        if self._is_agreed or not self._is_member:
            self._follow_orders()
        else:
            self._save_if_due()
        self._meter.begin_step()

    def leave_batches(self, is_over: bool) -> None:
        if is_over:
            self._meter.end_epoch(self._task.course.epoch)

    def reduce(self, share: Share, loss: torch.Tensor, stop: bool) -> StepTotals | None:
        if self._balance.is_timed:
            self._await_device()
        self._meter.begin_reduce(share)
        words = self._drift_watch.words(self._group.num_workers)
        following = self._group.next
        is_ready = self._link.order is not None and (following is None or following.is_formed)
        ballot = StepVote(is_ready, stop, self._is_save_wished(), self._balance.begin_sum(share), words)
        drift = None
        try:
            tally = self._task.gradients.reduce(share, loss, ballot, self._group)
            if not tally.is_same or self.notes is not None:
                drift = self._group.together(partial(self._look_at, tally))
        except GroupBroken as broken:
            if self._leaves_as is None:
                self._break_off(broken)
                return None
        if self._leaves_as is not None:  # the state is saved
            self._leave(self._leaves_as)
        self._is_save_agreed = tally.is_save
        if drift is not None:
            self._note_drift(drift)
        return tally

    def _look_at(self, tally: StepTotals) -> messages.DriftFound | None:
        """Settle what differs between the workers, and note the step if due. Raises GroupBroken."""
        drift = None if tally.is_same else self._drift_watch.settle(self._group)
        if self.notes is not None:
            self._note_step(self.notes, float(tally.loss))
        return drift

    def finish_step(self, tally: StepTotals) -> None:
        self._is_agreed = tally.num_votes == self._group.num_workers * self.positions.num
        self._stepped_generation = self._generation
        self._link.heartbeat.note_steps(self._task.state.steps)
        self.edition += self._balance.finish_step(self._meter.compute_s, tally.speed)
        is_first = self._meter.end_step()
        is_time = is_first or time.monotonic() - self._reported_s >= PROGRESS_INTERVAL_S
        if not self.is_leader:
            self._meter.take_between(self._task.course)  # rank 0 tells of these
        elif is_time:
            self._say_progress(self._meter.pause_s if is_first else None)
        if self._values.shares and self._values.is_due:
            self._tell(with_losses=False)
        self._is_unsaved = True

    def give_up(self, loss: torch.Tensor) -> LossNotFinite:
        """The agent ends all workers as soon as one has failed: rank 0 saves and tells before that."""
        state, kept_steps = self._task.state, None
        try:
            kept_steps = self._save_together()
            state.losses.add(state.steps + 1, loss)  # now that it is in no checkpoint
            if self.is_leader:
                self._say_progress(None)
            kept_steps = self._group.tell_all(kept_steps)
        except GroupBroken:  # a peer died just now: the run ends all the same
            self._group.close()
        return not_finite(float(loss), state.steps, self._checkpoints.folder, kept_steps)

    def _note_drift(self, drift: messages.DriftFound) -> None:
        """Raises DriftError, on all workers, if the run is to end then."""
        message = self.positions.first_text(drift.message)  # it may be in a part of the model alone
        drift = msgspec.structs.replace(drift, message=message)
        if self._drift_watch.on_drift == "fail":
            self._task.gradients.abandon()
            self._task.state.undo.revert()
            try:
                if self._task.state.steps:
                    self._save_together()
                self._group.tell_all(None)  # the agent ends all as soon as one has failed: rank 0 saves first
            except GroupBroken:
                self._group.close()
            raise DriftError(drift.sentence)
        if self.is_leader and drift.is_to_be_said:
            self._link.send(drift)

    def keep(self, is_end: bool) -> None:
        if self.positions.num == 1:  # of several only this one has come here
            self._keep(is_end)

    def _keep(self, is_end: bool) -> None:
        if not self._is_member:
            return
        if is_end and self._task.state.steps:  # all have the same state, and the others wait for this one
            self._save(once=True)
        elif self.rank == 0 and not is_end:
            self._save()

    def report(self, metrics: dict[str, float], step: int | None, reduction: Reduction) -> bool:
        step = self._task.state.steps if step is None else step
        if reduction == "rank0":
            for name, value in metrics.items():
                place = self._reports[name][2] if name in self._reports else place_of(sys._getframe(1))
                self._reports[name] = step, value, place
        is_told = self.is_leader or (reduction != "rank0" and self.positions.is_first)
        if is_told and self._values.note(metrics, step, reduction):
            self._tell(with_losses=False)
        target = self.welcome.target
        if not self.is_leader or target is None or target.name not in metrics:
            return False
        value = metrics[target.name]
        if not math.isfinite(value):
            return False
        return value >= target.value if target.at_least else value <= target.value

    def finish(self, is_early: bool) -> None:
        state = self._task.state
        if self.positions.is_there:
            self._note_save(self._checkpoints.wait)
            self._save_if_due(is_end=True)
        self._tell()
        if self.is_leader:
            self._say_progress(None)
        if (self.left_at or is_early) and self._is_small():
            self._keep(is_end=True)  # where others go on, the job fails
        self._group.close()
        epochs, place = self._task.course.epoch, self.left_at
        self._link.send(messages.Finished(steps=state.steps, is_early=is_early, epochs=epochs, place=place))
        self._group.give_up_next()  # what fails of it elsewhere is heard after the end
        if self.rank == 0 and state.steps and self._is_small():  # the end is told: only the script waits
            self._save(once=True)

    def _is_small(self) -> bool:
        """Whether the state is saved once more at the end."""
        positions = self.positions
        return positions.is_there and positions.all(self._task.state.num_bytes() <= MOST_LAST_BYTES)

    # ------------------------------------------------------------------ orders
    def _follow_orders(self) -> None:
        """Carry out orders, waiting for them, until this worker trains."""
        self._is_agreed = False
        while True:
            order = self.positions.take_order(self._link)
            assert not isinstance(order, messages.Prove)  # noqa: S101 - only one in no group is told to
            if self._carry_out(order):
                return

    def _carry_out(self, order: Order) -> bool:
        """True if this worker is in a group and trains on."""
        if isinstance(order, messages.Suspend):
            return self._suspend(order)
        if order.generation <= self._generation:
            return self._is_member  # an order that came twice
        if order.rank is None:
            self._leave(order.generation)
        return self._join(order, order.rank)

    def _join(self, regroup: messages.Regroup, rank: int) -> bool:
        """Change to the next group, in which this worker has this rank."""
        state = self._task.state
        # The leader of a group that is whole tells all before it changes.
        told_steps = state.steps if self._is_member else regroup.told_steps
        self._tell()
        self._link.heartbeat.generation = regroup.generation
        if regroup.source is None and rank == 0:
            self._find_state()
        epoch = self._task.course.epoch
        try:
            self._group.together(partial(self._enter_group, regroup, rank))
        except (Superseded, FormFailed) as failure:  # the agent knows
            if self._is_member:  # the others have left that group
                self._break_off(failure)
            return False
        except (GroupBroken, EncodeError) as failure:  # what cannot be sent may stay where it is
            self._generation = regroup.generation
            self._break_off(failure)
            return False
        self._is_save_agreed = self._is_witness_out = False
        self.notes = self._noted_steps = None
        if rank == 0:
            state.losses.forget_told(told_steps)
        if state.noise is not None:
            state.noise.forget_step()
        self._is_member, self._generation = True, regroup.generation
        self.edition += 1
        self.max_local_batch = tighter(self.max_local_batch, regroup.max_local_batch)
        self._checkpoints.mean_time_to_loss_s = regroup.mean_time_to_loss_s
        self._drift_watch.begin()
        if self._task.course.epoch != epoch:
            self._meter.skip_to(self._task.course.epoch)
        self._meter.begin_generation()
        self._task.course.batch = regroup.global_batch or self._task.course.global_batch
        self._balance.begin_group(rank, self.max_local_batch)
        self._link.heartbeat.note_steps(state.steps)
        self._link.send(messages.Joined(generation=self._generation, steps=state.steps))
        return True

    def _enter_group(self, regroup: messages.Regroup, rank: int) -> None:
        """Change to the next group, and take over what others have.

        Those that have no state, or an older one, take over that of those who are furthest. When a group
        breaks in the very step in which its members agree to change, some have finished that step and some
        have not. Raises what `form` does, EncodeError.
        """
        state = self._task.state
        is_holder = rank == 0 if regroup.source is None else state.is_valid
        own = MemberCard(state.updates if is_holder else NO_STATE, own_place(), self._balance.own)
        told = self._group.form(regroup, msgspec.json.encode(own))
        self._is_member = False  # of the former one
        cards = [msgspec.json.decode(card, type=MemberCard) for card in told]
        furthest = max(card.updates for card in cards)
        holders = [number for number, card in enumerate(cards) if card.updates == furthest > NO_STATE]
        hand_state(self._group, state, cards, holders or [regroup.source or 0])
        state.is_valid = True
        self._balance.told = [card.speed for card in cards]

    def _find_state(self) -> None:
        """No worker has any: it is that of the newest checkpoint, or else what the script begins with."""
        state = self._task.state
        if self.welcome.rolls_back:
            self._checkpoints.roll_back()
        if not self._checkpoints.load_newest(state) and state.is_torn:
            sys.stderr.write(
                "this worker has half of a state whose source is gone, and there is no checkpoint\n"
            )
            exit_now(environ.EXIT_STOPPED)

    def _break_off(self, why: Exception) -> None:
        self._group.break_off()
        self._is_member = False
        self._meter.begin_break()
        self._link.send(
            messages.Broken(generation=self._generation, steps=self._task.state.steps, message=str(why))
        )

    def _suspend(self, suspend: messages.Suspend) -> bool:
        """Leave if the state is safe. A gang leaves together, or not at all."""
        if not self._is_member or suspend.generation != self._generation:
            return self._is_member  # its group is no more: it comes again when there is another
        try:
            is_safe = self._group.together(self._is_saved_by_all)
        except GroupBroken as broken:
            self._break_off(broken)
            return False
        state, course = self._task.state, self._task.course
        if is_safe and (course.epoch != state.entered_epoch or state.steps >= course.total_steps):
            self._leave(suspend.generation)
        if is_safe:  # after one step more of the same epoch, which updates nothing: it is noted
            self._leaves_as = suspend.generation
            self.notes = StepNotes(state)
        return True

    def _is_saved_by_all(self) -> bool:
        is_kept = self._save_together() is not None or self.rank != 0
        return sum(self._group.gather(int(is_kept))) == self.num_workers

    # ------------------------------------------------------------------ what another process computes again
    def _note_step(self, notes: StepNotes, loss: float) -> None:
        """Put what all workers have noted of the step beside the checkpoint. Raises GroupBroken.

        Args:
            loss: of the whole step.
        """
        self.notes, state, course = None, self._task.state, self._task.course
        place = place_of(sys._getframe(1))
        kept = {name: (state.steps, value, place) for name, value in state.objects.numbers()}
        own = WorkerNotes(self.max_local_batch, notes.passes, {**kept, **self._reports})
        told = self._group.gather_bytes(msgspec.msgpack.encode(own))
        if self.rank == 0:
            workers = [msgspec.msgpack.decode(each, type=WorkerNotes) for each in told]
            tolerance = tolerance_of([*state.model.parameters()])
            for name, found in different_reports(workers, tolerance):
                if name not in self._told_reports:
                    self._told_reports.add(name)
                    self._link.send(messages.ScriptFound(finding=found))
            step = WitnessedStep(state.steps, course.batch, loss, workers, course.shares)
            path = self._checkpoints.folder / checkpoint_name(state.steps, state.updates, "0" * 64)
            with suppress(OSError):  # the disk is full, which the save tells
                write_whole(witness_path(path, self.positions.own), msgspec.msgpack.encode(step), mode=0o640)
                self._noted_steps = state.steps

    def _end_witness(self, steps: int | None) -> None:
        """The checkpoint after these steps is there, and what the next step came to; None: it cannot be."""
        self._is_witness_out = False
        self._link.send(messages.Witnessed(steps=steps))

    def _prover(self, order: messages.Prove) -> Prover | None:
        """What this worker is from here on, to prove itself; None: it cannot, and the agent is told why.

        It takes the newest checkpoint whose next step was noted.
        """
        noted = partial(read_witness, position=self.positions.own)
        path = self._checkpoints.load_newest(self._task.state, lambda path: noted(path) is not None)
        step = None if path is None else noted(path)
        if self.positions.all(step is not None) and step is not None:
            return Prover(self._link, self.max_local_batch, Proof(self._task, step, order.cuts))
        why_not = "there is no checkpoint with a note of the step after it"
        if self.positions.is_first:
            self._link.send(messages.Proved(why_not=why_not))
        return None

    def _leave(self, generation: int) -> NoReturn:
        self._tell()
        self._link.send(messages.Left(generation=generation))
        self.positions.all(True)  # the first that exits ends the others
        close_script()
        exit_now(environ.EXIT_STOPPED)

    # ------------------------------------------------------------------ reports
    def _save_if_due(self, is_end: bool = False) -> None:
        is_unsaved, self._is_unsaved = self._is_unsaved, False
        is_agreed, self._is_save_agreed = self._is_save_agreed, False
        if not self._checkpoints.is_idle:  # where all have agreed, another process of this worker is
            self._note_save(self._checkpoints.wait if is_agreed else self._checkpoints.take)
        if self._is_witness_out and self._noted_steps is not None and self._noted_steps == self._saved_steps:
            self._end_witness(self._noted_steps)
        if is_unsaved and is_agreed and self._checkpoints.is_idle:
            self._task.state.forms.look(sys._getframe(1))
            self._save_together() if is_end else self._save_behind()

    def _is_save_wished(self) -> bool:
        """Whether this worker is to save once the step is done: it is time, or another is to prove itself."""
        if self._link.is_witness_wanted:
            self._link.is_witness_wanted, self._noted_steps = False, None
            self._is_witness_out = True
        is_idle = self.is_leader and self._checkpoints.is_idle
        return is_idle and (self._is_witness_out or self._checkpoints.is_due())

    def _save_behind(self) -> None:
        """Rank 0 saves while training goes on. All note what the next step comes to."""
        self.notes = StepNotes(self._task.state)
        if self.rank == 0:
            self._prepare_save()
            self._note_save(partial(self._checkpoints.begin, self._task.state))

    def _save_together(self) -> int | None:
        """Rank 0 saves; see `_save`."""
        return self._save() if self.rank == 0 else None

    def _save(self, once: bool = False) -> int | None:
        """The steps of the newest checkpoint now; None if none could be written."""
        self._note_save(self._checkpoints.wait)  # of the one that is under way
        self._prepare_save()
        save = self._checkpoints.save_once if once else self._checkpoints.save
        return self._note_save(partial(save, self._task.state), is_behind=False)

    def _prepare_save(self) -> None:
        self._tell()  # a gang that goes on from there does not make these steps again
        course, self._steps_to_save = self._task.course, self._task.state.steps
        self._checkpoints.verified_steps = self._link.verified_steps
        self._place_to_save = replace(course.place) if course.is_stream else None

    def _note_save(self, save: Callable[[], Path | None], is_behind: bool = True) -> int | None:
        """Tell how a save ended, if it has. Return the steps of its checkpoint; None: it has failed.

        Args:
            is_behind: training goes on meanwhile.
        """
        try:
            path = save()
        except SaveError as error:
            failed = messages.SaveFailed(steps=error.steps, message=str(error), is_behind=is_behind)
            self._link.send(failed)
            if self._is_witness_out:
                self._end_witness(None)
            return None
        if path is None:  # another worker has said so, or it is under way
            return self._task.state.steps
        self._tell_saved(path)
        return steps_in(path)

    def _tell_saved(self, path: Path) -> None:
        num_bytes, has_room = room_for_next(path)
        self._saved_steps = steps_in(path)
        if self._is_witness_out and self._saved_steps < self._steps_to_save:  # that state is no number
            self._end_witness(None)
        self._link.send(
            messages.CheckpointSaved(
                steps=steps_in(path), path=str(path), num_bytes=num_bytes, has_room=has_room
            )
        )
        if self._whereabouts is not None and self._place_to_save is not None:
            self._whereabouts.note(self._place_to_save, is_saved=True)

    def _tell(self, with_losses: bool = True) -> None:
        """Tell what the script has reported. Before the first step of a generation it waits for that step.

        Args:
            with_losses: tell losses, too, for something follows after which they might not be told. Reading
                them makes the processor wait for a GPU.
        """
        if not self._is_member or self._stepped_generation != self._generation:
            return
        values, is_leader = self._values, self.is_leader
        told = messages.Reported(
            values=values.take() if is_leader else {},
            curves=self._take_curves(with_losses) if is_leader else {},
            shares=values.take_shares(),
            steps=self._task.state.steps,
            refusal=values.take_refusal(),
        )
        if told.values or told.curves or told.shares or told.refusal:
            self._link.send(told)

    def _take_curves(self, with_losses: bool = True) -> dict[str, Tally]:
        """That of the loss is the gang's own, and none of the script's."""
        curves = self._values.take_curves(self.num_workers)
        curves.pop(LOSS, None)
        untold = self._task.state.losses.take_untold() if with_losses else []
        loss = tally_of(untold, self.num_workers, "mean")
        return curves if loss is None else {LOSS: loss, **curves}

    def _take_noise(self) -> tuple[float | None, dict[str, Tally]]:
        """The noise scale, and its curve's next point, if there was a measurement since the last call."""
        noise = self._task.state.noise
        if noise is None or noise.num_measured == self._told_measured:
            return None, {}
        self._told_measured = noise.num_measured
        scale = noise.noise_scale
        curve = None if scale is None else tally_of([(self._task.state.steps, scale)], self.num_workers)
        return scale, {} if curve is None else {NOISE_SCALE: curve}

    def _say_progress(self, pause_s: float | None) -> None:
        self._reported_s = time.monotonic()
        course, (noise_scale, curve) = self._task.course, self._take_noise()
        if self._whereabouts is not None:
            self._whereabouts.note(course.place)
        loss = self._task.state.losses.value
        self._link.send(
            messages.Progress(
                generation=self._generation,
                steps=self._task.state.steps,
                num_workers=self.num_workers,
                global_batch=None if course.batch == course.global_batch else course.batch,
                step_s=self._meter.take_mean_step_s(),
                sample_s=self._balance.take_sample_s(),
                loss=None if loss is None else spelled(loss),
                odd_since=self._task.state.losses.odd_since,
                metrics=self._values.take(),
                pause_s=pause_s,
                between=self._meter.take_between(course),
                save_s=self._checkpoints.take_save_s(),
                curves={**curve, **self._take_curves()},
                noise_scale=noise_scale,
            )
        )
