"""What starts and resizes cost: measured, by kind of script and number of devices.

A row has what was measured of one kind of job, beyond what the profiles of its jobs say; a row for each
family of kinds has the same of all of them. Sizes are cells: cell b holds what was measured on 2**b devices.
What was measured on a number between two powers of two counts for both, so a straight line from cell to cell
is nowhere below a measurement. The first figures of a machine are those of its trial runs; what jobs measure
replaces them.
"""

from __future__ import annotations

from typing import NamedTuple, get_args

import msgspec

from swell.arrays import FloatArray
from swell.core.hold_time import PRIOR_S, HoldTime
from swell.core.record import JobRecord
from swell.model.job import Elasticity, JobSpec, Profile
from swell.model.resize import CostKind

CHANGES: tuple[CostKind, ...] = get_args(CostKind)
#: From 1 to 2**16 devices.
NUM_CELLS = 17
#: Jobs whose latest changes to a size are remembered.
NUM_JOBS = 16
#: Changes of one job to one size that count for what is expected.
NUM_OWN = 5
#: Launches whose waits for devices are remembered.
NUM_WAITS = 8
#: What was measured longer ago is forgotten when something is measured.
MEMORY_S = 7 * 86_400.0
#: Kinds that are remembered: those that were measured last.
NUM_KINDS = 100

#: The family of jobs that have trial runs, and that of most which have none.
TRIED_FAMILY, UNTRIED_FAMILY = f"{Elasticity.LIVE} timed", f"{Elasticity.RESTART} untimed"
#: Names what a trial run measured of a family; no job has this id.
TRIAL = ""

#: Until jobs were measured, a change is taken to cost up to so many times what trial runs measured: they
#: start the script and each group once, and the next start may meet a busier machine.
TRIAL_SPREAD = 2.0

#: What a resize takes beside sending the state: to meet at a step's end, and to step again in a group that
#: has formed meanwhile.
RESIZE_S = 0.1
#: In a pause a worker gets the job's state, or its part of it; until a trial run has measured it, this much.
STATE_S_PER_BYTE = 1e-9
#: Workers of one node start side by side: each delays the first one by this share, up to so many.
CROWDING_SHARE, CROWDED_WORKERS = 0.25, 8


class JobCost(msgspec.Struct, frozen=True, array_like=True):
    """What one job's changes to one size took, beyond its profile."""

    job_id: str
    at_s: float  #: when the dearest was measured
    most_s: float
    latest_s: tuple[float, ...]

    def then(self, cost_s: float, at_s: float) -> JobCost:
        """The next change took so long."""
        latest_s = (*self.latest_s, cost_s)[-NUM_OWN:]
        if cost_s >= self.most_s or self.at_s < at_s - MEMORY_S:
            return JobCost(self.job_id, at_s, cost_s, latest_s)
        return JobCost(self.job_id, self.at_s, self.most_s, latest_s)


class SizeCosts(NamedTuple):
    """What jobs' changes to one size took, beyond their profiles."""

    median_s: float  #: of the latest of all jobs
    most_s: float  #: no change that is remembered took longer
    num_jobs: int  #: trial runs apart


class CostRow(msgspec.Struct, dict=True):
    """What the changes of alike jobs cost, beyond what their profiles say."""

    #: By change and cell, one for each job, the latest last.
    cells: dict[CostKind, dict[int, list[JobCost]]] = {}

    def __post_init__(self) -> None:
        self.sizes: dict[CostKind, dict[int, SizeCosts]] = {
            change: {cell: _size_costs(costs) for cell, costs in by_cell.items()}
            for change, by_cell in self.cells.items()
        }

    def learn(self, change: CostKind, num_devices: int, job_id: str, cost_s: float, at_s: float) -> None:
        """A change of this job to so many devices took so long."""
        since_s = at_s - MEMORY_S
        for cell, known in list(self.cells.get(change, {}).items()):
            if known[-1].job_id != TRIAL and known[-1].at_s < since_s:
                del self.cells[change][cell], self.sizes[change][cell]
        for cell in cells_of(num_devices):
            known = self.cells.get(change, {}).get(cell, [])
            own = next((one for one in known if one.job_id == job_id), JobCost(job_id, at_s, cost_s, ()))
            others = [one for one in known if one.job_id not in (job_id, TRIAL) and one.at_s >= since_s]
            self._put(change, cell, [*others[1 - NUM_JOBS :], own.then(cost_s, at_s)])

    def try_out(self, change: CostKind, measured_s: dict[int, float]) -> None:
        """A trial run took so long by number of devices; of sizes that jobs have measured, they tell."""
        for num_devices, cost_s in measured_s.items():
            cell = cell_of(num_devices)
            if all(cost.job_id == TRIAL for cost in self.cells.get(change, {}).get(cell, ())):
                self._put(change, cell, [JobCost(TRIAL, 0.0, TRIAL_SPREAD * cost_s, (cost_s,))])

    def _put(self, change: CostKind, cell: int, costs: list[JobCost]) -> None:
        self.cells.setdefault(change, {})[cell] = costs
        self.sizes.setdefault(change, {})[cell] = _size_costs(costs)


