"""An elastic gang goes from one controller to the next.

What the former controller had heard, said and not said yet, is unknown: it may have died between any two
messages. So its record tells what it wanted, and what workers have said and were told tells how far that has
come. What they have said is heard (again), which changes nothing the second time. What was to be said of the
latest group, and was not, is said now. A group that is whole trains on, and hears nothing at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from swell.executors.exit_status import HOST_LOST
from swell.executors.gang import departures, formation, handlers, recovery, shutdown, training_progress
from swell.executors.gang.effects import Send
from swell.executors.gang.kept_worker import KeptExit, KeptWorker, member_of
from swell.executors.gang.member import State
from swell.executors.gang.runtime import GangRuntime
from swell.executors.gang.saving import DAMAGED
from swell.executors.gang.workers import forget
from swell.wire import messages

#: Said once, and to be heard once at least.
ONCE = messages.Left | messages.Finished | messages.Failed | messages.OutOfMemory


def take_over(live: GangRuntime, kept: Mapping[int, KeptWorker], lost: Collection[int]) -> None:
    """Go on with a former controller's gang.

    Args:
        kept: what hosts tell of workers. One that is missing was never started.
        lost: workers whose hosts are gone.
    """
    gang = live.gang
    live.replies.report_again()
    gang.restart_clocks(live.now_s)
    for number, slot in list(gang.slots_by_worker.items()):
        if number in kept or number in lost:
            worker = kept.get(number, KeptWorker(number=number, exit=_gone()))
            order = gang.formation.orders.get(number)
            live.members[number] = member_of(worker, slot, order, live.now_s)
        else:
            del gang.slots_by_worker[number]
    if gang.ending is not None:
        shutdown.resume(live, gang.ending)
    present = [kept[number] for number in live.members if number in kept]
    _hear_progress(live, present)
    for worker in present:
        _hear_again(live, worker)
    _note_saves(live, present)
    _note_broken(live, present)
    _note_exits(live, kept, lost)
    if not gang.setback.is_open and not gang.is_ending:
        live.effects += [Send(number, message) for number, message in _unsaid(live, kept)]


# ---------------------------------------------------------------- what workers have said
def _hear_progress(live: GangRuntime, present: Collection[KeptWorker]) -> None:
    """How far the group is. What its steps took is told of the step that follows."""
    gang, members = live.gang, live.members
    heard = [worker for worker in present if formation.speaks_for_gang(live, members[worker.number])]
    said = [progress for worker in heard if (progress := worker.latest(messages.Progress))]
    newest = max(said, key=lambda progress: (progress.generation, progress.steps), default=None)
    if newest is not None:
        gang.steps = newest.steps
        live.hang_detector.step_s = newest.step_s or 0.0
    for worker in present:
        values = worker.latest(messages.Reported)
        if values is not None and gang.formation.group[:1] == [worker.number]:
            formation.note_told(live, values.curves)
            # Again: or no daemon was told.
            training_progress.note_values(live, values, worker.number, is_again=True)


def _hear_again(live: GangRuntime, worker: KeptWorker) -> None:
    member = live.members[worker.number]
    for message in worker.talk:
        if isinstance(message, ONCE) or _is_news_of_saving(live, worker, message):
            handlers.hear(message, live, member)


def _note_saves(live: GangRuntime, present: Collection[KeptWorker]) -> None:
    """The newest checkpoint, once it is heard which were damaged before it was saved, or with it."""
    for worker in present:
        save = worker.latest(messages.CheckpointSaved)
        is_sound = save is not None and worker.is_unanswered(messages.CheckpointDamaged, save)
        if save is not None and is_sound and formation.speaks_for_gang(live, live.members[worker.number]):
            live.gang.saved_steps = max(live.gang.saved_steps, save.steps)


def _is_news_of_saving(live: GangRuntime, worker: KeptWorker, message: messages.Message) -> bool:
    """Whether the former controller may have missed this word about checkpoints."""
    if isinstance(message, messages.CheckpointDamaged):
        return not live.gang.replies.is_warned(DAMAGED, message.message)
    is_answer = worker.comes_after(message, messages.Suspend)
    if isinstance(message, messages.CheckpointSaved):
        return is_answer and message.steps >= live.gang.saved_steps
    if isinstance(message, messages.SaveFailed):
        return live.gang.suspension.is_out is is_answer
    return False


def _note_broken(live: GangRuntime, present: Collection[KeptWorker]) -> None:
    """Groups of which a member has said so, or of which the former controller knew.

    Other members may wait there for those that have left: they are told, or told again. A group that is whole
    is left alone.
    """
    gang, members = live.gang, live.members
    out = [worker for worker in present if members[worker.number].whole_round is None]
    ended = {failed.generation for worker in out if (failed := worker.latest(messages.Broken)) is not None}
    formation.abort(live, {*gang.formation.aborted, *ended})
    broken = [member for member in members.values() if member.state is State.BROKEN]
    refusals = [refusal for worker in present if (refusal := worker.latest(messages.JoinFailed)) is not None]
    has_failed = any(refusal.generation == gang.formation.round for refusal in refusals)
    if gang.ending is not None:
        for member in broken:
            shutdown.note_broken(live, gang.ending, member)
    elif broken or has_failed or gang.setback.is_open:
        why = gang.setback.why if gang.setback.is_open else ""
        recovery.note_break(
            live, gang.formation.round, why or "the group broke while no controller was there"
        )


def _note_exits(live: GangRuntime, kept: Mapping[int, KeptWorker], lost: Collection[int]) -> None:
    ends = {worker.number: worker.exit for worker in kept.values() if worker.exit is not None}
    ends |= {number: _gone() for number in lost}
    gone = [(forget(live, number), end) for number, end in ends.items()]
    for member, end in gone:
        if member is not None:
            departures.note_exit(live, member, end.status, end.log_tail)


# ---------------------------------------------------------------- what they have yet to be told
def _unsaid(live: GangRuntime, kept: Mapping[int, KeptWorker]) -> Iterator[tuple[int, messages.FromAgent]]:
    gang, members, group = live.gang, live.members, live.gang.formation.group
    round = gang.formation.round
    for number, member in members.items():
        if member.heard_s is not None and kept[number].latest(messages.Welcome) is None:
            yield number, live.welcome(member)
    for number, order in gang.formation.orders.items():
        if number in members and not kept[number].was_told(order):
            yield number, order
    bound = _bound(live, kept)
    for number in group[1:] if bound is not None else ():
        told = kept[number].latest(messages.StoreAddress) if number in kept else None
        if number in members and bound is not None and (told is None or told.generation != round):
            yield number, messages.StoreAddress(generation=round, address=bound.address)
    for number in group if gang.suspension.is_out else ():
        suspend = kept[number].latest(messages.Suspend) if number in kept else None
        if number in members and (suspend is None or suspend.generation != round):
            yield number, messages.Suspend(generation=round)


def _bound(live: GangRuntime, kept: Mapping[int, KeptWorker]) -> messages.Bound | None:
    """Where rank 0's store of the latest group listens, if it does."""
    group = live.gang.formation.group
    leader = kept.get(group[0]) if group else None
    bound = None if leader is None else leader.latest(messages.Bound)
    return bound if bound is not None and bound.generation == live.gang.formation.round else None


def _gone() -> KeptExit:
    return KeptExit(status=HOST_LOST, log_tail="its host was lost together with the controller")
