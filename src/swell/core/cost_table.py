"""What starts and resizes cost at most, by kind of job and number of devices, as measured lately.

Sizes are cells: cell b holds what was measured on 2**b devices. What was measured on a number between two
powers of two counts for both, so a straight line from cell to cell is nowhere below a measurement.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec

from swell.core.record import JobRecord
from swell.model.job import Elasticity, JobSpec, Profile

#: From 1 to 2**16 devices.
NUM_CELLS = 17
#: A size costs as much as the dearest of the latest changes to it of so many jobs ...
NUM_JOBS = 8
#: ... or as the second dearest of so many, for a cost that comes back is no outlier.
NUM_REMEMBERED = 16
#: Changes of one job to one size that count: most go back to devices that it had before, which may be cheap.
NUM_OWN = 16
#: Until so many jobs of a kind were measured at a size, it is taken to be no cheaper than its family there.
NUM_OF_KIND = NUM_JOBS
#: Until so many of a family were, it is taken to be no cheaper than its neighbours say.
NUM_OF_FAMILY = 3
#: What was measured longer ago is forgotten when something is measured.
MEMORY_S = 7 * 86_400.0
#: Kinds that are remembered: those that were measured last.
NUM_KINDS = 100

#: The family of jobs that have trial runs.
TRIED_FAMILY = f"{Elasticity.LIVE} timed"

#: In a pause a worker gets the job's state, or its part of it; loopback and memory do about this much.
STATE_BYTES_PER_S = 1e9
#: Workers of one node start side by side: each delays the first one by this share, up to so many.
CROWDING_SHARE, CROWDED_WORKERS = 0.25, 8


class JobCost(msgspec.Struct, frozen=True, array_like=True):
    """What one job's latest changes to one size took at most."""

    job_id: str
    at_s: float  #: of the latest
    number: int  #: of the latest
    #: Number and cost of the latest, and of those before that were dearer than all later ones.
    dearest: tuple[tuple[int, float], ...]

    def then(self, cost_s: float, at_s: float) -> JobCost:
        """The next change took so long."""
        number = self.number + 1
        dearer = [one for one in self.dearest if one[1] > cost_s and one[0] > number - NUM_OWN]
        return JobCost(self.job_id, at_s, number, (*dearer, (number, cost_s)))


class UpperCosts(NamedTuple):
    """Upper costs of starts or resizes at the sizes of one cell, in seconds."""

    cost_s: float  #: dearer than every measurement that is remembered, outliers apart
    usual_s: float  #: the same without the dearest, once there are many
    median_s: float  #: of the jobs' dearest
    is_kind_known: bool  #: enough jobs were measured to know a kind
    is_family_known: bool  #: the same of a family


class SizeCosts(msgspec.Struct, dict=True):
    """The costs of starts, or of resizes, by cell."""

    cells: dict[int, list[JobCost]] = {}  #: one for each job, the latest last

    def __post_init__(self) -> None:
        self.uppers = {cell: _upper(costs) for cell, costs in self.cells.items()}  #: worked out from `cells`

    def learn(self, num_devices: int, job_id: str, cost_s: float, at_s: float) -> bool:
        """A change of this job to so many devices took so long. Returns whether `uppers` changed."""
        has_changed = self._forget(at_s - MEMORY_S)
        for cell in cells_of(num_devices):
            has_changed |= self._learn(cell, job_id, cost_s, at_s)
        return has_changed

    def _learn(self, cell: int, job_id: str, cost_s: float, at_s: float) -> bool:
        costs = self.cells.setdefault(cell, [])
        own, place = JobCost(job_id, at_s, 0, ()), len(costs)
        for at, cost in enumerate(costs):
            if cost.job_id == job_id:
                own, place = cost, at
                del costs[at]
                break
        newest = own.then(cost_s, at_s)
        costs.append(newest)
        if len(costs) > NUM_REMEMBERED:
            del costs[0]
        is_last = place == len(costs) - 1 or len(costs) <= NUM_JOBS  # so its place is as good as before
        if own.dearest and is_last and newest.dearest[0][1] == own.dearest[0][1]:
            return False
        upper = _upper(costs)
        has_changed = upper != self.uppers.get(cell)
        self.uppers[cell] = upper
        return has_changed

    def _forget(self, since_s: float) -> bool:
        """What was measured before then. Returns whether there was any."""
        old = [cell for cell, costs in self.cells.items() if costs[0].at_s < since_s]
        for cell in old:
            costs = self.cells[cell] = [cost for cost in self.cells[cell] if cost.at_s >= since_s]
            if costs:
                self.uppers[cell] = _upper(costs)
            else:
                del self.cells[cell], self.uppers[cell]
        return bool(old)


class ChangeKindCosts(msgspec.Struct, dict=True):
    """What the changes of alike jobs cost."""

    starts: SizeCosts = msgspec.field(default_factory=SizeCosts)  #: from a launch to the first step
    resizes: SizeCosts = msgspec.field(default_factory=SizeCosts)  #: time that a resize takes from training

    def __post_init__(self) -> None:
        self.version = 0  #: of the table, when upper costs of this last changed


