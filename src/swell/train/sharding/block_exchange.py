"""Exchange of a divided block's parameters and gradients with those who keep parts of it.

With each exchange goes what its sender is about. So workers that do not compute the same blocks in the same
order, as where one evaluates alone, are told that, and do not add up what does not belong together. Where a
worker died while the others evaluated, some of these are a block further than others: they give their parts
again until all are at the same block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from swell.train.collective.gradients import LoopError
from swell.train.collective.group import Group, GroupBroken, await_all
from swell.train.sharding.divided_block import DividedBlock
from swell.train.sharding.layout import Interval, Intervals, Layout, common, size, union
from swell.train.sharding.state_pieces import StatePieces

GATHER, REDUCE = 0, 1
#: Steps begun and ended, blocks gathered since, and block with action: those who are behind have less.
About = list[int]
ENDED: About = [2**62, 0, 0]  # after all steps
#: Before torch 2.13 it has another name.
all_gather: Callable[..., dist.Work | None] = (
    getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
)
#: Workers compare what they are about before they move anything in the first steps, and in one of so many.
NUM_COMPARED, COMPARE_EVERY = 2, 64


class BlockExchange:
    """Exchange with the workers of a group, by the layout of the state there.

    A worker that is alone with a part of the state, as in a trial run, gets zeros for the rest.
    """

    def __init__(
        self,
        group: Group,
        layout: Layout,
        pieces: StatePieces,
        units: Sequence[Interval],
        blocks: Sequence[DividedBlock] = (),
        meet_again: Callable[[GroupBroken], object] = lambda broken: None,
        is_amid: bool = False,
        num_gathered: int = 0,
    ) -> None:
        """
        Args:
            pieces: that this worker has.
            units: the blocks' stretches of the state.
            meet_again: called where the group breaks outside of a step; there is another when it returns.
            is_amid: the group before broke, and its members may be at different places of their scripts.
            num_gathered: blocks that this worker has gathered there since it last began or ended a step.
        """
        self._group, self._pieces, self._units, self._blocks = group, pieces, units, blocks
        self._meet_again, self._is_amid = meet_again, is_amid
        self._owned = [[_within(own, unit) for own in layout.owned] for unit in units]
        self._mirrored = [[_within(has, unit) for has in layout.mirrored] for unit in units]
        self.owned = layout.owned[group.rank]  #: what this worker counts in sums over workers
        self.is_lost = False  #: the step under way comes again; what is gathered until the next one is zero
        self.has_ended = False  #: training is over, and the group is about to end
        self.num_gathered = num_gathered
        self._broken: GroupBroken | None = None
        self._num_steps = 0  # that were begun
        self._is_within = False  # a step
        self._is_first = True  # since that changed

    def begin_step(self) -> None:
        """All workers begin a step."""
        self._num_steps, self._is_within, self._is_first = self._num_steps + 1, True, True
        self.num_gathered, self.is_lost = 0, self._broken is not None

    def end_step(self) -> None:
        """This worker has computed its gradients of the step, or gives them up. Raises GroupBroken."""
        self._is_within, self._is_first, self.num_gathered = False, True, 0
        if self._broken is not None:
            raise self._broken

    def agree(self, flags: list[bool]) -> list[bool]:
        """Whether any worker has said so, by place. Raises GroupBroken."""
        numbers = torch.tensor(flags, dtype=torch.int32, device=self._group.device)
        self._group.sum_all(numbers)
        return [number > 0 for number in numbers.tolist()]

    def gather_numbers(self, own: torch.Tensor) -> torch.Tensor:
        """A number of each worker, by rank. Raises GroupBroken."""
        numbers = torch.zeros(self._group.num_workers, dtype=own.dtype, device=own.device)
        numbers[self._group.rank] = own
        self._group.sum_all(numbers)
        return numbers

    # ---------------------------------------------------------------- parameters
    def gather(self, block: DividedBlock) -> torch.Tensor:
        """Return all parameters of the block; see `Exchange`.

        Zeros once the group is broken in a step: that comes again, and what its script sees is forgotten.

        Raises LoopError: other workers are about something else.
        """
        if self.has_ended:
            raise LoopError(
                "training is over, and only the leader has the whole of a model that was divided among the "
                "workers (shard=[...]): call it after the last step where run.is_leader is true"
            )
        try:
            if not self.is_lost:
                return self.gather_or_fail(block)
        except GroupBroken as broken:
            self._broken, self.is_lost = broken, True
            if not self._is_within:
                self._meet_again(broken)
                if block.is_away and block.exchange is not None:  # else all who are left have everything
                    return block.exchange.gather(block)
        return block.empty().zero_()

    def gather_or_fail(self, block: DividedBlock) -> torch.Tensor:
        """Raises GroupBroken, or LoopError as `gather` does."""
        about = self._about(block, GATHER)
        self._let_catch_up(about)
        full = self._give(block, about)
        self.num_gathered += 1
        return full

    def end_training(self) -> None:
        """This worker is past its last step and evaluation. Raises GroupBroken or LoopError."""
        self._let_catch_up(ENDED)

    def _let_catch_up(self, about: About) -> None:
        """Give this worker's parts to those who are behind, until it is itself, or all are alike."""
        while (behind := self._behind(about)) is not None:
            self._give(self._blocks[behind[2] // 2], behind)

    def _give(self, block: DividedBlock, about: About) -> torch.Tensor:
        """Return the block's parameters once all have given their parts. Raises GroupBroken or LoopError."""
        full, parts, (begin, _) = block.empty(), self._owned[block.number], self._units[block.number]
        if len(parts) == 1:
            full.zero_()
        for first, last in parts[self._group.rank]:
            torch.cat(self._pieces.values((begin + first, begin + last)), out=full[first:last])
        pieces = [
            (rank, full[first:last].view(torch.uint8))  # gloo does not know all dtypes
            for rank, part in enumerate(parts)
            for first, last in part
        ]
        self._exchange(about, lambda: [dist.broadcast(piece, rank, async_op=True) for rank, piece in pieces])
        return full

    # ---------------------------------------------------------------- gradients
    def reduce(self, block: DividedBlock, gradient: torch.Tensor) -> torch.Tensor:
        """All workers that hold an element get the same sum of it, bit for bit; see `Exchange`."""
        try:
            if not self.is_lost:
                return self._hand_on(block, self._sum_owned(block, gradient))
        except GroupBroken as broken:
            self._broken, self.is_lost = broken, True
        return torch.zeros(size(self._held(block)), dtype=block.dtype, device=block.device)

    def _sum_owned(self, block: DividedBlock, gradient: torch.Tensor) -> torch.Tensor:
        """The sum of what this worker owns, flat. Raises GroupBroken."""
        parts = self._owned[block.number]
        sizes, own_size = [size(part) for part in parts], size(parts[self._group.rank])
        going = [gradient[first:last] for part in parts for first, last in part]
        if len(parts) == 1:
            return torch.cat(going)
        sent, come = block.empty(), block.empty(len(parts) * own_size)
        torch.cat(going, out=sent)
        about = self._about(block, REDUCE)
        self._exchange(about, lambda: [_all_to_all(come, [own_size] * len(parts), sent, sizes)])
        rows = come.view(len(parts), own_size)
        summed = rows[0].clone()
        for row in rows[1:]:  # in the order of ranks
            summed.add_(row)
        return summed

    def _hand_on(self, block: DividedBlock, own: torch.Tensor) -> torch.Tensor:
        """What this worker holds, from sums that their owners have. Raises GroupBroken."""
        owned, mirrored, rank = self._owned[block.number], self._mirrored[block.number], self._group.rank
        if not any(mirrored):
            return own
        going = [common(owned[rank], has) for has in mirrored]
        coming = [common(part, mirrored[rank]) for part in owned]
        going_sizes, coming_sizes = [size(part) for part in going], [size(part) for part in coming]
        sent, come = block.empty(sum(going_sizes)), block.empty(sum(coming_sizes))
        torch.cat([sent[:0], *(each for part in going for each in _slices(own, owned[rank], part))], out=sent)
        self._group.run(lambda: await_all([_all_to_all(come, coming_sizes, sent, going_sizes)]))
        held = self._held(block)
        result = torch.empty(size(held), dtype=block.dtype, device=block.device)
        parts = ((owned[rank], own), *zip(coming, come.split(coming_sizes), strict=True))
        for places, values in parts:
            slices = zip(_slices(result, held, places), _slices(values, places, held), strict=True)
            for target, value in slices:
                target.copy_(value)
        return result

    def _held(self, block: DividedBlock) -> Intervals:
        rank = self._group.rank
        return union(self._owned[block.number][rank], self._mirrored[block.number][rank])

    def _exchange(self, about: About, begin: Callable[[], Sequence[dist.Work | None]]) -> None:
        """Carry out collectives, and see that all workers are about the same. Raises GroupBroken."""
        if self._group.num_workers == 1:
            return
        is_new = self._num_steps <= NUM_COMPARED or self._num_steps % COMPARE_EVERY == 0
        if self._is_first or is_new:  # compared before, in messages of one size
            self._is_first = False
            _check_same(self._all_about(about))
        said, room = self._message(about)
        self._group.run(lambda: await_all([all_gather(room.view(-1), said, async_op=True), *begin()]))
        _check_same(room.tolist())

    # ---------------------------------------------------------------- what they are about
    def _about(self, block: DividedBlock, action: int) -> About:
        return [self._num_steps * 2 - self._is_within, self.num_gathered, block.number * 2 + action]

    def _message(self, about: About) -> tuple[torch.Tensor, torch.Tensor]:
        """What this worker is about, and room for what all are about."""
        said = torch.tensor(about, device=self._group.device)
        return said, said.new_empty(self._group.num_workers, len(about))

    def _all_about(self, about: About) -> list[About]:
        """What each worker is about, by rank. Raises GroupBroken."""
        said, room = self._message(about)
        self._group.run(lambda: all_gather(room.view(-1), said))
        return room.tolist()

    def _behind(self, about: About) -> About | None:
        """What those are about who are behind this worker, of which they have not got this one's part.

        Raises GroupBroken, or LoopError as `gather` does.
        """
        if not self._is_amid or self._group.num_workers == 1:
            return None
        told = self._all_about(about)
        behind = min(told)
        _check_same([each for each in told if each[:2] == behind[:2]])
        self._is_amid = any(each != behind for each in told)
        return behind if behind != about else None


def _check_same(told: Sequence[About]) -> None:
    if any(about != told[0] for about in told):
        told_by = "; ".join(f"worker {rank} {_described(*about)}" for rank, about in enumerate(told))
        raise LoopError(
            "the workers compute different blocks of a model that is divided among them "
            f"(shard=[...]): {told_by}. All have to call the model alike: take out what only one of them "
            "does, such as an evaluation on rank 0, and blocks that are left out at random; where "
            "experts get tokens on some workers only, name the layer that has all experts"
        )


def _described(place: int, num_gathered: int, what: int) -> str:
    step, is_within = (place + 1) // 2, place % 2
    action = "adds up gradients of" if what % 2 else "gathers"
    when = f"in step {step}" if is_within else f"after step {step}" if step else "before a step"
    return f"{action} block {what // 2} {when} of this group"


def _within(places: Intervals, unit: Interval) -> Intervals:
    """Those of the places that are in a block, counted from where it begins."""
    return tuple((first - unit[0], last - unit[0]) for first, last in common(places, (unit,)))


def _slices(flat: torch.Tensor, places: Intervals, wanted: Intervals) -> list[torch.Tensor]:
    """What lies at wanted places, of a tensor with a number for each of `places`."""
    found, done = [], 0
    for begin, end in places:
        for first, last in common(((begin, end),), wanted):
            found.append(flat[done + first - begin : done + last - begin])
        done += end - begin
    return found


def _all_to_all(
    come: torch.Tensor, coming: list[int], sent: torch.Tensor, going: list[int]
) -> dist.Work | None:
    """Begin an exchange of flat tensors; `coming`, `going`: elements from and to each rank."""
    num_bytes = come.dtype.itemsize
    work: dist.Work | None = dist.all_to_all_single(
        come.view(torch.uint8),
        sent.view(torch.uint8),
        [size * num_bytes for size in coming],
        [size * num_bytes for size in going],
        async_op=True,
    )
    return work
