"""Everything the head remembers between two batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from swell.arrays import IntArray
from swell.core.costs import ChangeCosts
from swell.core.explanations import Latest
from swell.core.holdings import Holdings
from swell.core.option_table import JobOptions
from swell.core.policy_state import PolicyState
from swell.core.ports import Belief
from swell.core.reclaims import Reclaims
from swell.core.record import JobRecord
from swell.core.table import JobTable
from swell.core.tenants import Tenants
from swell.core.unknown_gangs import UnknownGang, UnknownGangs
from swell.core.watchlists import Kind, Special
from swell.model.calendar import Calendar
from swell.model.cluster import Cluster
from swell.model.coding import decoder, encode
from swell.model.event import Event
from swell.model.job import Elasticity, JobSpec, Phase, Profile
from swell.model.options import Domain, Sizes
from swell.model.plan import JobPlan, Reason, Refusal
from swell.model.target import NOTHING, Target


class Owed(msgspec.Struct, frozen=True, kw_only=True):
    """A `JobPlan` that waits for devices."""

    reason: Reason
    expected_gain_s: float | None
    expected_cost_s: float
    target: Target = NOTHING  #: of a plan that an earlier version owed: it is made anew

    @classmethod
    def of(cls, plan: JobPlan) -> Owed:
        return cls(
            target=plan.target,
            reason=plan.why(),
            expected_gain_s=plan.expected_gain_s,
            expected_cost_s=plan.expected_cost_s,
        )

    def plan(self) -> JobPlan:
        return JobPlan(
            target=self.target,
            why=lambda: self.reason,
            expected_gain_s=self.expected_gain_s,
            expected_cost_s=self.expected_cost_s,
        )


class Saved(msgspec.Struct, kw_only=True):
    """The head as the journal's folds hold it."""

    now_s: float
    cluster: Cluster
    records: list[JobRecord]
    rows: list[str]  #: ids in the order of the columns: plans list jobs in it, and so do commands
    costs: ChangeCosts
    belief: dict[str, Any]
    num_stale: int
    planned_s: float
    wake_s: float | None
    is_draining: bool
    policy: str
    policy_state: PolicyState = msgspec.field(default_factory=PolicyState)
    owed: dict[str, Owed] = {}
    revisit: list[str] = []
    is_sated: bool = False
    tenants: Tenants | None = None  #: None: saved by a version that knew none
    calendar: Calendar = msgspec.field(default_factory=Calendar)
    unknown_gangs: dict[str, UnknownGang] = {}
    refused_nodes: dict[str, str] = {}
    reclaims: Reclaims = msgspec.field(default_factory=Reclaims)


#: A text, or what would write it: most lines of stories are never read where many jobs are simulated.
Words = str | Callable[[], str]

_decode: Callable[[bytes], Saved] = decoder(Saved).decode


