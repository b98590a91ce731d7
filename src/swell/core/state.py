"""Everything the head remembers between two batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from sys import intern
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.core.accounts import AccountTable, TenantTable
from swell.core.costs import CostTable
from swell.core.explanations import EXPECTED_START, PendingAccount
from swell.core.gang import UnknownGangs
from swell.core.last_plan import LastPlan, PolicyState
from swell.core.record import JobRecord
from swell.core.record_index import Kind, RecordIndex
from swell.core.setbacks import LossRates, Setbacks
from swell.core.sizes import job_sizes
from swell.core.table import JobOptions, JobTable
from swell.model.booking import Booking
from swell.model.calendar import Calendar, CalendarEntry
from swell.model.cluster import Cluster, Widths, nodes_needed
from swell.model.coding import decoder, encode_by_fields
from swell.model.event import AnyEvent, Event, NodeTested, NodeWarned
from swell.model.job import JobClass, JobSpec, Phase, Profile
from swell.model.options import Domain
from swell.model.plan import Refusal
from swell.model.quota import Quota
from swell.model.target import Target
from swell.throughput.belief import FittedBelief

ONE_WORKER: IntArray = np.ones(1, dtype=np.int64)
#: A text, or what would write it: most lines of stories are never read where many jobs are simulated.
Words = str | Callable[[], str]
T = TypeVar("T")


class JobFailure(msgspec.Struct, frozen=True):
    """A job that failed with all its workers on one node."""

    at_s: float
    job_id: str
    program: str  #: what it runs
    node: str
    is_of_trial: bool = False


class SlowStretch(msgspec.Struct):
    """Steps of a job in which one of its devices was slower than the others."""

    job_id: str
    first_steps: int  #: of the job when that was measured first
    last_steps: int
    factor: float  #: its time for a sample, relative to that of the others


class DeviceSlowness(msgspec.Struct):
    """In which jobs a device was slower than the others of their gangs."""

    stretches: list[SlowStretch] = []  #: the latest last
    since_s: float | None = None  #: the device is slow since then; None: it is not known to be


class KeptState(msgspec.Struct, kw_only=True, dict=True):
    """What of the head is kept as it is."""

    now_s: float = 0.0
    calendar: Calendar = msgspec.field(default_factory=Calendar)
    cluster: Cluster = msgspec.field(default_factory=Cluster)
    losses: LossRates = msgspec.field(default_factory=LossRates)
    warned: dict[str, list[NodeWarned]] = {}  #: by name, of nodes there, or away, that get no more work
    tests: dict[str, NodeTested] = {}  #: the latest of each node, by its name
    failures: list[JobFailure] = []  #: recent ones, the latest last
    suspects: dict[str, str] = {}  #: nodes that are likely to be ill, and why, until they are drained
    slowness: dict[str, DeviceSlowness] = {}  #: by device; see `slow_devices`
    ends_s: dict[str, float] = {}  #: by name, of nodes whose end is known; see `NodeEndKnown`
    #: Devices by name, as they had them, of nodes that are not there while their hosts are.
    away: dict[str, tuple[str, ...]] = {}
    unknown: UnknownGangs = msgspec.field(default_factory=UnknownGangs)
    setbacks: Setbacks = msgspec.field(default_factory=Setbacks)
    costs: CostTable = msgspec.field(default_factory=CostTable)
    tenants: TenantTable = msgspec.field(default_factory=TenantTable)
    accounts: AccountTable = msgspec.field(default_factory=AccountTable)
    weights: dict[str, float] = {}  #: by account, of those that have another than 1
    quotas: dict[str, Quota] = {}  #: by name, of tenants that have one, whether they have jobs here or not
    bookings: dict[str, Booking] = {}  #: by id
    entries: dict[str, tuple[CalendarEntry, ...]] = {}  #: by fixed job or booking: what it has, and will have
    reserved: dict[str, str] = {}  #: device -> the fixed job, or the booking, whose it is now
    num_stale: int = 0  #: reports about a generation, or a job, that is no more
    wake_s: float | None = None
    is_draining: bool = False
    policy: str = ""  #: empty: the one the core was made with
    policy_state: PolicyState = msgspec.field(default_factory=PolicyState)
    last_plan: LastPlan = msgspec.field(default_factory=LastPlan)


class Saved(KeptState, kw_only=True):
    """The head as the journal's folds hold it."""

    records: list[JobRecord]
    rows: list[str]  #: ids in the order of the columns: plans list jobs in it, and so do commands
    belief: msgspec.Raw  #: see `FittedBelief.state`


