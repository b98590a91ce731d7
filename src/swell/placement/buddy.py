"""Buddy allocation on the topology tree: whole, aligned blocks, and those who run stay where they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from swell.model.cluster import Cluster
from swell.model.plan import Placement
from swell.placement.board import Board
from swell.placement.tree import Subtree, Tree, powers_of_two, tree_of


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

    References: ElasticFlow, section 4.3 (best fit, buddy allocation with migration); Hwang et al.,
        "Elastic Resource Sharing for Distributed Deep Learning" (CoDDL), NSDI 2021.
    Deviates: the paper leaves open what to move; blocks end at nodes, beyond which whole nodes are equal.
    """

    def __init__(self) -> None:
        self._cluster, self._tree = Cluster(), tree_of(Cluster())

    def place(
        self,
        cluster: Cluster,
        wanted: Mapping[str, int],
        held: Mapping[str, tuple[str, ...]],
        pinned: frozenset[str],
    ) -> Placement:
        """See `core.ports.Placer.place`. Held devices that are no longer in the cluster are ignored."""
        if cluster is not self._cluster:
            self._cluster, self._tree = cluster, tree_of(cluster)
        tree = self._tree
        own = {
            job: [tree.positions[device] for device in devices if device in tree.positions]
            for job, devices in held.items()
        }
        placing = _Placing(Board(tree), own, pinned)
        for job in sorted(pinned & own.keys()):
            placing.board.give(job, own[job])
        movable = {job: num for job, num in wanted.items() if num > 0 and job not in pinned}
        for job, num_devices in movable.items():
            if own.get(job):
                placing.board.give(job, part_to_keep(tree, own[job], num_devices))
        unplaced = {job for job, num_devices in movable.items() if not placing.complete(job, num_devices)}
        return placing.outcome(unplaced)


def part_to_keep(tree: Tree, own: Collection[int], num_devices: int) -> list[int]:
    """Which of its devices a job keeps that is to have `num_devices`: all, or the lowest aligned part."""
    if num_devices >= len(own):
        return list(own)
    rest, kept = set(own), []
    for size in powers_of_two(num_devices):
        whole = (block for block in tree.blocks.get(size, []) if rest.issuperset(block.span))
        block = next(whole, None)
        part = list(block.span) if block else sorted(rest)[:size]
        kept += part
        rest.difference_update(part)
    return kept