def _size_costs(costs: list[JobCost]) -> SizeCosts:
    """The costs of a size, which are worked out after each change of a gang."""
    latest_s = sorted([cost_s for cost in costs for cost_s in cost.latest_s])
    half, is_odd = divmod(len(latest_s), 2)
    median_s = latest_s[half] if is_odd else (latest_s[half - 1] + latest_s[half]) / 2
    num_jobs = 0 if costs[0].job_id == TRIAL else len(costs)
    return SizeCosts(median_s, max([cost.most_s for cost in costs]), num_jobs)


class CostTable(msgspec.Struct, dict=True):
    """What is known of the costs of changes on the devices of one kind, and how long a size is held."""

    kinds: dict[str, CostRow] = {}  #: the kind that was measured last is the last
    families: dict[str, CostRow] = {}
    state_s_per_byte: float = STATE_S_PER_BYTE  #: to send a job's state to a newcomer
    #: How long each of the latest launches waited until others had left its devices.
    waits_s: tuple[float, ...] = ()
    tenure: HoldTime = msgspec.field(default_factory=HoldTime)  #: of jobs that have ended

    def __post_init__(self) -> None:
        #: Changes that cost something else in a row than when someone last took note of it, by row.
        self.changed: dict[str, set[CostKind]] = {}

    @property
    def most_wait_s(self) -> float:
        """What a launch waits at most until others have left its devices."""
        return max(self.waits_s, default=0.0)

    def learn_wait(self, wait_s: float) -> None:
        """The next launch has waited so long."""
        self.waits_s = (*self.waits_s, wait_s)[-NUM_WAITS:]

    def learn_trial(self, profile: Profile) -> None:
        """A trial run has measured groups of workers, or found the figures of an earlier one."""
        family = self.families.setdefault(TRIED_FAMILY, CostRow())
        family.try_out("start", profile.group_launch_s)
        self.state_s_per_byte = profile.state_s_per_byte or self.state_s_per_byte
        self._note(TRIED_FAMILY, CHANGES)

    def learn(
        self, change: CostKind, record: JobRecord, num_workers: int, cost_s: float, at_s: float
    ) -> None:
        """A change of the job to so many workers took so long."""
        spec, name = record.spec, kind_of(record.spec, record.profile)
        beyond_s = cost_s - self.profiled_s(change, record.profile, spec, num_workers)
        self.kinds[name] = self.kinds.pop(name) if name in self.kinds else CostRow()
        if len(self.kinds) > NUM_KINDS:
            forgotten = next(iter(self.kinds))
            del self.kinds[forgotten]
            self._note(forgotten, CHANGES)
        family = family_of(name)
        rows = {name: self.kinds[name], family: self.families.setdefault(family, CostRow())}
        for row_name, row in rows.items():
            row.learn(change, num_workers * spec.devices_per_worker, record.id, beyond_s, at_s)
            self._note(row_name, (change,))

    def _note(self, name: str, changes: tuple[CostKind, ...]) -> None:
        self.changed.setdefault(name, set()).update(changes)

    def profiled_s(self, change: CostKind, profile: Profile | None, spec: JobSpec, num_workers: int) -> float:
        """What a job's profile says of a change, which is known before any was measured."""
        if profile is None or change == "shrink":
            return 0.0
        if change == "growth":
            is_restart = spec.elasticity is Elasticity.RESTART
            return 0.0 if is_restart else profile.most_copied_bytes * self.state_s_per_byte
        return profile.start_s * (1.0 + CROWDING_SHARE * (min(num_workers, CROWDED_WORKERS) - 1))

    def hold_s(self, trained_s: FloatArray, num_taken: FloatArray) -> FloatArray:
        """(J,) time that workers given to each job now are expected to stay with it.

        Its own tenure, to which that of all jobs adds one observation.

        Args:
            trained_s, num_taken: (J,) of each job that has not ended.
        """
        trained_by_all_s = self.tenure.total_s + float(trained_s.sum())
        of_all_s = (PRIOR_S + trained_by_all_s) / (1.0 + self.tenure.num_taken + float(num_taken.sum()))
        expected_s: FloatArray = (of_all_s + trained_s) / (1.0 + num_taken)
        return expected_s


def kind_of(spec: JobSpec, profile: Profile | None) -> str:
    """Jobs of one kind change alike: the same script with the same batch on workers of the same size.

    Its first line is the family: of all jobs that change in the same way.
    """
    timed = "timed" if profile is not None and profile.start_s > 0.0 else "untimed"
    batches = f"{spec.global_batch} {spec.min_batch} {spec.max_batch} {spec.batch_per_worker}"
    return f"{spec.elasticity} {timed}\n{spec.entry}\n{batches} {spec.devices_per_worker}"


def family_of(kind: str) -> str:
    return kind.partition("\n")[0]


def cell_of(num_devices: int) -> int:
    """The cell of a power of two, else the one above."""
    return min((num_devices - 1).bit_length(), NUM_CELLS - 1)


def cells_of(num_devices: int) -> tuple[int, ...]:
    """The cell of a power of two, else the two around it."""
    above = cell_of(num_devices)
    return (above,) if num_devices >= 1 << above else (above - 1, above)
