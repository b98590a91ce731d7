"""A worker of an agent that has a part of the training state.

A step ends here in three parts: the sum of the gradients, the vote, and the handing round of the parameters.
What is carried out between steps begins with what the others hold; see `ShardGroup`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec
import torch

from swell.tally import Reduction
from swell.train.collective.gradients import StepTotals
from swell.train.collective.group import GroupBroken
from swell.train.data.sample_schedule import Share
from swell.train.link.agent_link import exit_now
from swell.train.runtime.host import Host, Task
from swell.train.runtime.managed_run import AgentWorker, Order
from swell.train.sharding.layout import FailureDomains, ShardCard
from swell.train.sharding.shard_group import ShardGroup
from swell.train.sharding.state_shard import StateShard
from swell.train.state.state_transfer import NO_STATE, MemberCard
from swell.wire import environ, messages

#: Steps from one comparison of mirrors to the next.
COMPARE_EVERY = 64


class DividedWorker(AgentWorker):
    """A worker of an agent, with a part of the state."""

    _shard: StateShard
    _shards: ShardGroup
    #: What the members of a new group have, and where they are, until each has its part.
    _to_settle: tuple[list[ShardCard], list[FailureDomains]] | None = None
    _has_stayed = False  # though it was told to leave, since it was in a group last

    def enter(self, task: Task) -> Host:
        assert task.state.shard is not None  # noqa: S101 - else there is another kind of host
        self._shard = task.state.shard
        self._shards = ShardGroup(self._group, self._shard, task.is_mirrored, self._meet_again)
        return super().enter(task)

    # ---------------------------------------------------------------- a step
    def reduce(self, share: Share, loss: torch.Tensor, stop: bool) -> StepTotals | None:
        tally = super().reduce(share, loss, stop)
        if tally is None:
            self._shard.lose_step()
        return tally

    def may_update(self) -> bool:
        if not self._shards.is_divided or (self._is_member and self._passes_vote()):
            return True
        self._shard.lose_step()
        return False

    def clip_norm(self, max_norm: float, norm_type: float, error_if_nonfinite: bool) -> torch.Tensor:
        try:
            return super().clip_norm(max_norm, norm_type, error_if_nonfinite)
        except GroupBroken as broken:
            self._break_off(broken)
            return torch.zeros((), device=self.device)

    def report(self, metrics: dict[str, float], step: int | None, reduction: Reduction) -> bool:
        return False if self._shard.is_lost else super().report(metrics, step, reduction)

    def _passes_vote(self) -> bool:
        """Whether all workers make the update of this step, for which all have the gradients.

        If the group breaks here, that is known once there is another.
        """
        shards, on_drift = self._shards, self._drift_watch.on_drift
        try:
            compares = self._task.state.updates % COMPARE_EVERY == 0
            are_mirrors_equal = shards.vote(compares)
            is_healed = not are_mirrors_equal and on_drift == "heal"
            if is_healed:
                shards.renew_mirrors()
        except GroupBroken as broken:
            self._break_off(broken)
            self._follow_orders()
            shards.is_voting = False
            return self._to_settle is not None
        shards.is_voting = False
        if not are_mirrors_equal:
            self._note_drift(self._drift_watch.of_mirrors(is_healed))
        return True

    def finish_step(self, tally: StepTotals) -> None:
        if not self._shards.is_divided or self._has_spread():
            super().finish_step(tally)
        else:  # the order that was voted on is carried out
            self._link.heartbeat.note_steps(self._task.state.steps)
            self._is_unsaved = True

    def _has_spread(self) -> bool:
        """Get the parameters that others have updated. False if the group changed meanwhile."""
        try:
            if self._to_settle is None:
                self._shards.spread()
                return True
            self._settle()
            super()._tell_joined()
        except GroupBroken as broken:
            self._break_off(broken)
            self._follow_orders()
        return False

    # ---------------------------------------------------------------- orders
    def _carry_out(self, order: Order) -> bool:
        if self._is_member:
            order = self._hand_on(order)
        if isinstance(order, messages.Regroup) and self._waits_for_another(order):
            return False
        return super()._carry_out(order)

    def _hand_on(self, order: Order) -> Order:
        """Take over the parts of those that leave, while all are still here. Returns the order to carry out.

        All have one, but a newer one may have come to some in time.
        """
        try:
            while True:
                own = order.generation, order.rank if isinstance(order, messages.Regroup) else None
                told = [
                    msgspec.json.decode(content, type=tuple[int, int | None])
                    for content in self._group.gather_bytes(msgspec.json.encode(own))
                ]
                newest = max(generation for generation, _ in told)
                if all(generation == newest for generation, _ in told):
                    break
                if order.generation < newest:
                    order = self._link.take_order()
            if isinstance(order, messages.Regroup):
                self._shards.hand_on([rank for _, rank in told])
        except GroupBroken as broken:
            self._break_off(broken)
        return order

    def _waits_for_another(self, regroup: messages.Regroup) -> bool:
        """Whether this order is not carried out, for the group broke before parts were handed on."""
        if regroup.generation <= self._generation:
            return False
        return self._is_spared() if regroup.rank is None else self._lacks_parts(regroup)

    def _is_spared(self) -> bool:
        """Whether this worker stays, once, though it was told to leave: its group broke, and it has a part.

        With those that are gone now the part may be here alone. The next order is given in view of that.
        """
        has_part = self._task.state.is_valid and not self._is_member
        self._has_stayed, had_stayed = has_part, self._has_stayed
        return has_part and not had_stayed

    def _lacks_parts(self, regroup: messages.Regroup) -> bool:
        """Whether the group broke before those that leave could hand on their parts; the agent is told then.

        They may be spared, and the next order asks for them.
        """
        lacks = regroup.hands_on and not self._is_member and self._task.state.is_valid
        if lacks:
            why = "the group broke before workers that leave had handed on their parts of the training state"
            self._group.refuse(regroup.generation, why)
        return lacks

    def _join(self, regroup: messages.Regroup, rank: int) -> bool:
        self._to_settle = None
        has_joined = super()._join(regroup, rank)
        self._has_stayed &= not has_joined
        return has_joined

    def _card(self, regroup: messages.Regroup, rank: int) -> MemberCard:
        card = super()._card(regroup, rank)
        shard = self._shards.card(has_state=card.updates != NO_STATE)
        return msgspec.structs.replace(card, shard=shard)

    def _agree_on_state(
        self, regroup: messages.Regroup, cards: Sequence[MemberCard], others: Sequence[int] = ()
    ) -> None:
        """Then each takes its part, but one that has to make an update first.

        That one lacks the update of its step, for which it has the gradients: another has passed the vote.
        """
        furthest = max(card.updates for card in cards)
        holders = [rank for rank, card in enumerate(cards) if card.updates == furthest]
        going_on = [rank for rank, card in enumerate(cards) if _is_going_on(card, furthest)]
        with_state = (*holders, *going_on)
        if self.rank not in with_state and all(_is_within_step(cards[rank]) for rank in holders):
            sys.stderr.write("the workers with the state are amid a step: this one comes too early\n")
            exit_now(environ.EXIT_STOPPED)
        if self.rank not in with_state:
            self._shards.drop()
        super()._agree_on_state(regroup, cards, going_on)
        shards = [card.shard if rank in with_state else None for rank, card in enumerate(cards)]
        domains = [FailureDomains(card.rack, card.place) for card in cards]
        self._to_settle = [card or ShardCard() for card in shards], domains
        if self.rank not in going_on:
            self._settle()

    def _tell_joined(self) -> None:
        if self._to_settle is None:  # else once the update is made
            super()._tell_joined()

    def _settle(self) -> None:
        """Take this worker's part of the state in the new group. Raises GroupBroken."""
        assert self._to_settle is not None  # noqa: S101 - the group has just been formed
        (cards, domains), self._to_settle = self._to_settle, None
        if not self._shards.settle(cards, domains):
            sys.stderr.write(
                "the training state was divided among the workers, and parts of it are lost with those "
                "that are gone: the job goes on from its checkpoint\n"
            )
            exit_now(environ.EXIT_STOPPED)

    def _meet_again(self, broken: GroupBroken) -> None:
        """The group broke while the script called a model whose blocks are divided, outside of a step.

        Newcomers come too early: they would begin with a step.
        """
        self._shards.is_spread = False
        self._break_off(broken)
        self._follow_orders()

    # ---------------------------------------------------------------- checkpoints
    def _save_if_due(self, is_end: bool = False) -> None:
        try:
            super()._save_if_due(is_end)
        except GroupBroken as broken:
            self._break_off(broken)
            self._follow_orders()

    def _save_behind(self) -> None:
        """A state that is divided is gathered in files, and written from there before training goes on."""
        if self._shards.is_divided:
            self._save_together()
        else:
            super()._save_behind()

    def _save_together(self) -> int | None:
        """All workers come here. Raises GroupBroken."""
        with self._shards.gathered(self._checkpoints.folder):
            return super()._save_together()

    def keep(self, is_end: bool) -> None:
        if not self._shards.is_divided:  # else others would have to come
            super().keep(is_end)

    def finish(self, is_early: bool) -> None:
        """All come here together: so all have the parameters of the last step."""
        self._end_save()
        self._save_if_due(is_end=True)
        while self._is_member and self._shards.is_divided:
            try:
                self._shards.end_training()
                self._group.gather(0)
                self._shards.gather_model()
                break
            except GroupBroken as broken:
                self._break_off(broken)
            self._follow_orders()
        super().finish(is_early)


def _is_going_on(card: MemberCard, furthest: int) -> bool:
    return card.shard is not None and card.shard.is_voting and card.updates == furthest - 1


def _is_within_step(card: MemberCard) -> bool:
    """What its script keeps is not what it will be after the step."""
    return card.shard is not None and (card.shard.is_voting or not card.shard.is_spread)