class CostTable(msgspec.Struct, dict=True):
    """Measured costs of each kind of job; and of all of a family, beyond what their profiles say."""

    kinds: dict[str, ChangeKindCosts] = {}  #: the kind that was measured last is the last
    families: dict[str, ChangeKindCosts] = {}
    #: How long each of the latest launches waited until others had left its devices.
    waits_s: tuple[float, ...] = ()
    #: Workers without a script -> what their launch took when trial runs last measured it.
    group_launch_s: dict[int, float] = {}

    def __post_init__(self) -> None:
        self.version = 0  #: rises whenever an upper cost changes

    @property
    def most_wait_s(self) -> float:
        """What a launch waits at most until others have left its devices."""
        return max(self.waits_s, default=0.0)

    def learn_wait(self, wait_s: float) -> None:
        """The next launch has waited so long."""
        self.waits_s = (*self.waits_s, wait_s)[-NUM_JOBS:]

    def learn_groups(self, group_launch_s: dict[int, float]) -> None:
        """A trial run has measured so much; empty if it measured none."""
        if not group_launch_s or group_launch_s == self.group_launch_s:
            return
        self.group_launch_s = group_launch_s
        self._note(self._family(TRIED_FAMILY), has_changed=True)

    def learn_start(self, record: JobRecord, start_s: float, at_s: float) -> None:
        """A launch of the job at the size it has took so long until the first step."""
        num_devices = len(record.gang.members.devices)
        beyond_s = start_s - profiled_start_s(alone_s(record.profile), record.num_workers)
        kind, family = self._of(record)
        self._note(kind, kind.starts.learn(num_devices, record.id, start_s, at_s))
        self._note(family, family.starts.learn(num_devices, record.id, beyond_s, at_s))

    def learn_resize(self, record: JobRecord, num_workers: int, pause_s: float, at_s: float) -> None:
        """A resize of the job to so many workers took so long from its training."""
        num_devices = num_workers * record.spec.devices_per_worker
        beyond_s = pause_s - copy_s(record.spec, record.profile)
        kind, family = self._of(record)
        self._note(kind, kind.resizes.learn(num_devices, record.id, pause_s, at_s))
        self._note(family, family.resizes.learn(num_devices, record.id, beyond_s, at_s))

    def _of(self, record: JobRecord) -> tuple[ChangeKindCosts, ChangeKindCosts]:
        name = kind_of(record.spec, record.profile)
        kind = self.kinds[name] = self.kinds.pop(name) if name in self.kinds else ChangeKindCosts()
        if len(self.kinds) > NUM_KINDS:
            del self.kinds[next(iter(self.kinds))]
            self.version += 1
        return kind, self._family(family_of(name))

    def _family(self, name: str) -> ChangeKindCosts:
        if name not in self.families:
            self.families[name] = ChangeKindCosts()
        return self.families[name]

    def _note(self, costs: ChangeKindCosts, has_changed: bool) -> None:
        if has_changed:
            self.version += 1
            costs.version = self.version


def kind_of(spec: JobSpec, profile: Profile | None) -> str:
    """Jobs of one kind change alike: the same script with the same batch on workers of the same size.

    Its first line is the family: of all jobs that change in the same way.
    """
    timed = "timed" if alone_s(profile) > 0.0 else "untimed"
    batches = f"{spec.global_batch} {spec.min_batch} {spec.max_batch} {spec.batch_per_worker}"
    return f"{spec.elasticity} {timed}\n{spec.entry}\n{batches} {spec.devices_per_worker}"


def family_of(kind: str) -> str:
    return kind.partition("\n")[0]


@lru_cache(maxsize=1024)
def cells_of(num_devices: int) -> tuple[int, ...]:
    """The cell of a power of two, else the two around it."""
    floor = min(num_devices.bit_length() - 1, NUM_CELLS - 1)
    is_between = num_devices > 1 << floor and floor < NUM_CELLS - 1
    return (floor, floor + 1) if is_between else (floor,)


def alone_s(profile: Profile | None) -> float:
    """Seconds from the fork of a single worker until it is ready; 0 if that is not known."""
    return profile.start_s if profile else 0.0


def profiled_start_s(alone_s: float, num_workers: int) -> float:
    """What a profile says of a launch, before any was measured."""
    return alone_s * (1.0 + CROWDING_SHARE * (min(num_workers, CROWDED_WORKERS) - 1))


def copy_s(spec: JobSpec, profile: Profile | None) -> float:
    """What a profile says of a resize."""
    if spec.elasticity is Elasticity.RESTART or profile is None:
        return 0.0
    return profile.most_copied_bytes / STATE_BYTES_PER_S


def _upper(costs: list[JobCost]) -> UpperCosts:
    most_s = [
        cost.dearest[0][1] for cost in costs
    ]  # no call for each: this is done for every change of a gang
    num, latest_s = len(costs), max(most_s[-NUM_JOBS:])
    most_s.sort()
    second_s = most_s[-2] if num >= NUM_JOBS else latest_s
    is_known = num >= NUM_OF_KIND, num >= NUM_OF_FAMILY
    return UpperCosts(max(latest_s, second_s), second_s, most_s[(num - 1) // 2], *is_known)