class HeadState:
    """Records, the columns made of them, and what was learnt. Only `apply` and `Core` change it."""

    def __init__(self, belief: Belief, domain: Domain) -> None:
        self._domain = domain  #: of the policy that decides
        self._most_devices = 1  #: rows are written for a cluster of so many
        self.now_s = 0.0
        self.calendar = Calendar()
        self.cluster = Cluster()
        self.num_borrowed = 0  #: devices
        self.reclaims = Reclaims()
        self.refused_nodes: dict[str, str] = {}  #: name -> why the node cannot join
        self.records: dict[str, JobRecord] = {}
        self.belief = belief
        self.costs = ChangeCosts()
        self.tenants = Tenants()
        self.ignored: list[Event] = []  #: events of this turn that were stale
        self.num_stale = 0  #: reports about a generation, or a job, that is no more
        self.planned_s = 0.0
        self.wake_s: float | None = None
        self.is_draining = False
        self.policy = ""  #: empty: the one the core was made with
        self.policy_state = PolicyState()
        self.owed: dict[str, JobPlan] = {}  #: what jobs are to have as soon as others have left it
        self.revisit: frozenset[str] = frozenset()  #: jobs that are to change, and could not yet
        self.is_sated = False  #: more devices would be of no use to anybody
        self.latest = Latest()
        self.holdings = Holdings()
        self.unknown = UnknownGangs()
        self.devices: frozenset[str] = frozenset()
        self.table = JobTable()
        self.stories: list[tuple[str, float, str, Words]] = []  #: job, when, code and text, of this turn
        self.ended: list[JobRecord] = []  #: of this turn; the head forgets them
        self.refusals: dict[str, Callable[[], Refusal]] = {}  #: of this turn, worked out for whoever asks
        self._dirty: set[str] = set()
        self.unshown: set[str] = set()  #: open jobs of which something changed since they were last shown
        self._relearnt: set[str] = (
            set()
        )  #: jobs of whose speed something else is believed than their rows say
        self._special = Special()

    @property
    def num_devices(self) -> int:
        """That are there; a look at each node would take longer, and this is asked in every turn."""
        return len(self.devices)

    # ------------------------------------------------------------ what `apply` uses
    def touch(self, record: JobRecord) -> None:
        """The record has changed: its row is due, and so is what others see of it."""
        self._dirty.add(record.id)
        self.unshown.add(record.id)

    def explain(self, record: JobRecord, code: str, text: Words) -> None:
        """Why the job has what it has, from now on; also a line of its story."""
        record.reason_code, record.reason = code, text if isinstance(text, str) else ""
        self.latest.note_explained(record.id)
        self.tell(record, code, text)

    def tell(self, record: JobRecord, code: str, text: Words) -> None:
        """Add a line to the job's story."""
        self.stories.append((record.id, self.now_s, code, text))

    def end(self, record: JobRecord, phase: Phase, code: str, text: Words, at_s: float | None = None) -> None:
        """The job is over: its devices are free, its story is complete.

        Args:
            at_s: when it ended, if that was before now: its end may have had to wait for a daemon.
        """
        record.advance(self.now_s)
        record.move(phase)
        record.finished_s = self.now_s if at_s is None else min(at_s, self.now_s)
        record.resizes.end(record.finished_s)
        self.costs.tenure.add(record.tenure)
        record.rate_per_s = 0.0
        record.settle(NOTHING)
        record.note_size(record.finished_s, 0)
        self.explain(record, code, text)
        self.ended.append(record)
        self.touch(record)

    def set_rate(self, record: JobRecord, num_workers: int) -> None:
        """Progress from now on is believed to be that of so many workers."""
        record.rate_per_s = self.rate_per_s(record, num_workers) if num_workers else 0.0
        self.touch(record)

    def rate_per_s(self, record: JobRecord, num_workers: int) -> float:
        """Steps/s believed of so many workers."""
        if record.global_batch != record.spec.global_batch:
            return self.belief.rate_at_batch(record.id, num_workers, record.global_batch)
        is_written = record.id not in self._relearnt
        is_written = is_written and record.spec.max_batch is None  # else it may be that of another batch
        known_per_s = self.table.rate_per_s(record.id, num_workers) if is_written else 0.0
        return known_per_s or float(self.belief.rates_per_s(record.id, np.array([num_workers]))[0])

    def learn_profile(self, record: JobRecord, profile: Profile) -> None:
        """See `Belief.learn_profile`."""
        self.belief.learn_profile(record.id, record.spec, profile)
        self._relearnt.add(record.id)

    def learn_rate(self, record: JobRecord, num_workers: int, step_s: float, num_steps: int) -> None:
        """See `Belief.learn_rate`."""
        self.belief.learn_rate(record.id, num_workers, step_s, num_steps)
        self._relearnt.add(record.id)

    def learn_sizes(self, record: JobRecord) -> None:
        """It may have other sizes from now on."""
        self._relearnt.add(record.id)

    def learn_noise(self, record: JobRecord, noise_scale: float) -> None:
        """See `Belief.learn_noise`."""
        self.belief.learn_noise(record.id, noise_scale)
        self._relearnt.add(record.id)

    # ------------------------------------------------------------ what `Core` uses
    def sizes_of(self, record: JobRecord) -> IntArray:
        """Worker counts that the job may have on this cluster; empty if there is none."""
        sizes = job_sizes(record.spec, self.num_devices, self._domain.sizes)
        return sizes if record.may_grow else sizes[:1]

    def special(self, kind: Kind) -> list[JobRecord]:
        """Records of that kind, in order of submission."""
        jobs = self._special.of(kind)
        if not jobs:
            return []
        records = [self.records[job_id] for job_id in jobs]
        return sorted(records, key=lambda record: (record.submitted_s, record.id))

    def is_any(self, kind: Kind) -> bool:
        """Whether there is a record of that kind."""
        return bool(self._special.of(kind))

    def concerns_plans(self, record: JobRecord | None) -> bool:
        """Whether a policy knows the job, or it holds devices."""
        if record is None:
            return False
        is_known = record.is_plannable or record.id in self.table
        return is_known or record.phase.holds_devices or record.id in self.holdings

    def write_rows(self) -> None:
        """Bring all that is kept of records up to date with those that changed; forget those that ended."""
        if not self._dirty:
            return
        records = [self.records[job_id] for job_id in sorted(self._dirty)]
        for record in records:
            if record.is_plannable:
                self._write_row(record)
            else:
                self._remove_row(record)
            self._special.note(record)
        self.holdings.update(records)
        for record in records:
            if record.phase.is_end:
                del self.records[record.id]
                self.unshown.discard(record.id)
                self.tenants.leave(record.spec.tenant, self.now_s)
                self.belief.forget(record.id)
                self._relearnt.discard(record.id)
        self._dirty.clear()

    def _remove_row(self, record: JobRecord) -> None:
        if record.id in self.table:
            if not record.phase.is_end:  # of one that ended, its end says all there is to say
                self.latest.write_one(record)
            self.table.remove(record.id)

    def set_cluster(self, cluster: Cluster) -> None:
        """These nodes are there now. Rows need no change as long as they allow for so many devices."""
        self.reclaims.note(self.cluster, cluster, self.now_s)
        self.cluster, self.devices = cluster, frozenset(cluster.devices())
        self.num_borrowed = cluster.num_borrowed
        if self.num_devices > self._most_devices:
            self._most_devices = 1 << (self.num_devices - 1).bit_length()
            self._learn_options_anew()

    def set_domain(self, domain: Domain) -> None:
        """The policy that decides from now on chooses from these."""
        if domain != self._domain:
            self._domain = domain
            self._learn_options_anew()

    def _learn_options_anew(self) -> None:
        self._dirty.update(self.table.ids)
        self._relearnt.update(self.table.ids)

    def _write_row(self, record: JobRecord) -> None:
        if record.id in self.table and record.id not in self._relearnt:
            self.table.write(record)
            return
        self.table.write(record, self._options_of(record))
        self._relearnt.discard(record.id)

    def _options_of(self, record: JobRecord) -> JobOptions:
        spec, most_devices, kind = record.spec, self._most_devices, self._domain.sizes
        best = None
        if self._domain.opens_batches and spec.max_batch is not None:
            sizes = job_sizes(spec, most_devices, kind, spec.max_batch)
            best = self.belief.best_batches(record.id, sizes)
        if best is None:
            sizes = job_sizes(spec, most_devices, kind)
            sizes = sizes if record.may_grow else sizes[:1]
            best = self.belief.rates_per_s(record.id, sizes), np.zeros_like(sizes)
        rates, batches = best
        is_option = rates > 0.0
        if self._domain.ends_at_peak:
            is_option &= rates > np.maximum.accumulate(np.concatenate([[0.0], rates[:-1]]))
        return JobOptions(sizes[is_option], batches[is_option], rates[is_option])

    def save(self) -> bytes:
        self.latest.write(self.records)
        saved = Saved(
            now_s=self.now_s,
            cluster=self.cluster,
            records=list(self.records.values()),
            rows=self.table.ids,
            costs=self.costs,
            belief=self.belief.state(),
            num_stale=self.num_stale,
            planned_s=self.planned_s,
            wake_s=self.wake_s,
            is_draining=self.is_draining,
            policy=self.policy,
            policy_state=self.policy_state,
            owed={job_id: Owed.of(plan) for job_id, plan in self.owed.items()},
            revisit=sorted(self.revisit),
            is_sated=self.is_sated,
            tenants=self.tenants,
            calendar=self.calendar,
            unknown_gangs=self.unknown.gangs,
            refused_nodes=self.refused_nodes,
            reclaims=self.reclaims,
        )
        return encode(saved)

    def load(self, data: bytes) -> None:
        saved = _decode(data)
        self.now_s, self.costs, self.num_stale = saved.now_s, saved.costs, saved.num_stale
        self.planned_s, self.wake_s = saved.planned_s, saved.wake_s
        self.calendar = saved.calendar
        self.is_draining, self.policy = saved.is_draining, saved.policy
        self.policy_state = saved.policy_state
        self.owed = {job_id: owed.plan() for job_id, owed in saved.owed.items() if owed.target.devices}
        self.revisit, self.is_sated = frozenset(saved.revisit), saved.is_sated
        self.latest = Latest()
        self.belief.restore(saved.belief)
        self.records = {record.id: record for record in saved.records}
        self.tenants = saved.tenants or _tenants_of(saved.records)
        self.table = JobTable()
        self.set_cluster(saved.cluster)
        self.reclaims = saved.reclaims
        self.holdings, self._special = Holdings(), Special()
        self.unknown = UnknownGangs(saved.unknown_gangs)
        self.refused_nodes = saved.refused_nodes
        for job_id in saved.rows:
            self._write_row(self.records[job_id])
        self._dirty, self._relearnt = set(self.records), set()
        self.unshown = set(self.records)
        self.write_rows()


def _tenants_of(records: list[JobRecord]) -> Tenants:
    """Of a head that has just learnt that there are any."""
    tenants = Tenants()
    for record in records:
        record.tenant = tenants.join(record.spec.tenant)
    return tenants


def job_sizes(
    spec: JobSpec, num_devices: int, kind: Sizes = Sizes.POWERS_OF_TWO, most_batch: int | None = None
) -> IntArray:
    """Worker counts that a job may have on so many devices, ascending; empty if there is none. Read-only.

    Args:
        most_batch: samples of a step at most; None: those of the job's own batch.
    """
    most = num_devices // spec.devices_per_worker
    if spec.max_workers is not None:
        most = min(most, spec.max_workers)
    if spec.elasticity is Elasticity.LIVE:
        most = min(most, most_batch or spec.global_batch)  # a worker without samples would be of no use
    return _sizes_within(spec.min_workers, most, kind)


@lru_cache(maxsize=1024)
def _sizes_within(least: int, most: int, kind: Sizes) -> IntArray:
    sizes = kind.up_to(most)
    within = sizes[(sizes >= least) & (sizes <= most)]
    within.flags.writeable = False
    return within
