"""An elastic gang goes from one controller to the next: what it has in mind is written down, and restored.

What the former controller had heard, said and not said yet, is unknown: it may have died between any two
messages. So its record tells what it wanted, and what workers have said and were told tells how far that has
come. What they have said is heard (again), which changes nothing the second time. What was to be said of the
latest group, and was not, is said now. A group that is whole trains on, and hears nothing at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from swell.executors.exit_status import HOST_LOST
from swell.executors.gang.departures import Departures
from swell.executors.gang.effects import Effect, Send
from swell.executors.gang.formation import Formation
from swell.executors.gang.handlers import Handlers
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.kept_worker import KeptExit, KeptWorker, member_of
from swell.executors.gang.member import Member, Roster, State
from swell.executors.gang.membership import Membership
from swell.executors.gang.memory_limit import PassLimit
from swell.executors.gang.records import ElasticRecord, EndingRecord
from swell.executors.gang.recovery import Recovery
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.saving import DAMAGED
from swell.executors.gang.setback import Setback
from swell.executors.gang.shutdown import Shutdown
from swell.executors.gang.suspension import Suspension
from swell.executors.gang.training_progress import TrainingProgress
from swell.executors.gang.transition import Transition
from swell.executors.gang.workers import Workers
from swell.wire import messages

#: Said once, and to be heard once at least.
ONCE = messages.Left | messages.Finished | messages.Failed | messages.OutOfMemory


@dataclass(slots=True)
class Handover:
    stage: JobContext
    effects: list[Effect]
    dialogue: CommandReplies
    roster: Roster
    membership: Membership
    setback: Setback
    suspension: Suspension
    pass_limit: PassLimit
    formation: Formation
    workers: Workers
    progress: TrainingProgress
    shutdown: Shutdown
    transition: Transition
    recovery: Recovery
    departures: Departures
    handlers: Handlers

    # ------------------------------------------------------------ the former controller
    def record(self) -> ElasticRecord:
        """What is in mind now."""
        return ElasticRecord(
            dialogue=self.dialogue.record(),
            membership=self.membership.record(),
            target=self.transition.target,
            batch=self.transition.batch,
            setback=self.setback.record(),
            num_failed_rounds=self.setback.num_failed_rounds,
            suspension=self.suspension.record(),
            ending=self._ending(),
            round=self.formation.round,
            round_batch=self.formation.batch,
            group=tuple(self.roster.group),
            orders=dict(self.formation.orders),
            members={member.number: member.slot for member in self.roster.members.values()},
            next_worker=self.workers.next_number,
            has_started=self.workers.has_started,
            max_local_batch=self.pass_limit.max_local_batch,
            steps=self.progress.steps,
            saved_steps=self.progress.saved_steps,
        )

    def _ending(self) -> EndingRecord | None:
        ending = self.shutdown.ending
        if ending is None:
            return None
        return EndingRecord(
            outcome=ending.outcome, message=ending.message, is_over_memory=self.setback.is_over_memory
        )

    # ------------------------------------------------------------ the next one
    def take_over(self, record: ElasticRecord, kept: Mapping[int, KeptWorker], lost: Collection[int]) -> None:
        """
        Args:
            kept: what hosts tell of workers. One that is missing was never started.
            lost: workers whose hosts are gone.
        """
        self._restore(record)
        for number, slot in record.members.items():
            if number in kept or number in lost:
                worker = kept.get(number, KeptWorker(number=number, exit=_gone()))
                order = record.orders.get(number)
                member = member_of(worker, slot, order, self.dialogue.now_s)
                if number in lost and member.state is State.LEAVING:
                    member.state = State.LEFT  # and its host was closed, if it is not gone
                self.roster.members[number] = member
        if record.ending is not None:
            self.shutdown.resume(record.ending.outcome, record.ending.message)
            self.setback.is_over_memory = record.ending.is_over_memory
        present = [kept[number] for number in record.members if number in kept]
        self._hear_progress(present)
        for worker in present:
            self._hear_again(worker)
        self._note_broken(record)
        self._note_exits(kept, lost)
        if not self.setback.is_open and not self.shutdown.is_under_way:
            self._say_the_rest(kept)

    def _restore(self, record: ElasticRecord) -> None:
        now_s = self.dialogue.now_s
        self.dialogue.restore(record.dialogue)
        self.membership.restore(record.membership, now_s)
        self.transition.target, self.transition.batch = record.target, record.batch
        if record.setback is not None:
            self.setback.restore(record.setback, now_s)
        self.setback.num_failed_rounds = record.num_failed_rounds
        self.suspension.restore(record.suspension)
        self.formation.round, self.formation.batch = record.round, record.round_batch
        self.formation.orders, self.formation.ordered_s = dict(record.orders), now_s
        self.roster.group = list(record.group)
        self.workers.next_number = max(self.workers.next_number, record.next_worker)
        self.workers.has_started = record.has_started
        self.pass_limit.max_local_batch = record.max_local_batch
        self.progress.steps, self.progress.saved_steps = record.steps, record.saved_steps

    # ------------------------------------------------------------ what workers have said
    def _hear_progress(self, present: Collection[KeptWorker]) -> None:
        """How far the group is. What its steps took is told of the step that follows."""
        speaks, members = self.formation.speaks_for_gang, self.roster.members
        heard = [worker for worker in present if speaks(members[worker.number])]
        said = [progress for worker in heard if (progress := worker.latest(messages.Progress))]
        newest = max(said, key=lambda progress: (progress.generation, progress.steps), default=None)
        if newest is not None:
            self.progress.steps = newest.steps
            self.handlers.hang_detector.step_s = newest.step_s or 0.0
        for worker in present:
            values = worker.latest(messages.Reported)
            if values is not None and self.roster.group[:1] == [worker.number]:
                self.formation.note_told(values.curves)
                self.progress.note_values(values, worker.number, is_again=True)  # or no daemon was told
        saves = [save for worker in heard if (save := worker.latest(messages.CheckpointSaved))]
        self.progress.saved_steps = max([self.progress.saved_steps, *(save.steps for save in saves)])

    def _hear_again(self, worker: KeptWorker) -> None:
        member = self.roster.members[worker.number]
        for message in worker.talk:
            if isinstance(message, ONCE) or self._is_news_of_saving(worker, message):
                self.handlers.hear(message, member)

    def _is_news_of_saving(self, worker: KeptWorker, message: messages.Message) -> bool:
        """Whether it may not have been heard: a checkpoint saved, or not, since a suspend was sent."""
        if isinstance(message, messages.CheckpointDamaged):
            return not self.dialogue.is_warned(DAMAGED, message.message)
        is_answer = worker.comes_after(message, messages.Suspend)
        if isinstance(message, messages.CheckpointSaved):
            return is_answer and message.steps >= self.progress.saved_steps
        if isinstance(message, messages.SaveFailed):
            return self.suspension.is_out if is_answer else not self.suspension.is_out
        return False

    def _note_broken(self, record: ElasticRecord) -> None:
        """A group of which a member has said so, or of which the former controller knew."""
        members = list(self.roster.members.values())
        broken = [member for member in members if member.state is State.BROKEN]
        if self.shutdown.is_under_way:
            if broken:
                self.shutdown.note_break()
        elif broken or self.setback.is_open:
            why = self.setback.why or "the group broke while no controller was there"
            self.recovery.note_break(record.round, why)
            self.formation.abort({member.whole_round for member in members})
        else:
            self.formation.abort(self._given_up(members))

    def _given_up(self, members: Collection[Member]) -> set[int | None]:
        """Groups before the latest one that some have left for it, and that others may still wait in."""
        forming = [member for member in members if member.state is State.FORMING and member.has_state]
        if all(member.whole_round is not None for member in forming):
            return set()
        return {member.whole_round for member in members} - {self.formation.round}

    def _note_exits(self, kept: Mapping[int, KeptWorker], lost: Collection[int]) -> None:
        ends = {worker.number: worker.exit for worker in kept.values() if worker.exit is not None}
        ends |= {number: _gone() for number in lost}
        gone = [(self.roster.members.pop(number, None), end) for number, end in ends.items()]
        for member, end in gone:
            if member is not None:
                self.departures.note_exit(member, end.status, end.log_tail)

    # ------------------------------------------------------------ what they have yet to be told
    def _say_the_rest(self, kept: Mapping[int, KeptWorker]) -> None:
        for number, message in self._unsaid(kept):
            self.effects.append(Send(number, message))

    def _unsaid(self, kept: Mapping[int, KeptWorker]) -> Iterator[tuple[int, messages.FromAgent]]:
        round, members = self.formation.round, self.roster.members
        for number, member in members.items():
            if member.heard_s is not None and kept[number].latest(messages.Welcome) is None:
                limit = self.pass_limit.max_local_batch
                yield number, self.stage.welcome(member.slot, max_local_batch=limit)
        for number, order in self.formation.orders.items():
            if number in members and not kept[number].was_told(order):
                yield number, order
        bound = self._bound(kept)
        for number in self.roster.group[1:] if bound is not None else ():
            told = kept[number].latest(messages.StoreAddress) if number in kept else None
            if number in members and bound is not None and (told is None or told.generation != round):
                yield number, messages.StoreAddress(generation=round, address=bound.address)
        for number in self.roster.group if self.suspension.is_out else ():
            suspend = kept[number].latest(messages.Suspend) if number in kept else None
            if number in members and (suspend is None or suspend.generation != round):
                yield number, messages.Suspend(generation=round)

    def _bound(self, kept: Mapping[int, KeptWorker]) -> messages.Bound | None:
        """Where rank 0's store of the latest group listens, if it does."""
        leader = kept.get(self.roster.group[0]) if self.roster.group else None
        bound = None if leader is None else leader.latest(messages.Bound)
        return bound if bound is not None and bound.generation == self.formation.round else None


def _gone() -> KeptExit:
    return KeptExit(status=HOST_LOST, log_tail="its host was lost together with the controller")
