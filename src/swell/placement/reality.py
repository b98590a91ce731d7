"""What jobs really hold, kept from one placement to the next: only what has changed is looked at again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, repeat

import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.model.cluster import Cluster
from swell.placement.board import Board
from swell.placement.tree import tree_of

Held = Mapping[str, tuple[str, ...]]

#: More jobs are given what they hold together: that takes longer to begin with.
NUM_GIVEN_APART = 8
#: Position of a device that is not in the cluster.
NOT_THERE = -1


class Reality:
    """One cluster, and a board with a number for each job that holds something."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.tree = cluster, tree_of(cluster)
        self.board = Board(self.tree)
        self.names: dict[int, str] = {}
        self.damaged: set[str] = set()  #: jobs some of whose devices are not in the cluster
        self._numbers: dict[str, int] = {}
        self._held: dict[str, tuple[str, ...]] = {}
        self._num_numbers = 0
        self._free_numbers: list[int] = []

    def number(self, job: str) -> int:
        """Of a job; a new one gets one."""
        number = self._numbers.get(job)
        if number is None:
            if not self._free_numbers:
                self._free_numbers.append(self._num_numbers)
                self._num_numbers += 1
            number = self._numbers[job] = self._free_numbers.pop()
            self.names[number] = job
        return number

    def flags(self, numbers: Iterable[int]) -> BoolArray:
        """By number of job: whether it is one of these; the last entry is of nobody."""
        listed = list(numbers)  # first: asking for the number of a new job makes one more
        flags = np.zeros(self._num_numbers + 1, dtype=bool)
        flags[listed] = True
        return flags

    @property
    def num_taken_at(self) -> IntArray:
        """(N + 1,) devices that are held below each point of the tree."""
        taken: IntArray = self.tree.stops - self.tree.starts - self.board.num_free_at
        return taken

    def learn(self, held: Held) -> None:
        """This is what jobs hold now. Devices that are not in the cluster are ignored."""
        gone = []
        if not held.keys() >= self._numbers.keys():
            gone = [job for job in self._numbers if job not in held]
        changed = [job for job, devices in held.items() if self._held.get(job) is not devices]
        for job in filter(self._held.__contains__, [*gone, *changed]):
            self.board.take_back(self.number(job))
            self.damaged.discard(job)
        for job in gone:
            number = self._numbers.pop(job)
            del self.names[number]
            self._held.pop(job, None)
            self._free_numbers.append(number)
        for job in changed:
            self._held[job] = held[job]
        if len(changed) > NUM_GIVEN_APART:
            self.board.give_all(self._all_positions(changed))
            return
        for job in changed:
            self.board.give(self.number(job), self._positions(job))

    def _all_positions(self, jobs: Sequence[str]) -> dict[int, IntArray]:
        """By number of each of many jobs, in one look-up; see `_positions`."""
        lengths = [len(self._held[job]) for job in jobs]
        devices = chain.from_iterable(self._held[job] for job in jobs)
        position = map(self.tree.positions.get, devices, repeat(NOT_THERE))
        found = np.fromiter(position, np.int64, sum(lengths))
        ends = list(accumulate(lengths))
        pieces = zip(jobs, lengths, ends, strict=True)
        positions = {self.number(job): found[end - length : end] for job, length, end in pieces}
        gone = np.flatnonzero(found == NOT_THERE)
        for at in np.unique(np.searchsorted(ends, gone, side="right")).tolist():
            job, number = jobs[at], self.number(jobs[at])
            positions[number] = positions[number][positions[number] != NOT_THERE]
            self.damaged.add(job)
        return positions

    def _positions(self, job: str) -> IntArray:
        """Of what it holds; it is damaged if some of that is not in the cluster."""
        position, devices = self.tree.positions.get, self._held[job]
        there = [found for device in devices if (found := position(device)) is not None]
        if len(there) < len(devices):
            self.damaged.add(job)
        return np.array(there, dtype=np.int64)
