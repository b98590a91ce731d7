"""How many devices of which node each job gets: one placement under way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.placement.reality import Reality
from swell.placement.topology import spread


class Part(NamedTuple):
    """What a job has of one node, or of several, and may have elsewhere instead."""

    num: int
    dearness: int  #: of moving it: 0 if it does not run yet, 1, or 2 if it may not go to borrowed nodes
    job: str


_Mark = tuple[IntArray, IntArray, dict[str, IntArray], set[str]]


class Placing:
    """What jobs have after one placement, as far as it has got.

    Arrays (N,) are by node. They are replaced, never changed, so that a failed attempt can be undone.
    """

    def __init__(
        self,
        reality: Reality,
        pinned: frozenset[str],
        owned_only: frozenset[str],
        barred: Mapping[str, frozenset[str]],
    ) -> None:
        self._reality, self._topology = reality, reality.topology
        self._pinned, self._owned_only, self._barred = pinned, owned_only, barred
        self._is_owned = np.arange(len(reality.free)) < reality.topology.num_owned
        self._is_any = np.ones(len(reality.free), dtype=bool)
        self._own: dict[str, IntArray] = {}  #: as far as it was asked for
        self._free = reality.free
        self._none: IntArray = np.zeros(len(reality.free), dtype=np.int64)
        self._leaving = self._none  #: (N,) of the free ones those that jobs really hold
        self.shares: dict[str, IntArray] = {}  #: job -> (N,) of jobs that were looked at
        self.evicted: set[str] = set()

    def keep(self, job: str, num_devices: int) -> None:
        """The job gives up what it has beyond so many."""
        own = self.share(job)
        if num_devices < own.sum():
            self._set(job, spread(own, num_devices))

    def complete(self, job: str, num_devices: int) -> bool:
        """See that the job has `num_devices`; False, and it has none, if there are not enough."""
        if self.share(job).sum() == num_devices:
            return True
        self._clear(job)
        if self._free.sum() < num_devices:
            return False
        leaving = self._leaving_owned(num_devices) if job in self._owned_only else ()
        if leaving is None:
            return False
        before = self._mark()
        sizes = {part.job: int(self.share(part.job).sum()) for part in leaving}
        self.evicted.update(sizes)
        for other in sizes:
            self._clear(other)
        if all(self._settle(one, num) for one, num in ({job: num_devices} | sizes).items()):
            return True
        self._go_back(before)
        return False

    def share(self, job: str) -> IntArray:
        """(N,) devices that the job has by now."""
        share = self.shares.get(job)
        return self._own_of(job) if share is None else share

    def _own_of(self, job: str) -> IntArray:
        """(N,) devices that the job really holds."""
        own = self._own.get(job)
        if own is None:
            own = self._own[job] = self._reality.num_at(job)
        return own

    def _set(self, job: str, share: IntArray) -> None:
        before, own = self.share(job), self._own_of(job)
        self._free = self._free + before - share
        self._leaving = self._leaving + np.minimum(own, before) - np.minimum(own, share)
        self.shares[job] = share

    def _clear(self, job: str) -> None:
        self._set(job, self._none)

    def _add(self, job: str, node: int, num: int) -> None:
        share = self.share(job).copy()
        share[node] += num
        self._set(job, share)

    def _allowed(self, job: str) -> BoolArray:
        """(N,) nodes whose devices it may have."""
        allowed = self._is_owned if job in self._owned_only else self._is_any
        if barred := self._barred.get(job):
            allowed = allowed & np.fromiter((name not in barred for name in self._topology.names), bool)
        return allowed

    def _mark(self) -> _Mark:
        return self._free, self._leaving, dict(self.shares), set(self.evicted)

    def _go_back(self, mark: _Mark) -> None:
        self._free, self._leaving, self.shares, self.evicted = mark

    # What is free

    def _settle(self, job: str, num_devices: int) -> bool:
        """Give it so many, of which there are enough, unless it is barred from where they are; else False."""
        allowed = self._allowed(job)
        if self._topology.widths[allowed].sum() < num_devices:
            return False
        sizes = _sizes(self._topology.widths[allowed], num_devices)
        homes = [allowed] if num_devices in sizes else [*self._racks_with(job, num_devices, allowed), allowed]
        for home in homes:
            amounts = self._fit(job, sizes, home)
            if amounts is not None:
                self._set(job, amounts)
                return True
        if self._make_room(job, sizes):
            return True
        if self._free[allowed].sum() < num_devices:
            return False
        enough = next(self._racks_with(job, num_devices, allowed), allowed)
        self._set(job, spread(np.where(enough, self._free, 0), num_devices))
        return True

    def _racks_with(self, job: str, num_devices: int, allowed: BoolArray) -> Iterator[BoolArray]:
        """(N,) nodes of each rack with so many free devices: those with most of the job's own first, then
        borrowed ones, then the most crowded."""
        racks = self._topology.racks
        free = np.bincount(racks, np.where(allowed, self._free, 0))
        own = np.bincount(racks, self._own_of(job))
        is_owned = np.bincount(racks, self._is_owned) > 0
        for rack in np.lexsort((free, is_owned, -own)).tolist():
            if free[rack] >= num_devices:
                yield allowed & (racks == rack)

    def _fit(self, job: str, sizes: Mapping[int, int], home: BoolArray) -> IntArray | None:
        """(N,) so many devices of one node each, all of them free and at home; None: there are none such."""
        amounts = self._none.copy()
        for size, num in sizes.items():
            nodes = self._ranked(job, size, home, self._free - amounts, amounts)
            if len(nodes) < num:
                return None
            amounts[nodes[:num]] += size
        return amounts

    def _ranked(self, job: str, size: int, home: BoolArray, free: IntArray, has: IntArray) -> IntArray:
        """Nodes at home with so many free, those with most of its own devices first, then borrowed ones,
        then those with fewest that others have yet to leave (two that wait for each other's would wait for
        ever), then the most crowded.

        Args:
            free: (N,) devices.
            has: (N,) devices that it is to have beside these.
        """
        nodes = np.flatnonzero(home & (free >= size))
        if len(nodes) < 2:
            return nodes
        own = np.clip(self._own_of(job) - has, 0, size)[nodes]
        waits = size - np.minimum((free - self._leaving)[nodes] + own, size)
        racks = self._topology.racks
        around = np.bincount(racks, free)[racks[nodes]]
        ranked: IntArray = nodes[np.lexsort((around, free[nodes], waits, self._is_owned[nodes], -own))]
        return ranked

    # Room made by moving others

    def _make_room(self, job: str, sizes: Mapping[int, int]) -> bool:
        """Move others until the job has its devices; False, and nothing has changed, if that fails."""
        before = self._mark()
        if all(self._force(job, size) for size, num in sizes.items() for _ in range(num)):
            return True
        self._go_back(before)
        return False

    def _force(self, job: str, size: int) -> bool:
        """Give the job so many of one node, whichever jobs are there, and the evicted ones another place.

        A job that is evicted has less than `size` there: this ends. On nodes of one power of two, powers of
        two succeed, too: what is smaller and free on a node is a multiple of `size` there, and in the cluster
        enough is always free for the jobs without a place. Jobs that may not go everywhere only go where no
        others could.
        """
        allowed = self._allowed(job)
        nodes = self._ranked(job, size, allowed, self._free, self.share(job)).tolist()
        place = (nodes[0], ()) if nodes else self._cheapest(job, size, allowed)
        if place is None:
            return False
        node, victims = place
        for part in victims:
            self.evicted.add(part.job)
            self._add(part.job, node, -part.num)
        self._add(job, node, size)
        return all(self._force(part.job, part.num) for part in sorted(victims, reverse=True))

    def _cheapest(self, job: str, size: int, allowed: BoolArray) -> tuple[int, Sequence[Part]] | None:
        """A node from which enough jobs may go, and these. Of several nodes: one from which none must go that
        may have owned devices only, then the fewest running ones, then one where the job itself is, then the
        one with the fewest devices to leave."""
        own, best, least = self._own_of(job), None, None
        is_near = allowed & (self._free > 0) & (self._topology.widths >= size)
        for node, parts in self._parts_on(is_near).items():
            smaller = [part for part in parts if part.num < size and part.job != job]
            victims = _fewest(smaller, size - int(self._free[node]))
            if victims is None:
                continue
            dearness = [part.dearness for part in victims]
            num_running, num = np.count_nonzero(dearness), sum(part.num for part in victims)
            cost = (max(dearness), num_running, -own[node], num)
            if least is None or cost < least:
                best, least = (node, victims), cost
        return best

    def _leaving_owned(self, num_devices: int) -> Sequence[Part] | None:
        """Who goes to borrowed nodes so that so many owned devices are free; None: that cannot be."""
        lacking = num_devices - int(self._free[self._is_owned].sum())
        if lacking <= 0:
            return ()
        nums: Counter[Part] = Counter()
        for part in (one for parts in self._parts_on(self._is_owned).values() for one in parts):
            nums[part._replace(num=0)] += part.num
        return _fewest([part._replace(num=num) for part, num in nums.items() if part.dearness < 2], lacking)

    def _parts_on(self, is_near: BoolArray) -> Mapping[int, Sequence[Part]]:
        """By node, of those that are near, what is there and not pinned."""
        found: dict[int, list[Part]] = {}
        for node in np.flatnonzero(is_near).tolist():
            others = self._reality.jobs_on[node].difference(self.shares, self._pinned)
            found[node] = [self._part(job, self._reality.nums[job][node]) for job in others]
        for job, share in self.shares.items():
            if job not in self._pinned:
                for node in np.flatnonzero(is_near & (share > 0)).tolist():
                    found[node].append(self._part(job, int(share[node])))
        return found

    def _part(self, job: str, num: int) -> Part:
        return Part(num, 2 if job in self._owned_only else int(job in self._reality.nums), job)


def _sizes(widths: IntArray, num_devices: int) -> Mapping[int, int]:
    """Number of devices -> of how many nodes it is to have so many: few nodes, the largest number first."""
    if num_devices <= widths.max():
        return {num_devices: 1}
    amounts = spread(widths, num_devices)
    return Counter(np.sort(amounts[amounts > 0])[::-1].tolist())


def _fewest(parts: Iterable[Part], num: int) -> Sequence[Part] | None:
    """As few as have `num` devices together, the last of them the smallest; no dearer ones than need be."""
    for dearness in range(3):
        left = sorted(part for part in parts if part.dearness <= dearness)
        if sum(part.num for part in left) >= num:
            break
    else:
        return None
    chosen = []
    while num > 0:
        chosen.append(next((part for part in left if part.num >= num), left[-1]))
        left.remove(chosen[-1])
        num -= chosen[-1].num
    return chosen