class _Placing:
    """One placement under way."""

    def __init__(self, board: Board, own: Mapping[str, list[int]], pinned: frozenset[str]) -> None:
        self.board = board
        self._own = own  #: job -> positions it holds in the real world, in rank order
        self._owner = {position: job for job, positions in own.items() for position in positions}
        self._pinned = pinned
        self._evicted: set[str] = set()

    def complete(self, job: str, num_devices: int) -> bool:
        """See that the job has `num_devices`; False, and it has none, if there are not enough."""
        if len(self.board.held.get(job, ())) == num_devices:
            return True
        self.board.take_back(job, self.board.held.setdefault(job, set()))
        if self.board.num_free < num_devices:
            return False
        blocks = self._blocks_for(job, num_devices)
        if blocks is not None:
            self.board.give(job, (position for block in blocks for position in block.span))
        elif not self._make_room(job, num_devices):
            self.board.give(job, self._scattered(num_devices))
        return True

    def outcome(self, unplaced: Collection[str]) -> Placement:
        devices = {
            job: tuple(self.board.tree.devices[position] for position in self._ranked(job, positions))
            for job, positions in self.board.held.items()
            if positions and job not in unplaced
        }
        moved = {job for job in self._evicted if job in devices and self._has_moved(job)}
        return Placement(devices=devices, moved=frozenset(moved))

    def _has_moved(self, job: str) -> bool:
        """Whether a job that ran has left devices for others: more than growing or shrinking."""
        own, has = set(self._own.get(job, ())), self.board.held[job]
        return not (own <= has or has <= own)

    def _ranked(self, job: str, positions: set[int]) -> list[int]:
        """Survivors keep their order, and come first: the lowest of them has the state."""
        stay = [position for position in self._own.get(job, ()) if position in positions]
        return stay + sorted(positions.difference(stay))

    # Free blocks

    def _blocks_for(self, job: str, num_devices: int) -> list[Subtree] | None:
        """Free blocks that make up `num_devices`, in the innermost home that has room for all."""
        sizes = _block_sizes(self.board.tree, num_devices)
        if len(sizes) == 1:
            block = self._best_block(job, sizes[0], None)
            return None if block is None else [block]
        own = self._own.get(job, ())
        homes = [home for home in self.board.tree.homes if self.board.num_free_in(home) >= num_devices]
        homes.sort(
            key=lambda home: (-home.depth, -_overlap(own, home), self.board.num_free_in(home), home.start)
        )
        for home in homes:
            blocks = self._blocks_in(home, job, sizes)
            if blocks is not None:
                return blocks
        return None

    def _blocks_in(self, home: Subtree, job: str, sizes: list[int]) -> list[Subtree] | None:
        blocks: list[Subtree] = []
        for size in sizes:
            block = self._best_block(job, size, home)
            if block is None:
                break
            self.board.give(job, block.span)
            blocks.append(block)
        for block in blocks:
            self.board.take_back(job, block.span)
        return blocks if len(blocks) == len(sizes) else None

    def _best_block(self, job: str, size: int, home: Subtree | None) -> Subtree | None:
        """The free block with most of the job's own devices, then with the fewest that others have yet
        to leave (two that wait for each other's would wait for ever), then in crowded surroundings."""
        own, num_free_at = self._own.get(job, ()), self.board.num_free_at

        def key(block: Subtree) -> tuple[int, int, list[int], int]:
            num_waited_for = sum(self._owner.get(position, job) != job for position in block.span)
            free_around = [num_free_at[number] for number in block.lineage]
            return -_overlap(own, block), num_waited_for, free_around, block.start

        free = (
            block
            for block in self.board.tree.blocks.get(size, [])
            if num_free_at[block.lineage[0]] == size and (home is None or _is_in(block, home))
        )
        return min(free, key=key, default=None)

    # Room made by moving others

    def _make_room(self, job: str, num_devices: int) -> bool:
        """Move others until the job has whole blocks; False, and nothing has changed, if that fails."""
        board, evicted = self.board.copy(), set(self._evicted)
        if all(self._clear(job, size) for size in _block_sizes(board.tree, num_devices)):
            return True
        self.board, self._evicted = board, evicted
        return False

    def _clear(self, job: str, size: int) -> bool:
        """Give the job one block of this size, whoever is there, and the evicted another place.

        Whoever is evicted holds less than `size` there and so needs smaller blocks: this ends. On
        aligned blocks of powers of two it succeeds too, for enough is free.
        """
        target = self._best_block(job, size, None) or self._cheapest_target(job, size)
        if target is None:
            return False
        homeless = self.board.jobs_in(target)
        for other in homeless:
            inside = [position for position in target.span if self.board.owners[position] == other]
            self.board.take_back(other, inside)
            self._evicted.add(other)
        self.board.give(job, target.span)
        by_size = sorted(homeless.items(), key=lambda entry: (-entry[1], entry[0]))
        return all(
            self._clear(other, part)
            for other, num_devices in by_size
            for part in _block_sizes(self.board.tree, num_devices)
        )

    def _cheapest_target(self, job: str, size: int) -> Subtree | None:
        """The block from which the fewest running jobs must go; of these, one where the job itself is."""
        own = self._own.get(job, ())

        def cost(block: Subtree) -> tuple[int, int, int, int]:
            jobs = self.board.jobs_in(block)
            num_running = sum(1 for other in jobs if self._own.get(other))
            return num_running, -_overlap(own, block), sum(jobs.values()), block.start

        return min(self._targets(job, size), key=cost, default=None)

    def _targets(self, job: str, size: int) -> Iterator[Subtree]:
        """Blocks of this size with some of it free (so that each part in it is smaller), nothing pinned."""
        for block in self.board.tree.blocks.get(size, []):
            if 0 < self.board.num_free_in(block) < size:
                jobs = self.board.jobs_in(block)
                if job not in jobs and not self._pinned.intersection(jobs):
                    yield block

    # Last resort

    def _scattered(self, num_devices: int) -> list[int]:
        """Free devices of the innermost, most crowded home that has enough."""
        homes = [home for home in self.board.tree.homes if self.board.num_free_in(home) >= num_devices]
        home = min(homes, key=lambda home: (-home.depth, self.board.num_free_in(home), home.start))
        free = [position for position in home.span if self.board.is_free(position)]
        return free[:num_devices]


def _block_sizes(tree: Tree, num_devices: int) -> list[int]:
    """Sizes of the blocks that make up `num_devices`: whole largest blocks, then powers of two."""
    num_whole, rest = divmod(num_devices, tree.largest_block)
    return [tree.largest_block] * num_whole + list(powers_of_two(rest))


def _overlap(own: Collection[int], subtree: Subtree) -> int:
    return sum(subtree.start <= position < subtree.stop for position in own)


def _is_in(block: Subtree, home: Subtree) -> bool:
    return home.start <= block.start and block.stop <= home.stop