#: The head's state (`Core.save`) as a value. Raises msgspec.MsgspecError.
read_saved: Callable[[bytes], Saved] = decoder(Saved).decode


class HeadState(KeptState, kw_only=True):
    """The kept state, the columns derived from it, and what was learnt. Only `apply` and `Core` change it."""

    belief: FittedBelief
    domain: Domain  #: of the policy that decides
    half_life_s: float = 0.0  #: see `CoreSettings`

    def __post_init__(self) -> None:
        self._clear()
        # Of this turn.
        self.stories: list[tuple[str, float, str, Words]] = []  #: job, when, code and text
        self.ended: list[JobRecord] = []  #: the head forgets them
        self.refusals: dict[str, Callable[[], Refusal]] = {}  #: worked out when they are asked for
        self.ignored: list[Event] = []  #: events that were stale
        #: What an error is about: an event, or the id of a job; None: about none of these, or there is none.
        self.culprit: AnyEvent | str | None = None

    def _clear(self) -> None:
        """No job is known."""
        self.records: dict[str, JobRecord] = {}
        self.specs: EqualValues[JobSpec] = EqualValues()
        self.profiles: EqualValues[Profile] = EqualValues()
        # Worked out from what is kept.
        self.table = JobTable()
        self.index = RecordIndex()
        self.latest = PendingAccount()
        self.usable = Cluster()  #: the nodes that policies may place jobs on, without reserved devices
        self.devices: frozenset[str] = frozenset()  #: of these
        self.warned_devices: frozenset[str] = frozenset()  #: that are there, but not for policies
        self.num_borrowed = 0  #: devices
        self._widths: Widths = ()  #: of the nodes, as rows were written for
        self._most_devices = 1  #: rows are written for a cluster of so many
        self._dirty: set[str] = set()
        self._relearnt: set[str] = set()  #: jobs of whose speed another thing is believed than rows say
        self.unshown: set[str] = set()  #: open jobs of which something changed since they were last shown

    @property
    def num_devices(self) -> int:
        """That jobs may have; a look at each node would take longer, and this is asked in every turn."""
        return len(self.devices)

    # ------------------------------------------------------------ what `apply` uses
    def touch(self, record: JobRecord) -> None:
        """The record has changed: its row is due, and so is what others see of it."""
        self._dirty.add(record.id)
        self.unshown.add(record.id)

    def explain(self, record: JobRecord, code: str, text: Words) -> None:
        """Why the job has what it has, from now on; also a line of its story."""
        record.status.reason_code, record.status.reason = code, text if isinstance(text, str) else ""
        self.latest.note_explained(record.id)
        self.tell(record, code, text)

    def reason_of(self, record: JobRecord) -> str:
        """Why the job has what it has, as was said last, for a story."""
        self.latest.write_reason(record)
        return record.status.reason.partition(EXPECTED_START)[0]

    def tell(self, record: JobRecord, code: str, text: Words) -> None:
        """Add a line to the job's story."""
        self.stories.append((record.id, self.now_s, code, text))

    def end(self, record: JobRecord, phase: Phase, code: str, text: Words, at_s: float | None = None) -> None:
        """The job is over: its devices are free, its story is complete.

        Args:
            at_s: when it ended, if that was before now: its end may have had to wait for a daemon.
        """
        record.progress.advance(self.now_s, num_devices=0)
        record.end(phase)
        self.release(record.id)
        record.status.finished_s = self.now_s if at_s is None else min(at_s, self.now_s)
        record.resizes.lose(record.status.finished_s)
        self.costs.tenure.add(record.tenure)
        record.progress.rate_per_s = 0.0
        record.sizes.note(record.status.finished_s, 0)
        self.explain(record, code, text)
        self.ended.append(record)
        self.touch(record)

    def set_rate(self, record: JobRecord, num_workers: int) -> None:
        """Progress from now on is believed to be that of so many workers."""
        record.progress.rate_per_s = self.rate_per_s(record, num_workers) if num_workers else 0.0
        self.touch(record)

    def rate_per_s(self, record: JobRecord, num_workers: int) -> float:
        """Steps/s believed of so many workers."""
        believed = self.belief.of(record.id)
        num_hosts = self.num_hosts(record, num_workers) if believed.depends_on_hosts else 1
        if record.global_batch != record.spec.global_batch:
            return believed.rate_at_batch(num_workers, record.global_batch, num_hosts)
        return believed.rate_per_s(num_workers, num_hosts)

    def mean_time_to_loss_s(self, devices: tuple[str, ...]) -> float:
        """Expected time until a gang on these devices loses training that is not saved."""
        return self.losses.mean_time_to_loss_s(self.cluster, devices, self.now_s)

    def note_lost_workers(self, record: JobRecord, devices: tuple[str, ...], is_whole: bool) -> None:
        """A gang has lost its workers on these devices; a node that went with them was counted before."""
        self.losses.note_gang(record.num_nodes, is_whole)
        nodes = {self.cluster.node_of.get(device, "") for device in devices}
        if "" not in nodes and nodes.isdisjoint(self.cluster.borrowed):
            self.losses.owned.num_lost += 1

    def nodes_of(self, devices: tuple[str, ...]) -> int:
        """Number of nodes that are there and have some of these devices."""
        node_of = self.cluster.node_of
        return len({node_of[device] for device in devices if device in node_of})

    def target_on(self, record: JobRecord, devices: tuple[str, ...]) -> Target:
        """How workers of a gang are to go on that are left on these devices.

        A batch for each worker stays that. Where so few workers cannot have the batch of all, they have the
        best one that they can have.
        """
        each, num_workers = record.spec.batch_per_worker, len(devices) // record.spec.devices_per_worker
        batch = None if each is None else each * num_workers
        if batch is None and record.spec.may_change_batch and num_workers:
            batch = self._batch_of_survivors(record, num_workers)
        configuration = record.gang.members.configuration
        if batch is not None and num_workers:
            configuration = msgspec.structs.replace(configuration, global_batch=batch)
        return Target(devices=devices, configuration=configuration)

    def _batch_of_survivors(self, record: JobRecord, num_workers: int) -> int | None:
        """None: they keep the one that they have, or there is none that they can have."""
        sizes, hosts = np.array([num_workers]), np.array([self.num_hosts(record, num_workers)])
        kept = self.belief.of(record.id).rates_at_batch(sizes, record.global_batch, hosts)
        best = self._best_batches(record, sizes, hosts)
        if kept is None or kept[0] > 0.0 or best is None or best[0][0] <= 0.0:
            return None
        return int(best[1][0])

    def num_hosts(self, record: JobRecord, num_workers: int) -> int:
        """Nodes that so many workers of the job are on: those of its gang, if it has as many, else as few as
        can be.
        """
        devices, num_devices = record.gang.members.devices, num_workers * record.spec.devices_per_worker
        if num_devices <= 1:
            return 1
        nodes = set(map(self.cluster.node_of.get, devices))
        if len(devices) == num_devices and None not in nodes:
            return len(nodes)
        return int(nodes_needed(self._widths, np.array([num_devices]))[0])

    def _hosts_of(self, record: JobRecord, sizes: IntArray) -> IntArray | None:
        """(K,) nodes that the placer needs for each number of workers; None if that makes no difference."""
        if not self.belief.of(record.id).depends_on_hosts:
            return None
        return nodes_needed(self._widths, sizes * record.spec.devices_per_worker)

    def relearn(self, record: JobRecord) -> None:
        """It may have other sizes, speeds, another priority or another weight from now on."""
        self._relearnt.add(record.id)

    # ------------------------------------------------------------ what `Core` uses
    def sizes_of(self, record: JobRecord) -> IntArray:
        """Worker counts that the job may have on this cluster, at any batch; empty if there is none."""
        return self.sizes_on(record, self.num_devices + len(self.booked_for(record)))

    def sizes_on(self, record: JobRecord, num_devices: int, most_batch: int | None = None) -> IntArray:
        """The same on so many devices, of which it has none on nodes that are ruled out for it.

        A gang is one device where devices cannot sum gradients.
        """
        if record.ruled_out:
            others = (node.devices for node in self.usable.nodes if node.name not in record.ruled_out)
            num_devices = min(num_devices, sum(map(len, others)))
        if self.cluster.nodes and not self.cluster.nodes[0].can_sum and record.spec.fixed is None:
            num_devices = min(num_devices, 1)
        sizes = job_sizes(record.spec, num_devices, self.domain.sizes, most_batch)
        return sizes if record.may_grow else sizes[:1]

    def lacks_nodes(self, record: JobRecord) -> bool:
        """Whether it cannot run because nodes lack what it needs."""
        return bool(record.ruled_out) and not self.sizes_of(record).size

    def is_ruled_out(self, record: JobRecord, devices: Collection[str]) -> bool:
        """Whether some of these devices are of a node that lacks what the job needs."""
        if not record.ruled_out:
            return False
        nodes = (node for node in self.cluster.nodes if node.name in record.ruled_out)
        return any(not set(node.devices).isdisjoint(devices) for node in nodes)

    def readmit(self, name: str) -> None:
        """The node may have by now what it lacked, or is another one."""
        for record in self.watchlist("barred"):
            if record.ruled_out.pop(name, None) is not None:
                self.touch(record)

    def watchlist(self, kind: Kind) -> list[JobRecord]:
        """Records of that kind, in order of submission."""
        jobs = self.index.jobs[kind]
        if not jobs:
            return []
        records = [self.records[job_id] for job_id in jobs]
        return sorted(records, key=lambda record: (record.submitted_s, record.id))

    def nodes_to_leave(self, record: JobRecord) -> list[str]:
        """Names of the nodes that get no more work and have workers of the job."""
        held = self.warned_devices.intersection(record.gang.members.devices)
        if not held:
            return []
        nodes = (node for node in self.cluster.nodes if node.name in self.warned)
        return [node.name for node in nodes if held.intersection(node.devices)]

    @property
    def has_devices_to_leave(self) -> bool:
        """Whether a job holds devices that it is to leave."""
        owner = self.index.owner
        return any(self.reserved.get(one) != owner[one] for one in owner.keys() & self.warned_devices)

    def reserve(self, owner: str, devices: Iterable[str]) -> None:
        """Only this fixed job, or jobs of this booking, may have these devices from now on."""
        own = dict.fromkeys(devices, owner)  # in rank order, whoever had them before
        others = {device: one for device, one in self.reserved.items() if device not in own}
        self.reserved = {**others, **own}
        self.measure_cluster()

    @property
    def taken_by_tenants(self) -> Counter[str]:
        """Devices that jobs of each tenant have reserved."""
        owners = map(self.records.get, self.reserved.values()) if self.reserved and self.quotas else ()
        return Counter(record.spec.tenant for record in owners if record is not None)

    def occupy(self, job_id: str, devices: Sequence[str], until_s: float) -> None:
        """Reserve the devices, and enter them in the calendar until then."""
        self.reserve(job_id, devices)
        self.entries[job_id] = self.entries_of(job_id, devices, until_s)

    def entries_of(self, job_id: str, devices: Iterable[str], until_s: float) -> tuple[CalendarEntry, ...]:
        """These devices are a job's from now until then."""
        nums, when = Counter(map(self.cluster.node_of.__getitem__, devices)), (self.now_s, until_s)
        return tuple(CalendarEntry("job", job_id, *of, *when) for of in nums.items())

    def extend(self, owner: str, until_s: float) -> None:
        """What it has now it has until then."""
        entries = self.entries.get(owner, ())
        self.entries[owner] = tuple(msgspec.structs.replace(entry, until_s=until_s) for entry in entries)

    def release(self, owner: str) -> None:
        """Any job may have what was this one's; it has no place in the calendar any more."""
        self.entries.pop(owner, None)
        self.unreserve(owner)

    def unreserve(self, owner: str) -> None:
        """Any job may have what this one has now; what it will have stays in the calendar."""
        if owner in self.reserved.values():
            self.reserved = {device: one for device, one in self.reserved.items() if one != owner}
            self.measure_cluster()

    def reserved_for(self, record: JobRecord) -> list[str]:
        """Devices that are there and are reserved for this job."""
        if not (self.reserved and record.is_apart):
            return []
        node_of = self.cluster.node_of
        return [device for device, owner in self.reserved.items() if owner == record.id and device in node_of]

    def booked_for(self, record: JobRecord) -> list[str]:
        """Devices that are reserved for the booking of this job."""
        booking = record.booking
        return [device for device, owner in self.reserved.items() if owner == booking] if booking else []

    def open_nodes(self, without: Collection[str] = ()) -> Cluster:
        """The nodes that take work, and those of their devices that are reserved for no job but these."""
        cluster = self.cluster
        for name in self.warned:
            cluster = cluster.without_node(name)
        others = {device for device, owner in self.reserved.items() if owner not in without}
        return cluster.without_devices(others) if others else cluster

    def concerns_plans(self, record: JobRecord | None) -> bool:
        """Whether a policy knows the job, it holds devices, or it may want some that are lent for a trial."""
        if record is None:
            return False
        if self.quotas and self.reserved:
            return True
        is_known = record.is_plannable or record.id in self.table
        return is_known or record.is_apart or record.phase.holds_devices or record.id in self.index.held

    def write_rows(self, written: Collection[str] = ()) -> None:
        """Bring all that is kept of records up to date with those that changed; forget those that ended.

        Args:
            written: ids of jobs whose rows are up to date.
        """
        if not self._dirty:
            return
        records = [self.records[job_id] for job_id in sorted(self._dirty)]
        for record in records:
            try:
                if record.is_plannable:
                    if record.id not in written:
                        self._write_row(record)
                else:
                    self._remove_row(record)
            except Exception:
                self.culprit = record.id
                raise
        self.index.update(records)
        for record in records:
            if self.half_life_s:
                self.accounts.note(record, self.now_s, self.half_life_s)
            if record.ended is not None:
                del self.records[record.id]
                self.unshown.discard(record.id)
                self.tenants.leave(record.spec.tenant, self.now_s)
                self.accounts.leave(record.account, self.now_s)
                self.belief.forget(record.id)
        self._dirty.clear()

    def _remove_row(self, record: JobRecord) -> None:
        if record.id in self.table:
            if record.ended is None:  # of one that ended, its end says all there is to say
                self.latest.write(record)
            self.table.remove(record.id)

    def set_cluster(self, cluster: Cluster) -> None:
        """These nodes are there now. Rows need no change as long as they allow for so many devices."""
        self.losses.note_nodes(self.cluster, cluster, self.now_s)
        self.cluster = cluster
        self.measure_cluster()

    def measure_cluster(self) -> None:
        """The nodes that are there, or what was said of them, are other ones from now on."""
        self.usable = self.open_nodes()
        self.devices = frozenset(self.usable.devices)
        leaving = (node.devices for node in self.cluster.nodes if node.name in self.warned)
        is_any = bool(self.warned or self.reserved)
        self.warned_devices = frozenset(chain(self.reserved, *leaving)) if is_any else frozenset()
        self.num_borrowed = self.usable.num_borrowed
        if self.usable.widths != self._widths:
            self._widths = self.usable.widths
            self._relearn(one for one in self.table.ids if self.belief.of(one).depends_on_hosts)
        for record in self.watchlist("barred"):
            self.relearn(record)
            self.touch(record)
        num_devices = self.cluster.num_devices if self.reserved else self.num_devices
        if num_devices > self._most_devices:
            self._most_devices = 1 << (num_devices - 1).bit_length()
            self._relearn(self.table.ids)

    def set_domain(self, domain: Domain) -> None:
        """The policy that decides from now on chooses from these."""
        if domain is not self.domain and domain != self.domain:
            self.domain = domain
            self._relearn(self.table.ids)

    def _relearn(self, job_ids: Iterable[str]) -> None:
        jobs = tuple(job_ids)
        self._dirty.update(jobs)
        self._relearnt.update(jobs)

    def _write_row(self, record: JobRecord) -> None:
        is_known = record.id in self.table
        self.table.write(record, None if is_known else self._options_of(record))

    def write_options(self) -> None:
        """Bring options of all rows up to date; several events of a job come between two looks at them."""
        for record in [self.records[job_id] for job_id in sorted(self._relearnt) if job_id in self.table]:
            try:
                self.table.write(record, self._options_of(record))
            except Exception:
                self.culprit = record.id
                raise
        self._relearnt.clear()

    def _options_of(self, record: JobRecord) -> JobOptions:
        spec, believed, best = record.spec, self.belief.of(record.id), None
        if self._is_batch_open(record):
            sizes = self.sizes_on(record, self._most_devices)
            best = self._open_batches_of(record, sizes)
        if best is None:
            sizes = self.sizes_on(record, self._most_devices, spec.global_batch)
            rates = believed.rates_per_s(sizes, self._hosts_of(record, sizes))
            best = rates, (spec.batch_per_worker or 0) * sizes
        rates, batches = best
        is_option, efficiencies = rates > 0.0, believed.efficiency(batches)
        if self.domain.ends_at_peak:
            speeds = rates * efficiencies if self.domain.weighs_efficiency else rates
            is_option &= speeds > np.maximum.accumulate(np.concatenate([[0.0], speeds[:-1]]))
        one_worker_per_s = float(rates[0]) if len(sizes) and sizes[0] == 1 else 0.0
        if self.domain.fixed_batch is not None:
            best = self._best_batches(record, ONE_WORKER, None)
            one_worker_per_s = one_worker_per_s if best is None else float(best[0][0])
        sizes = sizes[is_option]
        margin_class = believed.margin_classes(sizes, self._hosts_of(record, sizes))
        of_options = rates[is_option], efficiencies[is_option]
        return JobOptions(sizes, batches[is_option], margin_class, *of_options, one_worker_per_s)

    def _is_batch_open(self, record: JobRecord) -> bool:
        if not self.domain.opens_batches or record.spec.max_batch is None:
            return False
        is_to_last = self.domain.lasting_rates and record.planned_class is not JobClass.BEST_EFFORT
        return not (is_to_last and self.belief.of(record.id).changes_worth)

    def _best_batches(
        self, record: JobRecord, sizes: IntArray, hosts: IntArray | None
    ) -> tuple[FloatArray, IntArray] | None:
        """See `Learnt.best_batches`."""
        by_goodput = self.domain.weighs_efficiency
        return self.belief.of(record.id).best_batches(sizes, record.wanted_batch, hosts, by_goodput)

    def _open_batches_of(self, record: JobRecord, sizes: IntArray) -> tuple[FloatArray, IntArray] | None:
        """(K,) rates and batches of a job whose batch is open; None if it is known at its own one only."""
        spec, fixed = record.spec, self.domain.fixed_batch
        if fixed is None or spec.max_batch is None:
            return self._best_batches(record, sizes, self._hosts_of(record, sizes))
        batch = fixed.of(record.id, spec.least_batch, spec.max_batch)
        rates = self.belief.of(record.id).rates_at_batch(sizes, batch, self._hosts_of(record, sizes))
        return None if rates is None else (rates, np.full_like(sizes, batch))

    def save(self) -> bytes:
        for record in self.records.values():
            self.latest.write(record)
        self.last_plan.write_down()
        kept = {name: getattr(self, name) for name in KeptState.__struct_fields__}
        saved = Saved(
            **{**kept, "policy_state": self.policy_state.written()},
            records=list(self.records.values()),
            rows=self.table.ids,
            belief=msgspec.Raw(self.belief.state()),
        )
        return encode_by_fields(saved)  # some time of a policy may be inf

    def load(self, data: bytes) -> None:
        saved = read_saved(data)
        self._clear()
        for name in KeptState.__struct_fields__:
            setattr(self, name, getattr(saved, name))
        self.belief.restore(saved.belief)
        self.records = {record.id: record for record in saved.records}
        for record in saved.records:
            record.spec = self.specs.one_for(record.spec)
            record.profile = record.profile and self.profiles.one_for(record.profile)
            # Codes of all jobs are compared in each turn: the very same object is equal at once.
            record.status.reason_code = intern(record.status.reason_code)
        self.measure_cluster()
        unwritten = set[str]()
        for job_id in saved.rows:
            try:
                self._write_row(self.records[job_id])
            except Exception:  # noqa: BLE001 - the next batch comes to it, and is handled without the job
                unwritten.add(job_id)
        self._dirty, self._relearnt = self.records.keys() - unwritten, unwritten
        self.unshown = set(self.records)
        self.write_rows(frozenset(saved.rows))
        self._dirty |= unwritten


class EqualValues(Generic[T]):
    """One object for values that are equal: thousands of jobs have the same request, and the same profile.

    They are structs that never change; none is kept that is not used elsewhere.
    """

    def __init__(self) -> None:
        self._known: WeakValueDictionary[int, T] = WeakValueDictionary()

    def one_for(self, value: T) -> T:
        """An equal value that was given before, if somebody still has it; else this one."""
        known = self._known.setdefault(hash(msgspec.msgpack.encode(value)), value)
        return known if known == value else value
