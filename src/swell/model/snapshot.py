"""What a policy may see."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.model.job import JobClass
from swell.model.options import NO_OPTION, Options
from swell.model.quantities import span

#: An account that is behind others by so much device time for each of its devices is served before them.
TURN_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class AccountUsage:
    """The accounts of the J jobs of a snapshot. An account is a tenant, or the user of a job without one.

    Jobs without a promise are served by what their account has used over its weight, the lowest first.
    """

    account: IntArray  #: (J,) of each job
    is_aged: BoolArray  #: (J,) jobs that have waited so long that they come before others of their account
    overdue: int | None  #: row of the one that has waited longest, much longer than that
    names: tuple[str, ...]  #: (A,)
    used_s: FloatArray  #: (A,) device-seconds, halved every half life
    weight: FloatArray  #: (A,) > 0
    claim: IntArray  #: (A,) devices that its quota allows it, `quota.NO_QUOTA` for any number
    half_life_s: float
    are_several: bool = True  #: accounts with jobs on the platform

    @property
    def level(self) -> FloatArray:
        """(A,) what each account has used, over its weight."""
        level: FloatArray = self.used_s / self.weight
        return level

    def of_rows(self, rows: IntArray) -> AccountUsage:
        """Return the same of these (n,) jobs alone, in this order."""
        place = {row: at for at, row in enumerate(rows.tolist())}
        overdue = None if self.overdue is None else place.get(self.overdue)
        columns = self.account[rows], self.is_aged[rows]
        return replace(self, account=columns[0], is_aged=columns[1], overdue=overdue)

    def told(self, account: int) -> str:
        """Text: ana, which has used 2 of its 6 device hours of the last 7 d."""
        share_s = self.used_s.sum() * self.weight[account] / self.weight.sum()
        used_h, share_h = self.used_s[account] / 3600.0, share_s / 3600.0
        name, lately = self.names[account] or "jobs of no account", span(self.half_life_s)
        return f"{name}, which has used {used_h:.3g} of its {share_h:.3g} device hours of about {lately}"


#: What a policy keeps from one decision to the next: names to values. The very same values come back, so
#: nobody changes them. Each is plain, as JSON can hold it, or `Encodable`.
Memory = Mapping[str, Any]


@runtime_checkable
class Encodable(Protocol):
    """A value of a policy's memory in a form of its own, such as columns in arrays. It is never changed."""

    def plain(self) -> Any:
        """The same as plain values: what the policy finds in its place after a restart.

        The policy answers the same to either.
        """


def plain_memory(memory: Memory) -> dict[str, Any]:
    """The memory as plain values, for a fold of the journal."""
    return {name: value.plain() if isinstance(value, Encodable) else value for name, value in memory.items()}


#: Job classes in columns are small integers, in the order in which they are served.
STRICT, SOFT, BEST_EFFORT = 0, 1, 2
CLASS_CODES = {JobClass.STRICT: STRICT, JobClass.SOFT: SOFT, JobClass.BEST_EFFORT: BEST_EFFORT}


class RowIndex(NamedTuple):
    """Where jobs are, by id and by time. Never changed."""

    row_of: Mapping[str, int]
    by_arrival: IntArray  #: (J,) rows, the highest priority first, then by submission, by id


class DeviceCalendar(NamedTuple):
    """When devices are known to go, or to come back: nodes end, fixed jobs and bookings have times."""

    next_end_s: float = math.inf  #: when some are to be left next, in head time
    of_owned: tuple[tuple[float, int], ...] = ()  #: (time, change of their number), the earliest first


NO_CHANGES = DeviceCalendar()


#: Columns of `Learning` by node, not by job.
OF_NODES = frozenset({"node_names", "num_whole"})


