"""Who is told to be in which group: the rounds of a gang, which are the wire's generations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from swell.executors.gang.effects import Effect, Send
from swell.executors.gang.local_ranks import local_ranks
from swell.executors.gang.member import Member, Roster, Slot, State, best_source
from swell.executors.gang.memory_limit import PassLimit
from swell.tally import Tally
from swell.wire import messages
from swell.wire.metric_names import LOSS


class Formation:
    """Says orders to members; they go to `effects`, whose owner hands them on."""

    def __init__(
        self, roster: Roster, pass_limit: PassLimit, effects: list[Effect], host_of: Callable[[Slot], str]
    ) -> None:
        self.round = 0
        self.told_steps: int | None = None  #: losses up to this step have been heard
        self.batch: int | None = None  #: of the latest group: samples of a step; None: the job's own batch
        self.ordered_s = 0.0  #: when the latest order was given
        self.is_warned = False  #: that it takes long
        self.orders: dict[int, messages.Regroup] = {}  #: of the latest round, by worker
        self._roster = roster
        self._pass_limit = pass_limit
        self._effects = effects
        self._host_of = host_of
        self._hosts: dict[int, str] = {}  #: of members, by the latest order that each was given
        self._former_host = ""  #: of the leader of the group before the latest

    def regroup(self, group: Sequence[Member], batch: int | None, now_s: float) -> None:
        """Be this group, with this batch, at the next step boundary; a worker that is not in it leaves.

        Where all have the state, none is sent, also after a break: they compare their steps by themselves.
        """
        self._note_order(now_s)
        leader = self._leader()
        self._former_host = "" if leader is None else self._where(leader)
        self.round += 1
        self.batch = batch
        source = best_source(group)
        has_news = not all(member.has_state for member in group)
        chosen = {member.number for member in group}
        leavers = [m for m in self._roster.in_group() if m.number not in chosen and m.state is not State.LEFT]
        self.orders = {}
        hosts = [self._host_of(member.slot) for member in group]
        places, num_hosts = local_ranks(hosts), len(set(hosts))
        for rank, member in enumerate([*group, *leavers]):
            is_leaver = rank >= len(group)
            member.state = State.LEAVING if is_leaver else State.FORMING
            order = messages.Regroup(
                generation=self.round,
                rank=None if is_leaver else rank,
                num_workers=len(group),
                global_batch=batch,
                source=source,
                has_news=has_news,
                local_rank=0 if is_leaver else places[rank].local_rank,
                local_world_size=1 if is_leaver else places[rank].local_world_size,
                group_rank=0 if is_leaver else places[rank].group_rank,
                num_hosts=num_hosts,
                told_steps=self.told_steps,
                max_local_batch=self._pass_limit.max_local_batch,
            )
            self.orders[member.number] = order
            self._effects.append(Send(member.number, order))
        self._roster.group = [member.number for member in group]
        known = {number: host for number, host in self._hosts.items() if number in self._roster.members}
        self._hosts = known | {member.number: host for member, host in zip(group, hosts, strict=True)}

    # ------------------------------------------------------------ who speaks for all
    def speaks_for_gang(self, member: Member) -> bool:
        """Whether its host has the leader of the group, or all workers. Other hosts may be in other hands.

        The leader of the group before has the last word of that one, until it is in the latest or gone.
        """
        own, leader = self._where(member), self._leader(member)
        if leader is not None and own == self._where(leader):
            return True
        if own == self._former_host and member.whole_round != self.round:
            return True
        return all(self._where(other) == own for other in self._roster.members.values())

    def _leader(self, gone: Member | None = None) -> Member | None:
        """The first of the latest group that is left. `gone`: one that has just ended, and counts as left."""
        members = self._roster.members if gone is None else {**self._roster.members, gone.number: gone}
        return next((members[number] for number in self._roster.group if number in members), None)

    def _where(self, member: Member) -> str:
        return self._hosts.get(member.number) or self._host_of(member.slot)

    # ------------------------------------------------------------ what else members are told
    def note_told(self, curves: Mapping[str, Tally]) -> None:
        """What the leader has told of losses."""
        if (losses := curves.get(LOSS)) is not None:
            self.told_steps = losses.last_step

    def suspend(self, now_s: float) -> None:
        """Order the present group to save and leave."""
        self._note_order(now_s)
        self._send(self._roster.group, messages.Suspend(generation=self.round))

    def pass_on(self, bound: messages.Bound, leader: Member) -> None:
        """Where rank 0's store listens, to all the others."""
        if bound.generation == self.round:
            others = [number for number in self._roster.group if number != leader.number]
            self._send(others, messages.StoreAddress(generation=self.round, address=bound.address))

    def abort(self, generations: Iterable[int | None]) -> None:
        """Tell each worker that may be in one of these groups to stop waiting for peers there."""
        numbers = [m.number for m in self._roster.in_group() if m.state in (State.FORMING, *IN_STEP)]
        for generation in sorted({number for number in generations if number is not None}):
            self._send(numbers, messages.Abort(generation=generation))

    def _note_order(self, now_s: float) -> None:
        self.ordered_s, self.is_warned = now_s, False

    def _send(self, numbers: Iterable[int], message: messages.FromAgent) -> None:
        self._effects += [Send(number, message) for number in numbers if number in self._roster.members]


#: States in which a member takes part in the steps of the group that it is in.
IN_STEP = (State.TRAINING, State.LEAVING)
