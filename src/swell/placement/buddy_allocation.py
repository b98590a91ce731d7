"""How many devices of which part of the cluster each job gets: buddy allocation with migration."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import ParamSpec

import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.placement.device_tree import NOTHING, Occupancy, Share, spread

P = ParamSpec("P")


#: What a job has of one group of devices, and may have elsewhere instead: how many; its moving cost (0 if it
#: does not run yet, 1, or 2 if it may not go to borrowed nodes); and its id. The smallest comes first.
MovablePart = tuple[int, int, str]


class BuddyAllocation:
    """What jobs have after one decision, as far as it has got. Arrays (L,) are by leaf of the tree, (G,) by
    group; `home` is always (L,) leaves that a job may have devices of.

    Each step is noted, so that a failed attempt can be undone.

    References: ElasticFlow, section 4.3 and Figure 5.
    """

    def __init__(
        self,
        reality: Occupancy,
        pinned: frozenset[str],
        owned_only: frozenset[str],
        barred: Mapping[str, frozenset[str]],
        staying: frozenset[str],
        each: Mapping[str, int],
        slow: frozenset[str],
    ) -> None:
        self._reality, self._tree = reality, reality.tree
        self._held = reality.shares  #: what jobs hold before anything is changed
        self._owned_only, self._barred = owned_only, barred
        self._each = each
        self._staying = staying & reality.held.keys()
        self._pinned = pinned | self._staying  #: jobs that make no room for others
        self._free: IntArray = reality.free.copy()
        leaves = [reality.tree.leaf_of.get(device) for device in slow - reality.taken]
        idle_slow = [leaf for leaf in leaves if leaf is not None]
        #: (L,) slow devices that no job held; None: there are none.
        self._num_slow = np.bincount(idle_slow, minlength=reality.free.size) if idle_slow else None
        self._leaving = np.zeros_like(reality.free)  #: (L,) of the free ones those that jobs really hold
        self.shares: dict[str, dict[int, int]] = {}  #: of jobs that were looked at
        self.evicted: set[str] = set()
        #: Jobs, leaves, and by how much the job's number changed.
        self._steps: list[tuple[str, int, int]] = []

    def share(self, job: str) -> Share:
        """Devices that the job has by now."""
        share = self.shares.get(job)
        return self._held.get(job, NOTHING) if share is None else share

    def keep(self, job: str, num_devices: int) -> None:
        """The job gives up what it has beyond so many: it keeps some of few racks, nodes and islands."""
        own = dict(self.share(job))
        if num_devices < sum(own.values()):
            counts = self._tree.sums(self._by_leaf(own))
            kept = self._tree.gather(counts, num_devices) if num_devices else NOTHING
            for leaf, num in own.items():
                self._add(job, leaf, kept.get(leaf, 0) - num)

    def complete(self, job: str, num_devices: int) -> bool:
        """See that the job has `num_devices`; False, and it has none, if there are not enough."""
        if sum(self.share(job).values()) == num_devices:
            return True
        if job in self._staying and self.share(job):
            if self._extend(job, num_devices) and self._has_whole_workers():
                return True
            self._clear([job])
            return False
        self._clear([job])
        return self._free.sum() >= num_devices and (
            self._attempt(self._replace, job, num_devices) or self._attempt(self._take_free, job, num_devices)
        )

    def _replace(self, job: str, num_devices: int) -> bool:
        """Settle the job, and others that leave owned nodes for it."""
        leaving = self._leaving_owned(num_devices) if job in self._owned_only else ()
        if leaving is None:
            return False
        nums = {other: sum(self.share(other).values()) for _, _, other in leaving}
        self.evicted.update(nums)
        self._clear(nums)
        settled = all(self._settle(one, num) for one, num in ({job: num_devices} | nums).items())
        return settled and self._has_whole_workers()

    def _take_free(self, job: str, num_devices: int) -> bool:
        """Give it free devices, wherever they are, of each node as many as whole workers have."""
        free = np.where(self._allowed(job), self._free, 0)
        if (each := self._each.get(job, 1)) > 1:
            spare = self._tree.sums(free) % each
            for leaf, node in enumerate(self._tree.levels[self._tree.node_level].tolist()):
                left_out = min(int(spare[node]), int(free[leaf]))
                free[leaf] -= left_out
                spare[node] -= left_out
        is_enough = bool(free.sum() >= num_devices)
        for leaf, num in self._tree.gather(self._tree.sums(free), num_devices).items() if is_enough else ():
            self._add(job, leaf, num)
        return is_enough

    def _has_whole_workers(self) -> bool:
        """Whether no worker of the jobs that were looked at has devices of several nodes."""
        return not any(
            (self._tree.sums(self._by_leaf(self.shares[job]))[self._tree.is_node] % each).any()
            for job, each in self._each.items()
            if job in self.shares
        )

    def _extend(self, job: str, num_devices: int) -> bool:
        """Add free devices to those that the job has: of its own leaves and nodes, then of few others.

        False: there are not enough.
        """
        own, home = self._by_leaf(self.share(job)), self._allowed(job)
        lacking = num_devices - int(own.sum())
        leaves = (home & (self._free > 0)).nonzero()[0]
        free = self._free[leaves]
        if free.sum() < lacking:
            return False
        on_node = self._tree.sums(own)[self._tree.levels[self._tree.node_level, leaves]]
        keys = (free, -np.minimum(free, lacking), self._tree.is_owned[leaves], on_node == 0, own[leaves] == 0)
        for leaf in leaves[np.lexsort(keys)].tolist():
            num = min(lacking, int(self._free[leaf]))
            self._add(job, leaf, num)
            lacking -= num
            if lacking == 0:
                break
        return True

    # Steps, and undoing them

    def _by_leaf(self, share: Share) -> IntArray:
        """(L,) the same by leaf."""
        counts = np.zeros(len(self._free), dtype=np.int64)
        if share:
            counts[list(share)] = list(share.values())
        return counts

    def _own_share(self, job: str) -> dict[int, int]:
        """What the job has by now, to be changed."""
        if job not in self.shares:
            self.shares[job] = dict(self._held.get(job, NOTHING))
        return self.shares[job]

    def _add(self, job: str, leaf: int, num: int) -> None:
        """Give the job so many more of this leaf; below 0: it gives them up."""
        share, really = self._own_share(job), self._held.get(job, NOTHING).get(leaf, 0)
        had = share.pop(leaf, 0)
        if had + num:
            share[leaf] = had + num
        self._free[leaf] -= num
        self._leaving[leaf] += min(really, had) - min(really, had + num)
        self._steps.append((job, leaf, num))

    def _clear(self, jobs: Iterable[str], home: BoolArray | None = None) -> None:
        """These jobs give up what they have, or what they have at home."""
        for job in jobs:
            for leaf, num in list(self._own_share(job).items()):
                if home is None or home[leaf]:
                    self._add(job, leaf, -num)

    def _attempt(self, step: Callable[P, bool], *args: P.args, **kwargs: P.kwargs) -> bool:
        """What a step says; if that is False, nothing has changed."""
        num_steps, num_shares, evicted = len(self._steps), len(self.shares), set(self.evicted)
        if step(*args, **kwargs):
            return True
        for job, leaf, num in reversed(self._steps[num_steps:]):
            self._add(job, leaf, -num)
        del self._steps[num_steps:]
        while len(self.shares) > num_shares:
            self.shares.popitem()
        self.evicted = evicted
        return False

    def _allowed(self, job: str) -> BoolArray:
        """(L,) leaves whose devices it may have."""
        tree = self._tree
        allowed = tree.is_owned if job in self._owned_only else tree.everywhere
        if barred := self._barred.get(job):
            allowed = allowed & np.array([node.name not in barred for node in tree.nodes], dtype=bool)
        return allowed

    # What is free

    def _settle(self, job: str, num: int) -> bool:
        """Give it so many devices that are near each other, from which others move if need be; or else whole
        nodes, in whatever racks; or else what is free. False: there are not as many."""
        tree, home = self._tree, self._allowed(job)
        if self._attempt(self._force, job, num, home):
            return True
        pieces = self._pieces(num, tree.is_node.nonzero()[0], home)
        if tree.has_racks and self._attempt(self._force_each, job, pieces, home):
            return True
        is_one = tree.smallest(self._sums(self._free, home), num)
        return self._gather(job, num, is_one, home)

    def _fit(self, job: str, num: int, home: BoolArray, times: int = 1) -> bool:
        """Give it so many free devices of one of the smallest groups that are large enough, or of so many of
        them each: no job has to move. If it fails for one, nothing has changed."""
        for group in self._ranked(job, num, self._large_enough(num, home), home):
            times -= self._attempt(self._fill, job, num, group, home)
            if not times:
                return True
        return False

    def _fill(self, job: str, num: int, group: int, home: BoolArray) -> bool:
        """Give it so many free devices of this group: whole parts of it, and the rest of one."""
        if not len(self._tree.parts(group)):
            self._add(job, group, num)
            return True
        inside = home & self._tree.is_in(group)
        pieces = self._pieces(num, self._tree.parts(group), inside)
        return all(self._fit(job, size, inside, times) for size, times in pieces.items())

    def _gather(self, job: str, num: int, is_one: BoolArray, home: BoolArray) -> bool:
        """Give it so many free devices of one of these (G,) groups, wherever they are in it."""
        groups, free = self._ranked(job, num, is_one, home), self._sums(self._free, home)
        for leaf, amount in self._tree.gather(free, num, groups[0]).items() if groups else ():
            self._add(job, leaf, amount)
        return bool(groups)

    def _sums(self, counts: IntArray, home: BoolArray) -> IntArray:
        """(G,) sums over the leaves of each group that are at home, of (L,) counts."""
        return self._tree.sums(counts if home is self._tree.everywhere else np.where(home, counts, 0))

    def _widths(self, home: BoolArray) -> IntArray:
        """(G,) devices at home, free or not."""
        tree = self._tree
        return tree.group_widths if home is tree.everywhere else self._sums(tree.widths, home)

    def _large_enough(self, num: int, home: BoolArray, may_be_island: bool = True) -> BoolArray:
        """(G,) the smallest groups that have so many devices at home, free or not."""
        tree, widths = self._tree, self._widths(home)
        if not may_be_island:
            widths = widths * (tree.is_node | ~tree.is_on_node)
        return tree.smallest(widths, num)

    def _pieces(self, num: int, groups: IntArray, home: BoolArray) -> Mapping[int, int]:
        """Number of devices -> of how many of the groups it is to have so many: of few, the largest first."""
        amounts = spread(self._widths(home)[groups], num)
        return Counter(np.sort(amounts[amounts > 0])[::-1].tolist())

    def _ranked(self, job: str, num: int, is_one: BoolArray, home: BoolArray) -> Sequence[int]:
        """Those of the (G,) groups that have so many free at home.

        Those with most of its own devices come first, then borrowed ones, then those with fewest that others
        have yet to leave (two that wait for each other's would wait for ever), then those of which it would
        get fewest slow devices, then those with fewest workers for each core, if that is more than one; then
        the most crowded, in the most crowded surroundings.
        """
        tree, free = self._tree, self._sums(self._free, home)
        groups = (is_one & (free >= num)).nonzero()[0]
        if len(groups) < 2:
            return list(groups.tolist())
        at_once, by_own = free[groups] - self._sums(self._leaving, home)[groups], list[IntArray]()
        if really := self._held.get(job, NOTHING):
            own = tree.sums(np.maximum(self._by_leaf(really) - self._by_leaf(self.share(job)), 0))
            own_there = np.minimum(own[groups], num)
            at_once += own_there
            by_own = [-own[tree.ancestors[tree.node_level, groups]], -own_there]
        keys = [*free[tree.around[:, groups]]]
        if tree.cores is not None:
            node = tree.ancestors[tree.node_level, groups]
            workers = tree.sums(tree.widths - self._free)[node] + num
            keys.append(np.maximum(workers / tree.cores[groups], 1.0))
        if self._num_slow is not None:
            slow = np.minimum(self._sums(self._num_slow, home)[groups], free[groups])
            keys.append(np.maximum(num - (free[groups] - slow), 0))
        waits = (num - np.minimum(at_once, num)) * tree.is_on_node[groups]
        keys += [waits, tree.has_owned[groups], *by_own]
        return list(groups[np.lexsort(keys)].tolist())

    # Room made by moving others

    def _force(self, job: str, num: int, home: BoolArray, node: BoolArray | None = None) -> bool:
        """Give the job so many of one group at home, whichever jobs are there, and the evicted ones another
        place; False: something has changed, and has to be undone.

        A job that is evicted has less than `num`, there or in all: this ends. In a tree of powers of two,
        powers of two succeed, too: what is smaller and free in a group is a multiple of `num` there, and in
        the cluster enough is always free for the jobs without a place. Jobs that may not go everywhere only
        go where no others could.

        Args:
            node: (L,) leaves of the node on which all of this happens; None: jobs leave nodes, not islands.
        """
        if self._fit(job, num, home) or (node is None and self._fit_on_node(job, num, home)):
            return True
        place = self._cheapest(job, num, home, node is not None)
        if place is None:
            return False
        group, victims = place
        parts, inside = self._tree.parts(group), home & self._tree.is_in(group)
        others = [other for _, _, other in victims]
        self.evicted.update(others)
        self._clear(others, inside)
        is_whole = not len(parts) or (node is None and self._tree.is_on_node[group])
        pieces = {num: 1} if is_whole else self._pieces(num, parts, inside)
        return self._force_each(job, pieces, inside, node) and all(
            self._force(other, size, self._allowed(other) if node is None else node, node)
            for size, _, other in sorted(victims)[::-1]
        )

    def _force_each(
        self, job: str, pieces: Mapping[int, int], home: BoolArray, node: BoolArray | None = None
    ) -> bool:
        """Give it each number of devices of so many groups."""
        each = (size for size, times in pieces.items() for _ in range(times))
        return all(self._force(job, size, home, node) for size in each)

    def _fit_on_node(self, job: str, num: int, home: BoolArray) -> bool:
        """Give it so many free devices of one node with islands: of one island, where others move to other
        islands of the node, or wherever they are."""
        is_one = self._tree.is_node & self._tree.is_divided
        groups = self._ranked(job, num, is_one, home) if is_one.any() else ()
        if not groups:
            return False
        node = home & self._tree.is_in(groups[0])
        return self._attempt(self._force, job, num, node, node) or self._gather(job, num, is_one, node)

    def _cheapest(
        self, job: str, num: int, home: BoolArray, may_be_island: bool
    ) -> tuple[int, Sequence[MovablePart]] | None:
        """A group that is large enough and from which enough smaller parts of jobs may go, and these.

        Of several groups: one from which none must go that may have owned devices only, then the fewest
        running ones, then one where the job itself is, then the one with the fewest devices to leave.
        """
        free = self._sums(self._free, home)
        is_one = self._large_enough(num, home, may_be_island) & (free > 0)
        if (is_one & (free >= num)).any():
            return self._ranked(job, num, is_one, home)[0], ()
        levels = self._tree.levels  # none of two groups of a leaf is a part of the other: it has one at most
        group_of = np.where(home & is_one[levels], levels, -1).max(axis=0)
        own = self._tree.sums(self._by_leaf(self._held.get(job, NOTHING)))
        best, least = None, None
        for group, nums in sorted(self._nums_by_group(group_of).items()):
            # On a node, the part of a job counts; elsewhere all that it has.
            is_whole = not self._tree.is_on_node[group]
            sizes = {one: sum(self.share(one).values()) for one in nums} if is_whole else nums
            smaller = {one: there for one, there in nums.items() if one != job and sizes[one] < num}
            victims = _fewest(self._parts(smaller), num - int(free[group]))
            if victims is None:
                continue
            costs = [cost for _, cost, _ in victims]
            num_leaving = sum([there for there, _, _ in victims])
            rank = (max(costs, default=0), len(costs) - costs.count(0), -int(own[group]), num_leaving)
            if least is None or rank < least:
                best, least = (group, victims), rank
        return best

    def _leaving_owned(self, num_devices: int) -> Sequence[MovablePart] | None:
        """Who goes to borrowed nodes so that so many owned devices are free; None: that cannot be."""
        is_owned = self._tree.is_owned
        lacking = num_devices - int(self._free[is_owned].sum())
        if lacking <= 0:
            return ()
        parts = self._parts(self._nums_by_group(np.where(is_owned, 0, -1)).get(0, {}))
        return _fewest([part for part in parts if part[1] < 2], lacking)

    def _nums_by_group(self, group_of: IntArray) -> Mapping[int, Mapping[str, int]]:
        """Devices that jobs which may move have of each group, by (L,) groups of leaves; -1: of none."""
        nums: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        groups = group_of.tolist()
        for leaf in (group_of >= 0).nonzero()[0].tolist():
            there = nums[groups[leaf]]
            for job in self._reality.jobs_on[leaf].difference(self.shares, self._pinned):
                there[job] += self._held[job][leaf]
        for job, share in self.shares.items():
            for leaf, num in share.items():
                if groups[leaf] >= 0 and job not in self._pinned:
                    nums[groups[leaf]][job] += num
        return nums

    def _parts(self, nums: Mapping[str, int]) -> list[MovablePart]:
        owned_only, running = self._owned_only, self._reality.held
        return [(num, 2 if job in owned_only else int(job in running), job) for job, num in nums.items()]


def _fewest(parts: Sequence[MovablePart], num: int) -> Sequence[MovablePart] | None:
    """Fewest parts that have `num` devices together, of the lowest moving cost possible; None: too few.

    The last part is the smallest that suffices.
    """
    for most in range(3):
        left = [part for part in parts if part[1] <= most]
        if sum([there for there, _, _ in left]) >= num:
            break
    else:
        return None
    left.sort()
    chosen: list[MovablePart] = []
    while num > 0:
        place = bisect_left(left, num, key=itemgetter(0))
        chosen.append(left.pop(min(place, len(left) - 1)))
        num -= chosen[-1][0]
    return chosen
