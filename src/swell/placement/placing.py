"""How many devices of which node each job gets: one placement under way."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.placement.held_placement import NOTHING, HeldPlacement, Share
from swell.placement.placed_part import PlacedPart, cost_of, fewest
from swell.placement.topology import spread, spread_by_group


class _Mark(NamedTuple):
    """How far a placement was."""

    num_steps: int
    evicted: frozenset[str]


class PlacementState:
    """What jobs have after one placement, as far as it has got. Arrays (N,) are by node.

    A share is never changed, and each step is noted, so that a failed attempt can be undone.
    """

    def __init__(
        self,
        reality: HeldPlacement,
        pinned: frozenset[str],
        owned_only: frozenset[str],
        barred: Mapping[str, frozenset[str]],
        staying: frozenset[str] = frozenset(),
    ) -> None:
        self._reality, self._topology = reality, reality.topology
        self._owned_only, self._barred = owned_only, barred
        self._staying = staying & reality.held.keys()
        self.pinned = pinned | self._staying  #: jobs that make no room for others
        self._free: IntArray = reality.free.copy()
        self._num_free = int(reality.free.sum())
        self._leaving = np.zeros_like(reality.free)  #: (N,) of the free ones those that jobs really hold
        self.shares: dict[str, Share] = {}  #: of jobs that were looked at
        self.evicted: set[str] = set()
        self._steps: list[tuple[str, Share | None]] = []  #: jobs and what they had before

    def keep(self, job: str, num_devices: int) -> None:
        """The job gives up what it has beyond so many."""
        own = self.share(job)
        if num_devices < sum(own.values()):
            nodes = sorted(own)
            amounts = spread_by_group(
                np.array([own[node] for node in nodes]), self._topology.real_racks[nodes], num_devices
            )
            self._set(job, _nonzero(nodes, amounts))

    def complete(self, job: str, num_devices: int) -> bool:
        """See that the job has `num_devices`; False, and it has none, if there are not enough."""
        if sum(self.share(job).values()) == num_devices:
            return True
        if job in self._staying and self.share(job):
            return self._extend(job, num_devices)
        self._clear(job)
        if self._num_free < num_devices:
            return False
        leaving = self._leaving_owned(num_devices) if job in self._owned_only else ()
        if leaving is None:
            return False
        before = self._mark()
        sizes = {part.job: sum(self.share(part.job).values()) for part in leaving}
        self.evicted.update(sizes)
        for other in sizes:
            self._clear(other)
        if all(self._settle(one, num) for one, num in ({job: num_devices} | sizes).items()):
            return True
        self._go_back(before)
        return False

    def _extend(self, job: str, num_devices: int) -> bool:
        """Add free devices to those that the job has: of its own nodes, then of the fewest others."""
        own, allowed = self.share(job), self._allowed(job)
        lacking = num_devices - sum(own.values())
        nodes = (allowed & (self._free > 0)).nonzero()[0]
        free = self._free[nodes]
        if free.sum() < lacking:
            self._clear(job)
            return False
        is_own = np.fromiter((node in own for node in nodes.tolist()), bool, len(nodes))
        amounts = np.minimum(free, lacking)
        for node in nodes[np.lexsort((free, -amounts, self._topology.is_owned[nodes], ~is_own))].tolist():
            num = min(lacking, int(self._free[node]))
            self._add(job, node, num)
            lacking -= num
            if lacking == 0:
                break
        return True

    def share(self, job: str) -> Share:
        """Devices that the job has by now."""
        share = self.shares.get(job)
        return self._reality.nums.get(job, NOTHING) if share is None else share

    def _own_of(self, job: str) -> Share:
        """Devices that the job really holds."""
        return self._reality.nums.get(job, NOTHING)

    def _set(self, job: str, share: Share) -> None:
        before, own = self.shares.get(job), self._own_of(job)
        self._steps.append((job, before))
        self._change(own, own if before is None else before, share)
        self.shares[job] = share

    def _change(self, own: Share, before: Share, share: Share) -> None:
        """A job that really holds `own` has another share from now on."""
        for node in before.keys() | share.keys():
            had, has, really = before.get(node, 0), share.get(node, 0), own.get(node, 0)
            self._free[node] += had - has
            self._num_free += had - has
            self._leaving[node] += min(really, had) - min(really, has)

    def _clear(self, job: str) -> None:
        self._set(job, NOTHING)

    def _add(self, job: str, node: int, num: int) -> None:
        share = self.share(job)
        left = share.get(node, 0) + num
        others = {other: num for other, num in share.items() if other != node}
        self._set(job, {**others, node: left} if left else others)

    def _allowed(self, job: str) -> BoolArray:
        """(N,) nodes whose devices it may have."""
        topology = self._topology
        allowed = topology.is_owned if job in self._owned_only else topology.is_any
        if barred := self._barred.get(job):
            allowed = allowed & np.fromiter((name not in barred for name in topology.names), bool)
        return allowed

    def _mark(self) -> _Mark:
        return _Mark(len(self._steps), frozenset(self.evicted))

    def _go_back(self, mark: _Mark) -> None:
        while len(self._steps) > mark.num_steps:
            job, before = self._steps.pop()
            own = self._own_of(job)
            self._change(own, self.shares[job], own if before is None else before)
            if before is None:
                del self.shares[job]
            else:
                self.shares[job] = before
        self.evicted = set(mark.evicted)

    # What is free

    def _settle(self, job: str, num_devices: int) -> bool:
        """Give it so many, of which there are enough, unless it is barred from where they are; else False."""
        allowed = self._allowed(job)
        widths = self._topology.widths_of(allowed)
        if widths.num_devices < num_devices:
            return False
        has_racks = self._topology.num_racks > 1 and num_devices > widths.widest
        if has_racks and self._settle_in_racks(job, num_devices, allowed):
            return True
        sizes = {num_devices: 1} if num_devices <= widths.widest else _sizes(widths.each, num_devices)
        homes = [allowed] if num_devices in sizes else [*self._racks_with(job, num_devices, allowed), allowed]
        for home in homes:
            amounts = self._fit(job, sizes, home)
            if amounts is not None:
                self._set(job, amounts)
                return True
        if self._make_room(job, sizes, allowed):
            return True
        if self._free[allowed].sum() < num_devices:
            return False
        enough = next(self._racks_with(job, num_devices, allowed), allowed).nonzero()[0]
        spread_out = spread_by_group(self._free[enough], self._topology.real_racks[enough], num_devices)
        self._set(job, _nonzero(enough.tolist(), spread_out))
        return True

    def _settle_in_racks(self, job: str, num_devices: int, allowed: BoolArray) -> bool:
        """Give it whole racks, and the rest in one; False, and nothing has changed, if that fails."""
        before = self._mark()
        widths = np.bincount(self._topology.real_racks, np.where(allowed, self._topology.widths, 0))
        sizes = {num_devices: 1} if num_devices <= widths.max() else _sizes(widths, num_devices)
        if all(self._settle_in_rack(job, size, allowed) for size, num in sizes.items() for _ in range(num)):
            return True
        self._go_back(before)
        return False

    def _settle_in_rack(self, job: str, size: int, allowed: BoolArray) -> bool:
        """Give it so many more devices of one rack, from which others move if need be."""
        real_racks = self._topology.real_racks
        for home in self._racks_with(job, size, allowed):
            amounts = self._fit(job, self._sizes_in(home, size), home)
            if amounts is not None:
                self._set(job, Counter(self.share(job)) + Counter(amounts))
                return True
        place = self._cheapest_rack(job, size, allowed)
        if place is None:
            return False
        rack, leaving = place
        home, nums = allowed & (real_racks == rack), {one: sum(self.share(one).values()) for one in leaving}
        self.evicted.update(nums)
        for other in nums:
            self._clear(other)
        return self._make_room(job, self._sizes_in(home, size), home) and all(
            self._settle(other, num) for other, num in sorted(nums.items(), key=_largest_first)
        )

    def _sizes_in(self, home: BoolArray, size: int) -> Mapping[int, int]:
        """How many devices of how many nodes it is to have there."""
        widths = self._topology.widths_of(home)
        return {size: 1} if size <= widths.widest else _sizes(widths.each, size)

    def _cheapest_rack(self, job: str, size: int, allowed: BoolArray) -> tuple[int, Sequence[str]] | None:
        """A rack from which enough smaller jobs may go, and these; of several as in `_cheapest`."""
        best, least, own = None, None, self._own_of(job)
        parts_on = self._parts_on(allowed)
        for rack in range(self._topology.num_racks):
            home = allowed & (self._topology.real_racks == rack)
            if self._topology.widths[home].sum() < size:
                continue
            there = defaultdict[str, int](int)
            for node in home.nonzero()[0].tolist():
                for part in parts_on[node]:
                    there[part.job] += part.num
            there.pop(job, None)
            smaller = [
                self._part(other, num)
                for other, num in there.items()
                if sum(self.share(other).values()) < size
            ]
            leaving = fewest(smaller, size - int(self._free[home].sum()))
            if leaving is None:
                continue
            num_own = sum(num for node, num in own.items() if home[node])
            cost = (*cost_of(leaving), -num_own, sum([part.num for part in leaving]))
            if least is None or cost < least:
                best, least = (rack, [part.job for part in leaving]), cost
        return best

    def _racks_with(self, job: str, num_devices: int, allowed: BoolArray) -> Iterator[BoolArray]:
        """(N,) nodes of each rack with so many free devices: those with most of the job's own first, then
        borrowed ones, then the most crowded."""
        racks = self._topology.racks
        free = np.bincount(racks, np.where(allowed, self._free, 0))
        own = np.bincount(racks, self._dense(self._own_of(job)))
        is_owned = np.bincount(racks, self._topology.is_owned) > 0
        for rack in np.lexsort((free, is_owned, -own)).tolist():
            if free[rack] >= num_devices:
                yield allowed & (racks == rack)
        if 1 < self._topology.num_racks < len(free):  # racks that have owned and borrowed nodes
            yield from self._mixed_racks_with(num_devices, allowed)

    def _mixed_racks_with(self, num_devices: int, allowed: BoolArray) -> Iterator[BoolArray]:
        """(N,) allowed nodes of each rack with so many free devices, owned and borrowed ones together."""
        racks = self._topology.real_racks
        free = np.bincount(racks, np.where(allowed, self._free, 0))
        for rack in np.argsort(free, kind="stable").tolist():
            if free[rack] >= num_devices:
                yield allowed & (racks == rack)

    def _dense(self, share: Share) -> IntArray:
        """(N,) the same by node."""
        dense = np.zeros_like(self._free)
        if share:
            dense[list(share)] = list(share.values())
        return dense

    def _fit(self, job: str, sizes: Mapping[int, int], home: BoolArray) -> Share | None:
        """So many devices of one node each, all of them free and at home; None: there are none such."""
        amounts: dict[int, int] = {}
        for size, num in sizes.items():
            free = self._free - self._dense(amounts) if amounts else self._free
            nodes = self._ranked(job, size, home, free, amounts)[:num].tolist()
            if len(nodes) < num:
                return None
            for node in nodes:
                amounts[node] = amounts.get(node, 0) + size
        return amounts

    def _ranked(self, job: str, size: int, home: BoolArray, free: IntArray, has: Share) -> IntArray:
        """Nodes at home with so many free, those with most of its own devices first, then borrowed ones,
        then those with fewest that others have yet to leave (two that wait for each other's would wait for
        ever), then those with fewest workers for each core, if that is more than one; then the most crowded.

        Args:
            free: (N,) devices.
            has: devices that it is to have beside these.
        """
        nodes = (home & (free >= size)).nonzero()[0]
        if len(nodes) < 2:
            return nodes
        left = {node: min(max(num - has.get(node, 0), 0), size) for node, num in self._own_of(job).items()}
        own, free_there = self._dense(left)[nodes], free[nodes]
        waits = size - np.minimum(free_there - self._leaving[nodes] + own, size)
        racks, is_owned = self._topology.racks, self._topology.is_owned[nodes]
        around = np.bincount(racks, free)[racks[nodes]]
        keys = [around, free_there, waits, is_owned, -own]
        if self._topology.has_islands:
            keys[2:2] = [key[nodes] for key in reversed(self._reality.surroundings(size))]
        if self._topology.shares_cores:
            workers = self._topology.widths[nodes] - free_there + size
            keys.insert(2, np.maximum(workers / self._topology.cores[nodes], 1.0))
        if self._topology.num_racks > 1 and (share := self.share(job)):  # what it has stays in one rack
            keys.append(~np.isin(self._topology.real_racks[nodes], self._topology.real_racks[list(share)]))
        ranked: IntArray = nodes[np.lexsort(keys)]
        return ranked

    # Room made by moving others

    def _make_room(self, job: str, sizes: Mapping[int, int], home: BoolArray) -> bool:
        """Move others until the job has its devices at home; False, and nothing has changed, if it fails."""
        before = self._mark()
        if all(self._force(job, size, home) for size, num in sizes.items() for _ in range(num)):
            return True
        self._go_back(before)
        return False

    def _force(self, job: str, size: int, home: BoolArray) -> bool:
        """Give the job so many of one node at home, whichever jobs are there, and the evicted ones another
        place.

        A job that is evicted has less than `size` there: this ends. On nodes of one power of two, powers of
        two succeed, too: what is smaller and free on a node is a multiple of `size` there, and in the cluster
        enough is always free for the jobs without a place. Jobs that may not go everywhere only go where no
        others could.
        """
        nodes = self._ranked(job, size, home, self._free, self.share(job)).tolist()
        place = (nodes[0], ()) if nodes else self._cheapest(job, size, home)
        if place is None:
            return False
        node, victims = place
        for part in victims:
            self.evicted.add(part.job)
            self._add(part.job, node, -part.num)
        self._add(job, node, size)
        return all(
            self._force(part.job, part.num, self._allowed(part.job)) for part in sorted(victims, reverse=True)
        )

    def _cheapest(self, job: str, size: int, home: BoolArray) -> tuple[int, Sequence[PlacedPart]] | None:
        """A node from which enough jobs may go, and these. Of several nodes: one from which none must go that
        may have owned devices only, then the fewest running ones, then one where the job itself is, then the
        one with the fewest devices to leave."""
        own, best, least = self._own_of(job), None, None
        is_near = home & (self._free > 0) & (self._topology.widths >= size)
        for node, parts in self._parts_on(is_near).items():
            smaller = [part for part in parts if part.num < size and part.job != job]
            victims = fewest(smaller, size - int(self._free[node]))
            if victims is None:
                continue
            cost = (*cost_of(victims), -own.get(node, 0), sum([part.num for part in victims]))
            if least is None or cost < least:
                best, least = (node, victims), cost
        return best

    def _leaving_owned(self, num_devices: int) -> Sequence[PlacedPart] | None:
        """Who goes to borrowed nodes so that so many owned devices are free; None: that cannot be."""
        is_owned = self._topology.is_owned
        lacking = num_devices - int(self._free[is_owned].sum())
        if lacking <= 0:
            return ()
        nums: Counter[PlacedPart] = Counter()
        for part in (one for parts in self._parts_on(is_owned).values() for one in parts):
            nums[msgspec.structs.replace(part, num=0)] += part.num
        return fewest(
            [msgspec.structs.replace(part, num=num) for part, num in nums.items() if part.dearness < 2],
            lacking,
        )

    def _parts_on(self, is_near: BoolArray) -> Mapping[int, Sequence[PlacedPart]]:
        """Parts on each node of `is_near` (N,) that may be moved: not of jobs that are pinned or stay."""
        found: dict[int, list[PlacedPart]] = {}
        for node in is_near.nonzero()[0].tolist():
            others = self._reality.jobs_on[node].difference(self.shares, self.pinned)
            found[node] = [
                PlacedPart(self._reality.nums[job][node], 2 if job in self._owned_only else 1, job)
                for job in others
            ]
        for job, share in self.shares.items():
            if job not in self.pinned:
                for node in filter(found.__contains__, share):
                    found[node].append(self._part(job, share[node]))
        return found

    def _part(self, job: str, num: int) -> PlacedPart:
        return PlacedPart(num, 2 if job in self._owned_only else int(job in self._reality.nums), job)


def _largest_first(item: tuple[str, int]) -> tuple[int, str]:
    job, num = item
    return -num, job


def _nonzero(nodes: Sequence[int], amounts: IntArray) -> Share:
    """Map nodes to their number of devices, without those that have 0."""
    return {node: num for node, num in zip(nodes, amounts.tolist(), strict=True) if num}


def _sizes(widths: IntArray, num_devices: int) -> Mapping[int, int]:
    """Number of devices -> of how many nodes it is to have so many: few nodes, the largest number first."""
    amounts = spread(widths, num_devices)
    return Counter(np.sort(amounts[amounts > 0])[::-1].tolist())
