"""Buddy allocation on the topology tree: whole, aligned blocks, and those who run stay where they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from swell.arrays import IntArray
from swell.compiled import suited
from swell.model.cluster import Cluster
from swell.model.plan import Placement
from swell.placement.board import NOBODY
from swell.placement.choice import best_block, cheapest_block
from swell.placement.node_shape import powers_of_two
from swell.placement.reality import Held, Reality
from swell.placement.tree import NONE, Tree


class BuddyPlacer:
    """Places jobs for the highest bandwidth between their workers; implements `core.ports.Placer`.

    * A job whose number of devices is a power of two gets an aligned block of that size, the one in the
      most crowded surroundings (best fit). One larger than a block gets several: whole nodes, then the
      rest, inside one node, one rack, or the cluster, whichever is the first that has room.
    * A job that keeps its size keeps its devices. One that shrinks keeps the lowest aligned part of
      them. One that grows takes its free buddy, else the free block that overlaps most with its own.
    * If enough devices are free but not in one block, other jobs move: the fewest running ones,
      then the smallest. Powers of two on nodes of a power of two devices always fit so, if nothing is
      pinned (`tests/placement`).
    * If pinned jobs stand in the way even of that, the job gets scattered devices, near each other.

    The answer depends on what is asked alone. What is remembered (`Reality`) only saves time.

    References: ElasticFlow, section 4.3 (best fit, buddy allocation with migration); Hwang et al.,
        "Elastic Resource Sharing for Distributed Deep Learning" (CoDDL), NSDI 2021.
    Deviates: the paper leaves open what to move; blocks end at nodes, beyond which whole nodes are equal.
    """

    def __init__(self) -> None:
        self._reality = Reality(Cluster())

    def place(
        self,
        cluster: Cluster,
        wanted: Mapping[str, int],
        held: Held,
        pinned: frozenset[str],
        owned_only: frozenset[str] = frozenset(),
    ) -> Placement:
        """See `core.ports.Placer.place`. Held devices that are no longer in the cluster are ignored."""
        if cluster is not self._reality.cluster:
            self._reality = Reality(cluster)
        self._reality.learn(held)
        damaged = sorted(self._reality.damaged)
        if not wanted and not damaged:
            return Placement(changes={})
        placing = _Placing(self._reality, pinned, owned_only)
        for job, num_devices in wanted.items():
            if num_devices < len(held.get(job, ())) and job not in pinned:
                placing.keep(job, num_devices)
        unplaced = set()
        again = {job: len(held[job]) for job in damaged if job not in wanted}
        for job, num_devices in (again | dict(wanted)).items():
            is_to_have = num_devices > 0 and job not in pinned
            if is_to_have and not placing.complete(job, num_devices):
                unplaced.add(job)
        return placing.outcome(held, unplaced)


def part_to_keep(tree: Tree, own: IntArray, num_devices: int) -> IntArray:
    """Which of its devices a job keeps that is to have `num_devices`: all, or the lowest aligned part."""
    if num_devices >= len(own):
        return own
    rest, kept = np.sort(own), []
    sizes = powers_of_two(num_devices)
    if len(sizes) == 1 and _is_block(tree, rest[: sizes[0]]):
        return rest[: sizes[0]]
    for size in sizes:
        numbers, counts = np.unique(tree.lineages[rest], return_counts=True)
        is_whole = tree.is_block[numbers] & (tree.stops[numbers] - tree.starts[numbers] == size)
        whole = tree.starts[numbers[is_whole & (counts == size)]]
        part = np.arange(size) + whole.min() if len(whole) else rest[:size]
        kept.append(part)
        rest = rest[~np.isin(rest, part)]
    return np.concatenate([*kept, rest[:0]])


def _is_block(tree: Tree, positions: IntArray) -> bool:
    """Whether these, in ascending order, are a whole aligned block."""
    block = tree.block_at[len(positions)][positions[0]] if len(positions) in tree.block_at else -1
    return bool(
        tree.is_block[block] and tree.stops[block] == positions[-1] + 1 == positions[0] + len(positions)
    )


class _Placing:
    """One placement under way."""

    def __init__(self, reality: Reality, pinned: frozenset[str], owned_only: frozenset[str]) -> None:
        self._reality, self._tree = reality, reality.tree
        self._owned_only = frozenset(map(reality.number, owned_only))
        self.board = reality.board.copy()
        self._own = reality.board.held  #: job -> positions it holds in the real world, in rank order
        self._num_taken_at = reality.num_taken_at
        self._pinned = pinned
        self._touched: set[int] = set()
        self._evicted: set[int] = set()
        self._own_at: dict[int, IntArray] = {}  #: see `_num_own_at`

    def keep(self, job: str, num_devices: int) -> None:
        """The job gives up what it has beyond so many."""
        number = self._reality.number(job)
        own = self._own.get(number)
        if own is not None and num_devices < len(own):
            self._touched.add(number)
            self.board.take_back(number)
            self.board.give(number, part_to_keep(self._tree, own, num_devices))

    def complete(self, job: str, num_devices: int) -> bool:
        """See that the job has `num_devices`; False, and it has none, if there are not enough."""
        number = self._reality.number(job)
        if self.board.num_held(number) == num_devices:
            return True
        self._touched.add(number)
        self.board.take_back(number)
        if self.board.num_free < num_devices:
            return False
        blocks = self._blocks_for(number, num_devices)
        if blocks is not None:
            for block in blocks:
                self.board.give(number, self._positions(block))
        elif not self._make_room(number, num_devices):
            scattered = self._scattered(number, num_devices)
            self.board.give(number, scattered)
            return len(scattered) == num_devices
        return True

    def outcome(self, held: Held, unplaced: set[str]) -> Placement:
        """Whoever is not mentioned keeps the very same devices in the same order."""
        names, damaged = self._reality.names, self._reality.damaged
        changes: dict[str, tuple[str, ...]] = {}
        for number in self._touched | {self._reality.number(job) for job in damaged}:
            job, positions = names[number], self.board.held.get(number)
            if positions is not None and job not in unplaced:
                changes[job] = tuple(self._tree.devices[one] for one in self._ranked(number, positions))
            elif job in held:
                changes[job] = ()
        moved = {names[job] for job in self._evicted if changes.get(names[job]) and self._has_moved(job)}
        return Placement(changes=changes, moved=frozenset(moved), unplaced=frozenset(unplaced))

    def _has_moved(self, job: int) -> bool:
        """Whether a job that ran has left devices for others: more than growing or shrinking."""
        own, has = set(self._real(job).tolist()), set(self.board.held[job].tolist())
        return not (own <= has or has <= own)

    def _ranked(self, job: int, positions: IntArray) -> list[int]:
        """Survivors keep their order, and come first: the lowest of them has the state."""
        has = set(positions.tolist())
        stay = [position for position in self._real(job).tolist() if position in has]
        return stay + sorted(has.difference(stay))

    def _real(self, job: int) -> IntArray:
        """Positions that the job holds in the real world, in rank order."""
        return self._own.get(job, NONE)

    # Free blocks

    def _blocks_for(self, job: int, num_devices: int) -> list[int] | None:
        """Free blocks that make up `num_devices`, in the innermost home that has room for all."""
        sizes = _block_sizes(self._tree, num_devices)
        if len(sizes) == 1:
            block = self._best_block(job, sizes[0])
            return None if block is None else [block]
        for home in self._homes_with(job, num_devices):
            blocks = self._blocks_in(home, job, sizes)
            if blocks is not None:
                return blocks
        return None

    def _homes_with(self, job: int, num_devices: int) -> list[int]:
        """Homes with so many free, innermost first, then those with most of the job's own devices."""
        homes, free_at = self._tree.homes, self.board.num_free_at
        homes = homes[free_at[homes] >= num_devices]
        depths = self._tree.depths[homes]
        order = np.lexsort((self._tree.starts[homes], free_at[homes], -self._num_own_at(job)[homes], -depths))
        fitting: list[int] = homes[order].tolist()
        return fitting

    def _blocks_in(self, home: int, job: int, sizes: Sequence[int]) -> list[int] | None:
        if len(set(sizes)) == 1 and self._tree.is_flat(home, sizes[0]):
            blocks = self._best_blocks(job, sizes[0], home, len(sizes))
            return blocks if len(blocks) == len(sizes) else None
        blocks = []
        for size in sizes:
            block = self._best_block(job, size, home)
            if block is None:
                break
            self.board.give(job, self._positions(block))
            blocks.append(block)
        self.board.take_back(job)
        return blocks if len(blocks) == len(sizes) else None

    def _best_block(self, job: int, size: int, home: int | None = None) -> int | None:
        """See `choice.best_block`."""
        tree, own = self._tree, self._real(job)
        if home is None and 0 < len(own) <= size in tree.blocks:
            around = int(tree.block_at[size][own[0]])  # no other can have as many of its own devices
            is_around = own.min() >= tree.starts[around] and own.max() < tree.stops[around]
            if is_around and self.board.num_free_at[around] == size:
                return around
        candidates = tree.blocks.get(size, NONE) if home is None else tree.blocks_in(home, size)
        if tree.num_owned == len(tree.devices):
            return self._best_of(job, size, candidates)
        is_owned = tree.stops[candidates] <= tree.num_owned
        owned = self._best_of(job, size, candidates[is_owned])
        if job in self._owned_only:
            return owned
        borrowed = self._best_of(job, size, candidates[~is_owned])  # these first, where it may have either
        return owned if borrowed is None else borrowed

    def _best_of(self, job: int, size: int, candidates: IntArray) -> int | None:
        tree = self._tree
        best = suited(best_block, len(candidates))(
            candidates,
            size,
            self.board.num_free_at,
            self._num_taken_at,
            self._num_own_at(job),
            tree.parents,
            tree.lineages.shape[1],
        )
        return None if best < 0 else int(best)

    def _best_blocks(self, job: int, size: int, home: int, num: int) -> list[int]:
        """The first so many in the order of `_best_block`, as if taking one left all else as it was."""
        blocks = ancestors = self._may_have(job, self.board.free_blocks_in(home, size))
        overlap = self._num_own_at(job)[blocks]
        keys = [self._num_taken_at[blocks] - overlap, -overlap]  # the last one counts most
        for _ in range(self._tree.lineages.shape[1]):
            ancestors = self._tree.parents[ancestors]
            keys.insert(0, self.board.num_free_at[ancestors])
        best: list[int] = blocks[np.lexsort(keys)[:num]].tolist()
        return best

    # Room made by moving others

    def _make_room(self, job: int, num_devices: int) -> bool:
        """Move others until the job has whole blocks; False, and nothing has changed, if that fails."""
        board, evicted = self.board.copy(), set(self._evicted)
        if all(self._clear(job, size) for size in _block_sizes(self._tree, num_devices)):
            self._touched |= self._evicted
            return True
        self.board, self._evicted = board, evicted
        return False

    def _clear(self, job: int, size: int) -> bool:
        """Give the job one block of this size, whoever is there, and the evicted another place.

        Whoever is evicted holds less than `size` there and so needs smaller blocks: this ends. On
        aligned blocks of powers of two it succeeds too, for enough is free.
        """
        target = self._best_block(job, size)
        if target is None:
            target = self._cheapest_target(job, size)
        if target is None:
            return False
        positions = self._positions(target)
        owners = self.board.owners[positions]
        counts = Counter(owners.tolist())
        del counts[NOBODY]
        for other in counts:
            self.board.take_back(other, positions[owners == other])
            self._evicted.add(other)
        self.board.give(job, positions)
        largest_first = sorted(counts, key=lambda other: (-counts[other], self._reality.names[other]))
        return all(
            self._clear(other, part)
            for other in largest_first
            for part in _block_sizes(self._tree, counts[other])
        )

    def _cheapest_target(self, job: int, size: int) -> int | None:
        """See `choice.cheapest_block`."""
        blocks = self._may_have(job, self._tree.blocks.get(size, NONE))
        pinned = {self._reality.number(other) for other in self._pinned}
        for least_free, fixed in ((1, pinned), (0, pinned | self._owned_only)):
            target = suited(cheapest_block, len(blocks))(
                blocks,
                size,
                job,
                self.board.num_free_at,
                self.board.owners,
                self._tree.starts,
                self._num_own_at(job),
                self._reality.flags(fixed),
                self._reality.flags(self._own),
                least_free,
            )
            if target >= 0 or job not in self._owned_only:
                break  # only of owned blocks all may be taken: there are others for those who must go
        return None if target < 0 else int(target)

    def _may_have(self, job: int, blocks: IntArray) -> IntArray:
        if job not in self._owned_only:
            return blocks
        return blocks[self._tree.stops[blocks] <= self._tree.num_owned]

    # Last resort

    def _scattered(self, job: int, num_devices: int) -> IntArray:
        """Free devices of the innermost, most crowded home that has enough; fewer where it has not."""
        if job in self._owned_only:
            free = np.flatnonzero(self.board.owners[: self._tree.num_owned] == NOBODY)
            return free[:num_devices] if len(free) >= num_devices else NONE
        homes, free_at = self._tree.homes, self.board.num_free_at
        homes = homes[free_at[homes] >= num_devices]
        home = _least(homes, -self._tree.depths[homes], free_at[homes])[0]
        positions = self._positions(int(home))
        there: IntArray = positions[self.board.owners[positions] == NOBODY]
        return there[:num_devices]

    # Counting

    def _positions(self, subtree: int) -> IntArray:
        return np.arange(self._tree.starts[subtree], self._tree.stops[subtree])

    def _num_own_at(self, job: int) -> IntArray:
        """(N + 1,) devices below each point of the tree that the job really holds."""
        known = self._own_at.get(job)
        if known is None:
            known = self._own_at[job] = self._tree.num_below(self._real(job))
        return known


def _block_sizes(tree: Tree, num_devices: int) -> tuple[int, ...]:
    """Sizes of the blocks that make up `num_devices`: whole largest blocks, then powers of two."""
    num_whole, rest = divmod(num_devices, tree.largest_block)
    return (tree.largest_block,) * num_whole + tuple(powers_of_two(rest))


def _least(candidates: IntArray, *keys: IntArray) -> IntArray:
    """Those with the lowest keys, the first key first, in their order."""
    is_least = np.ones(len(candidates), dtype=bool)
    for key in keys:
        is_least &= key == key[is_least].min()
    return candidates[is_least]
