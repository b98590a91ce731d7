"""What the workers of a gang are told and done to: they are started and killed, and form groups."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence

from swell.executors.gang.effects import Kill, Send, Spawn
from swell.executors.gang.gang_record import SaveOrder
from swell.executors.gang.local_ranks import LocalRank, local_ranks
from swell.executors.gang.member import IN_STEP, Member, Slot, State, best_source
from swell.executors.gang.runtime import GangRuntime
from swell.model.target import Configuration
from swell.wire import messages

#: To a worker, and to all that it has started.
KILL = int(signal.SIGKILL)


def start(live: GangRuntime, slot: Slot) -> None:
    gang = live.gang
    number, gang.next_worker, gang.has_spawned = gang.next_worker, gang.next_worker + 1, True
    live.members[number] = Member(number, slot, since_s=live.now_s)
    live.effects.append(Spawn(number, slot))


def kill(live: GangRuntime, members: Iterable[Member], why: str = "") -> None:
    for member in members:
        if not member.is_killed:
            member.is_killed = True
            member.failure = member.failure or why
            live.effects.append(Kill(member.number, signal.SIGKILL))


def terminate(live: GangRuntime, members: Iterable[Member]) -> None:
    live.effects += [Kill(member.number, signal.SIGTERM) for member in members]


def regroup(live: GangRuntime, group: Sequence[Member], configuration: Configuration) -> None:
    """Be this group, and run like this, at the next step boundary; a worker that is not in it leaves.

    Where all have the state, none is sent, also after a break: they compare their steps by themselves.
    """
    _note_order(live)
    formation = live.gang.formation
    formation.round += 1
    formation.configuration = configuration
    leavers = [m for m in live.gang.in_group() if m not in group and m.state is not State.LEFT]
    for order, member in zip(_orders(live, group, leavers), [*group, *leavers], strict=True):
        member.state = State.LEAVING if order.rank is None else State.FORMING
        live.effects.append(Send(member.number, order))
    formation.group = [member.number for member in group]


def _orders(live: GangRuntime, group: Sequence[Member], leavers: Sequence[Member]) -> list[messages.Regroup]:
    """Return what the members of the next group are told, by rank, and then those that leave."""
    hosts = [live.job.host_of(member.slot) for member in group]
    places: list[LocalRank | None] = [*local_ranks(hosts), *(None for _ in leavers)]
    return [
        messages.Regroup(
            generation=live.gang.formation.round,
            rank=None if place is None else rank,
            num_workers=len(group),
            global_batch=live.gang.formation.configuration.global_batch,
            source=best_source(group),
            has_news=not all(member.has_state for member in group),
            hands_on=bool(leavers) and not live.gang.setback.is_open,
            local_rank=0 if place is None else place.local_rank,
            local_world_size=1 if place is None else place.local_world_size,
            group_rank=0 if place is None else place.group_rank,
            num_hosts=len(set(hosts)),
            told_steps=live.gang.told_steps,
            max_local_batch=live.gang.max_local_batch,
            mean_time_to_loss_s=live.gang.mean_time_to_loss_s,
        )
        for rank, place in enumerate(places)
    ]


def order_save(live: GangRuntime) -> None:
    """Order the present group to save and leave, once."""
    change, formation = live.gang.change, live.gang.formation
    if change is not None and not live.gang.is_save_out:
        _note_order(live)
        change.save = SaveOrder(round=formation.round)
        _send(live, formation.group, messages.Suspend(generation=formation.round))


def pass_on(live: GangRuntime, bound: messages.Bound, leader: Member) -> None:
    """Where rank 0's store listens, to all the others."""
    formation = live.gang.formation
    if bound.generation == formation.round:
        others = [number for number in formation.group if number != leader.number]
        _send(live, others, messages.StoreAddress(generation=formation.round, address=bound.address))


def abort(live: GangRuntime, rounds: Iterable[int | None]) -> None:
    """Tell each worker that may be in one of these groups to stop waiting for peers there."""
    broken = {round for round in rounds if round is not None}
    numbers = [m.number for m in live.gang.in_group() if m.state in (State.FORMING, *IN_STEP)]
    for round in sorted(broken):
        _send(live, numbers, messages.Abort(generation=round))


def _note_order(live: GangRuntime) -> None:
    live.gang.formation.ordered_s, live.gang.formation.is_lateness_told = live.now_s, False


def _send(live: GangRuntime, numbers: Iterable[int], message: messages.FromAgent) -> None:
    live.effects += [Send(number, message) for number in numbers if number in live.members]
