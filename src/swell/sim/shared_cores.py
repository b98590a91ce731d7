"""Which gangs share the cores of which nodes, and how fast that leaves each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from swell.model.node import Node
from swell.model.target import ShareKind
from swell.sim.gang import SimGang


class SharedCores:
    """Kept up to date with gangs that change: all changes of an instant are settled together.

    A gang over several nodes goes as its slowest workers do, and takes no part of a neighbour's cores for
    that: what its other workers leave unused while they wait is not given away.
    """

    def __init__(self, cpu_shares: ShareKind) -> None:
        self._divide = RULES[cpu_shares]
        self._cores: dict[str, float] = {}  #: of a node
        self._node_of: dict[str, str] = {}  #: of a device
        self._gangs: dict[str, dict[str, SimGang]] = {}  #: node -> job id -> gang that is busy there
        self._nodes: dict[str, tuple[str, ...]] = {}  #: job id -> nodes where its gang is busy
        self._noted: dict[str, SimGang] = {}  #: since the last settlement

    def add(self, node: Node, cores: float) -> None:
        """Gangs on it share so many from now on. Each device of a node that is not added has its own."""
        self._cores[node.name] = cores
        self._gangs.setdefault(node.name, {})
        self._node_of |= dict.fromkeys(node.devices, node.name)

    def note(self, training: SimGang) -> None:
        """The gang is new, is no more, or trains otherwise than before."""
        self._noted[training.job.id] = training

    def settle(self, now_s: float) -> Iterator[tuple[SimGang, float]]:
        """Gangs that go at another pace from now on: factors on their speed."""
        if not self._noted:
            return
        touched = dict.fromkeys(name for one in self._noted.values() for name in self._move(one, now_s))
        busy = {one.job.id: one for one in self._noted.values() if _is_busy(one, now_s)}
        self._noted.clear()
        busy |= {job_id: one for name in touched for job_id, one in self._gangs[name].items()}
        names = dict.fromkeys(name for job_id in busy for name in self._nodes.get(job_id, ()))
        divided = {name: self._divided(name) for name in names}
        for job_id, training in busy.items():
            pace = min((divided[name][job_id] for name in self._nodes.get(job_id, ())), default=1.0)
            if pace != training.pace:
                yield training, pace

    def _move(self, training: SimGang, now_s: float) -> Sequence[str]:
        """Note where the gang is busy; returns the nodes whose gangs are others now, or have other shares."""
        job_id = training.job.id
        left = self._nodes.pop(job_id, ())
        for name in left:
            del self._gangs[name][job_id]
        if not _is_busy(training, now_s):
            return left
        names = {self._node_of[device]: None for device in training.devices if device in self._node_of}
        self._nodes[job_id] = tuple(names)
        for name in names:
            self._gangs[name][job_id] = training
        return (*left, *names)

    def _divided(self, name: str) -> Mapping[str, float]:
        """Return the pace of each gang on this node, by job id."""
        gangs = self._gangs[name]
        demands = [self._demand(one, name) for one in gangs.values()]
        shares = [one.configuration.share or 1.0 for one in gangs.values()]
        given = self._divide(self._cores[name], demands, shares)
        return {
            job_id: 1.0 if got == demand else got / demand
            for job_id, got, demand in zip(gangs, given, demands, strict=True)
        }

    def _demand(self, training: SimGang, name: str) -> float:
        """Cores of the node that the gang would use alone."""
        num_devices = sum(self._node_of.get(device) == name for device in training.devices)
        return training.job.cores_per_worker * num_devices / training.job.spec.devices_per_worker


def _is_busy(training: SimGang, now_s: float) -> bool:
    return training.rate_per_s > 0.0 and training.resumes_s <= now_s


def by_weight(cores: float, demands: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Weighted max-min fairness (water-filling): cores that one does not use go to the others, by weight.

    As the kernel divides CPU time under `cpu.weight` and `cpu.shares`.

    Args:
        demands: cores that each would use alone, >= 0.
        weights: relative to one another, > 0.

    Returns:
        Cores of each: all of its demand where there are enough.

    Complexity: O(n log n).
    """
    if sum(demands) <= cores:
        return list(demands)
    given = list(demands)
    order = sorted(range(len(demands)), key=lambda at: demands[at] / weights[at])
    left, left_weights = cores, [*accumulate(weights[at] for at in reversed(order))][::-1]
    for place, at in enumerate(order):
        level = left / left_weights[place]
        if demands[at] > level * weights[at]:  # and so do all that follow
            for other in order[place:]:
                given[other] = level * weights[other]
            break
        left -= demands[at]
    return given


def by_quota(cores: float, demands: Sequence[float], shares: Sequence[float]) -> list[float]:
    """Each gets its share of all cores at most, used or not; where these are too few, equal parts.

    As under `cpu.max` and `cpu.cfs_quota_us`.

    Args:
        shares: in (0, 1].
    """
    limits = [min(demand, share * cores) for demand, share in zip(demands, shares, strict=True)]
    return by_weight(cores, limits, [1.0] * len(limits))


#: What can be simulated of what a share may mean.
RULES: dict[ShareKind, Callable[[float, Sequence[float], Sequence[float]], list[float]]] = {
    ShareKind.WEIGHT: by_weight,
    ShareKind.QUOTA: by_quota,
}


def parse_share_mode(text: str) -> ShareKind:
    """Raises ValueError for one that is not simulated."""
    if text not in [*RULES]:
        raise ValueError(f"{text!r} is not known; choose one of {', '.join(RULES)}")
    return ShareKind(text)