@dataclass(frozen=True, kw_only=True)
class Learning:
    """What each of the J jobs of a snapshot has learnt, by row. Arrays are read-only."""

    node: IntArray  #: (J,) equal numbers, one node; -1: it holds no devices, or those of several nodes
    node_names: tuple[str, ...]  #: by these numbers, which are others once a node has come or gone
    #: (J,) latest value of the job's evaluation function, its sign such that learning lowers it; NaN: none
    value: FloatArray
    rises: BoolArray  #: (J,) as the job says, learning raises the value that it reports
    value_s: FloatArray  #: (J,) when that was reported; NaN: never
    cpu_s: FloatArray  #: (J,) CPU time that the job has used so far; NaN: not measured
    share: FloatArray  #: (J,) that its gang has, or is about to have; NaN: none
    cores: FloatArray  #: (J,) of its node; NaN: not known, or no node
    #: (N,) devices of each node that can be in use while each worker has a core of its own
    num_whole: IntArray

    def of_rows(self, rows: IntArray) -> Learning:
        """Return the columns of these (n,) jobs alone, in this order."""
        columns = (one.name for one in fields(self) if one.name not in OF_NODES)
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything a policy may know at `now_s` of J jobs that have not ended.

    Arrays are read-only. Rates are *belief*: what the head thinks, never what is true. Rows are in
    no particular order; a policy breaks ties by `arrival_order`.
    """

    now_s: float
    num_devices: int  #: that are there
    options: Options  #: the ways in which each job may run, of the policy's own domain, that fit
    one_worker_per_s: FloatArray  #: (J,) steps/s on one worker at the batch best for it; 0: not possible
    job_ids: tuple[str, ...]  #: (J,)
    job_class: IntArray  #: (J,) STRICT, SOFT or BEST_EFFORT
    submitted_s: FloatArray  #: (J,)
    priority: IntArray  #: (J,) which jobs go first that are alike otherwise: those with the highest
    weight: FloatArray  #: (J,) > 0: factor of what a job gains, where gains of jobs are compared or added up
    deadline_s: FloatArray  #: (J,) inf where there is none
    remaining_steps: FloatArray  #: (J,) believed, at now_s, > 0
    done_steps: FloatArray  #: (J,) believed, at now_s
    devices_per_worker: IntArray  #: (J,)
    samples_per_step: IntArray  #: (J,) of each job's own batch
    requested_workers: IntArray  #: (J,) what a policy of fixed sizes gives a job
    held_workers: IntArray  #: (J,) 0 for a queued job; the size under way for one that is changing
    held_borrowed: IntArray  #: (J,) devices of borrowed nodes that each job has, or is about to have
    is_pinned: BoolArray  #: (J,) jobs whose size cannot be another one yet, for a change is under way
    must_shrink: BoolArray  #: (J,) jobs with more workers than they may have, now that their script is known
    idle_s: FloatArray  #: (J,) for which a gang is expected, at most, to do no work yet: it starts or pauses
    tenant: IntArray  #: (J,) on whose behalf it runs: equal numbers, one tenant; they mean nothing else
    num_tenants: int  #: that have jobs here, or had one within the last day
    most_workers: IntArray  #: (J,) that it has ever trained with
    num_changes: IntArray  #: (J,) of the gang since it first trained, restarts and losses included
    changed_s: FloatArray  #: (J,) when the gang last changed; -inf if it never has
    attained_device_s: FloatArray  #: (J,) device-seconds used so far
    checkpoint_interval_s: FloatArray  #: (J,) training of so long may be lost with the last worker of a gang
    growth_cost_s: FloatArray  #: (J,) expected pause of the next change to more workers
    shrink_cost_s: FloatArray  #: (J,) the same, of a change to fewer workers
    resize_wait_s: FloatArray  #: (J,) for which the old size is expected to train on before a growth
    expected_hold_s: FloatArray  #: (J,) for which workers given now are expected to stay
    start_cost_s: FloatArray  #: (J,) expected time from a launch to the first step
    #: (O,) upper cost of a launch at each option: until others have left the devices, and to its first step
    option_start_s: FloatArray
    #: (O,) upper cost of a change of a running gang to each option's size: what it takes from training
    option_resize_s: FloatArray
    is_promised: BoolArray  #: (J,) admitted strict jobs: their deadlines are promises
    is_undecided: BoolArray  #: (J,) strict jobs that wait for their admission
    #: (O,) by how much longer work may take at each option than its rate says: 0.05 is 5 %
    option_margin_share: FloatArray
    min_hold_s: float  #: a gang that changed keeps its size at least so long, promises apart
    #: by tenant's number, up to the highest: devices that its jobs may hold together, `quota.NO_QUOTA` for
    #: any number; None: no tenant that has jobs here has a quota
    quota_devices: IntArray | None = None
    fair: AccountUsage | None = None  #: what accounts have used; None: it makes no difference
    num_borrowed: int = 0  #: of the devices, that may be reclaimed at any second: no promise stands on them
    owned_widths: tuple[int, ...] = ()  #: devices of each owned node, the widest first
    calendar: DeviceCalendar = NO_CHANGES  #: no promise stands on devices that it says are gone
    unheard_s: float = 0.0  #: at most, from the loss of a node until the head hears of it
    num_left_idle: int = 0  #: devices beside these, of nodes with fewer cores: a promise counts cores
    reclaims_per_node_s: float = 0.0  #: of a borrowed node, as far as has been seen
    is_due: bool = True  #: another period of the policy has begun since it last decided
    memory: Memory = field(default_factory=dict)  #: what its last allocation gave; empty at first
    learning: Learning | None = None  #: for policies that divide cores (`Domain.shares_cores`)
    index: RowIndex | None = None  #: of these rows, where it is kept up to date; None: it is made if need be

    @property
    def num_owned(self) -> int:
        """Devices that promises may stand on."""
        return self.num_devices - self.num_borrowed

    def num_owned_until(self, until_s: float) -> int:
        """The fewest devices that promises may stand on at a time until then, as far as is known."""
        changes = (change for at_s, change in self.calendar.of_owned if at_s < until_s)
        return self.num_owned + min(accumulate(changes), default=0)

    def mean_owned(self, time_s: FloatArray | float) -> Any:
        """Devices that promises may stand on, on average over so long (any shape) from now."""
        if not self.calendar.of_owned:
            return self.num_owned
        at_s, changes = np.array(self.calendar.of_owned).T
        before_share = np.maximum(at_s - self.now_s, 0.0) / np.asarray(time_s)[..., None]
        return self.num_owned + (changes * np.maximum(1.0 - before_share, 0.0)).sum(axis=-1)

    @property
    def needs_owned(self) -> BoolArray:
        """(J,) jobs that have a promise, or ask for one."""
        return self.is_promised | self.is_undecided

    @cached_property
    def num_jobs(self) -> int:
        return len(self.job_ids)

    @property
    def row_of(self) -> Mapping[str, int]:
        """Row of each job, by id."""
        return self._index.row_of

    @cached_property
    def held_rate_per_s(self) -> FloatArray:
        """(J,) steps/s with what each job holds; 0 where that is nothing."""
        return self.rates_at(self.held_workers)

    @property
    def smallest_per_s(self) -> FloatArray:
        """(J,) steps/s of each worker of a job's smallest size; 1 for a job without any."""
        has, per_s = self.options.num > 0, np.ones(self.num_jobs)
        first = self.options.starts[:-1][has]
        per_s[has] = self.options.rate_per_s[first] / self.options.workers[first]
        return per_s

    @cached_property
    def relative_weight(self) -> FloatArray:
        """(J,) weight of each job over that of the heaviest one: where all are equal, 1."""
        relative: FloatArray = self.weight / self.weight.max(initial=0.0)
        return relative

    def with_only(self, is_kept: BoolArray) -> Snapshot:
        """Without the other (O,) options: for a policy that narrows its choice."""
        return replace(
            self,
            options=self.options.only(is_kept),
            option_start_s=self.option_start_s[is_kept],
            option_resize_s=self.option_resize_s[is_kept],
            option_margin_share=self.option_margin_share[is_kept],
        )

    def devices_of_tenants(self, workers: IntArray) -> IntArray:
        """(T,) by `tenant`, devices of its jobs at so many (J,) workers; as long as `quota_devices`."""
        num = 0 if self.quota_devices is None else len(self.quota_devices)
        return self.devices_of_groups(self.tenant, workers, num)

    def devices_of_groups(self, group: IntArray, workers: IntArray, num: int) -> IntArray:
        """(num,) devices that the jobs of each (J,) group have at so many (J,) workers."""
        return np.bincount(group, workers * self.devices_per_worker, num).astype(np.int64)

    def in_goodput(self) -> Snapshot:
        """The same with goodputs as rates, for a policy that weighs what samples are worth at each batch.

        `remaining_steps` over such a rate is no time: a job ends after its samples, whatever these are worth.
        """
        options = self.options.in_goodput()
        if options is self.options:
            return self
        first = np.where(options.num > 0, options.starts[:-1], NO_OPTION)
        is_one = options.workers_of(first) == 1
        return replace(
            self,
            options=options,
            one_worker_per_s=np.where(is_one, options.rates_of(first), self.one_worker_per_s),
        )

    def of_jobs(self, rows: IntArray, num_devices: int) -> Snapshot:
        """Return the snapshot with only these (n,) jobs, in this order, so many devices, and no shares."""
        places = self.options.places_of(rows)
        fits = self.options.devices[places] <= num_devices
        of_jobs = {name: getattr(self, name)[rows] for name in _COLUMNS_OF_JOBS}
        return replace(
            self,
            num_devices=num_devices,
            num_borrowed=min(self.num_borrowed, num_devices),
            options=self.options.of_jobs(rows).only(fits),
            option_start_s=self.option_start_s[places[fits]],
            option_resize_s=self.option_resize_s[places[fits]],
            option_margin_share=self.option_margin_share[places[fits]],
            job_ids=tuple(self.job_ids[row] for row in rows.tolist()),
            quota_devices=None,
            fair=None,
            learning=None if self.learning is None else self.learning.of_rows(rows),
            index=None,
            **of_jobs,
        )

    def rates_at(self, workers: IntArray) -> FloatArray:
        """(J,) steps/s at these worker counts; a count between two options counts as the smaller one."""
        return self.options.rates_at(workers)

    @property
    def arrival_order(self) -> IntArray:
        """(J,) rows, the highest priority first, then by submission, by id."""
        return self._index.by_arrival

    @cached_property
    def arrival_rank(self) -> IntArray:
        """(J,) position in `arrival_order`."""
        ranks = np.empty(self.num_jobs, dtype=np.int64)
        ranks[self.arrival_order] = np.arange(self.num_jobs)
        return ranks

    def in_order(self, rows: Sequence[int] | IntArray, *keys: FloatArray | IntArray) -> IntArray:
        """`rows`, the lowest of the first key (J,) first, ties by the next, by `arrival_order`.

        No row is among them twice.
        """
        ordered = np.asarray(rows, dtype=np.int64)
        if len(ordered) < 2:
            return ordered
        ordered = _in_same_order(self.arrival_order, ordered)
        for key in reversed(keys):
            ordered = ordered[key[ordered].argsort(kind="stable")]
        return ordered

    def by_key(self, rows: Sequence[int] | IntArray, key: FloatArray | IntArray) -> IntArray:
        """`rows`, the highest priority first, then the lowest key (J,), ties by `arrival_order`."""
        return self.in_order(rows, -self.priority, key) if self.priority.any() else self.in_order(rows, key)

    def by_deadline(self, rows: Sequence[int] | IntArray) -> IntArray:
        """`rows`, the earliest deadline first, ties by `arrival_order`."""
        return _in_same_order(self._deadline_order, np.asarray(rows, dtype=np.int64))

    @cached_property
    def _deadline_order(self) -> IntArray:
        """(J,) rows by deadline, ties by `arrival_order`."""
        return self.arrival_order[self.deadline_s[self.arrival_order].argsort(kind="stable")]

    @cached_property
    def _index(self) -> RowIndex:
        return self.index or index_of(self.job_ids, self.priority, self.submitted_s)


def _in_same_order(order: IntArray, rows: IntArray) -> IntArray:
    """`rows`, in the order in which they are in `order` (J,)."""
    is_one = np.zeros(len(order), dtype=bool)
    is_one[rows] = True
    return order[is_one[order]]


#: Of arrays in a snapshot.
_COLUMNS_OF_OTHERS = {"option_start_s", "option_resize_s", "option_margin_share", "quota_devices"}
_COLUMNS_OF_JOBS = tuple(
    field.name
    for field in fields(Snapshot)
    if str(field.type) in ("IntArray", "FloatArray", "BoolArray") and field.name not in _COLUMNS_OF_OTHERS
)


def index_of(job_ids: Sequence[str], priority: IntArray, submitted_s: FloatArray) -> RowIndex:
    """Index of jobs by id and by arrival, for jobs in rows."""
    rows = range(len(job_ids))
    by_arrival = sorted(rows, key=lambda row: (-priority[row], submitted_s[row], job_ids[row]))
    return RowIndex(dict(zip(job_ids, rows, strict=True)), np.array(by_arrival, dtype=np.int64))
