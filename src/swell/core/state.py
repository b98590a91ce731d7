"""Everything the head remembers between two batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from swell.core.costs import ChangeCosts
from swell.core.ports import Belief
from swell.core.record import JobRecord
from swell.core.table import JobTable, allowed
from swell.model.cluster import Cluster
from swell.model.coding import decoder, encode
from swell.model.job import Elasticity, JobSpec, Phase
from swell.model.snapshot import FloatArray, IntArray
from swell.model.view import Story


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


_decode: Callable[[bytes], Saved] = decoder(Saved).decode


class HeadState:
    """Records, the columns made of them, and what was learnt. Only `apply` and `Core` change it."""

    def __init__(self, belief: Belief) -> None:
        self.now_s = 0.0
        self.cluster = Cluster()
        self.records: dict[str, JobRecord] = {}
        self.belief = belief
        self.costs = ChangeCosts()
        self.num_stale = 0  #: reports about a generation, or a job, that is no more
        self.planned_s = 0.0
        self.wake_s: float | None = None
        self.is_draining = False
        self.policy = ""  #: empty: the one the core was made with
        self.table = JobTable(gang_sizes(0))
        self.stories: list[tuple[str, Story]] = []  #: of this turn; drained by whoever keeps them
        self.ended: list[JobRecord] = []  #: of this turn; the head forgets them
        self._dirty: set[str] = set()

    # ------------------------------------------------------------ what `apply` uses
    def touch(self, record: JobRecord) -> None:
        """The record has changed: its row is due."""
        self._dirty.add(record.id)

    def explain(self, record: JobRecord, code: str, text: str) -> None:
        """Why the job has what it has, from now on; also a line of its story."""
        record.reason_code, record.reason = code, text
        self.tell(record, code, text)

    def tell(self, record: JobRecord, code: str, text: str) -> None:
        """Add a line to the job's story."""
        self.stories.append((record.id, Story(at_s=self.now_s, code=code, text=text)))

    def end(self, record: JobRecord, phase: Phase, code: str, text: str, at_s: float | None = None) -> None:
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
        record.settle(())
        record.note_size(record.finished_s, 0)
        self.explain(record, code, text)
        self.ended.append(record)
        self.touch(record)

    def set_rate(self, record: JobRecord, num_workers: int) -> None:
        """Progress from now on is believed to be that of so many workers."""
        record.rate_per_s = float(self.rates(record, np.array([num_workers]))[0]) if num_workers else 0.0
        self.touch(record)

    def rates(self, record: JobRecord, sizes: IntArray) -> FloatArray:
        return self.belief.rates_per_s(record.id, sizes)

    # ------------------------------------------------------------ what `Core` uses
    def sizes_of(self, spec: JobSpec) -> IntArray:
        """Worker counts that the job may have on this cluster; empty if there is none."""
        return job_sizes(spec, self.cluster.num_devices)

    def write_rows(self) -> None:
        """Bring the columns up to date with the records that changed; forget the jobs that ended."""
        for job_id in sorted(self._dirty):
            record = self.records[job_id]
            if record.is_plannable:
                self._write_row(record)
            else:
                self.table.remove(job_id)
            if record.phase.is_end:
                del self.records[job_id]
                self.belief.forget(job_id)
        self._dirty.clear()

    def set_cluster(self, cluster: Cluster) -> None:
        self.cluster = cluster
        sizes = gang_sizes(cluster.num_devices)
        if not np.array_equal(sizes, self.table.sizes):
            self.table = JobTable(sizes)
            self._dirty.update(self.records)

    def _write_row(self, record: JobRecord) -> None:
        sizes = self.table.sizes
        may_have = np.isin(sizes, self.sizes_of(record.spec))
        rates = np.where(may_have, self.rates(record, sizes), 0.0)
        self.table.write(record, rates)

    def save(self) -> bytes:
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
        )
        return encode(saved)

    def load(self, data: bytes) -> None:
        saved = _decode(data)
        self.now_s, self.costs, self.num_stale = saved.now_s, saved.costs, saved.num_stale
        self.planned_s, self.wake_s = saved.planned_s, saved.wake_s
        self.is_draining, self.policy = saved.is_draining, saved.policy
        self.belief.restore(saved.belief)
        self.records = {record.id: record for record in saved.records}
        self.cluster = saved.cluster
        self.table = JobTable(gang_sizes(saved.cluster.num_devices))
        for job_id in saved.rows:
            self._write_row(self.records[job_id])


def job_sizes(spec: JobSpec, num_devices: int) -> IntArray:
    """Worker counts that a job may have on so many devices; empty if there is none."""
    sizes = gang_sizes(num_devices // spec.devices_per_worker)
    may_have = allowed(sizes, spec.min_workers, spec.max_workers)
    may_have &= sizes * spec.devices_per_worker <= num_devices
    if spec.elasticity is Elasticity.LIVE:
        may_have &= sizes <= spec.global_batch  # a worker without samples would be of no use
    return sizes[may_have]


def gang_sizes(num_devices: int) -> IntArray:
    """Powers of two up to the cluster's size: only these fill buddy blocks (ElasticFlow, section 4.3)."""
    return 2 ** np.arange(max(1, num_devices.bit_length()), dtype=np.int64)
