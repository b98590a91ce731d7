"""Policies, placers and a belief that are simple enough to be judged by eye, and a core made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.core.core import Core
from swell.core.core_settings import CoreSettings
from swell.core.planner import Planner
from swell.model.cluster import Cluster
from swell.model.job import EndCondition, JobClass, JobSpec, Profile
from swell.model.node import Node
from swell.model.options import NO_OPTION
from swell.model.plan import Allocation, Placement, PlanForecast, Refusal
from swell.model.snapshot import STRICT, Snapshot
from swell.placement.best_fit import BestFitPlacer
from swell.policies.policy import Policy
from swell.throughput.belief import FittedBelief
from swell.throughput.curve import SCALING_EXPONENT
from swell.throughput.learnt import UNPROFILED, Learnt, Unprofiled

#: What one worker does, and how it scales: the belief of `PowerBelief`.
STEPS_PER_S = 10.0


@dataclass(frozen=True, slots=True)
class WrittenAccount:
    """An account that was written at once."""

    finish_s: FloatArray
    codes: Sequence[str]
    texts: Sequence[str]

    @property
    def forecast(self) -> PlanForecast:
        return PlanForecast(np.full_like(self.finish_s, np.nan), self.finish_s)

    def text(self, row: int) -> str:
        return self.texts[row]


class PowerSpeed(Unprofiled, kw_only=True):
    """w workers make 10 w**0.8 steps a second, times a factor."""

    factor: float = 1.0

    def rates_per_s(self, workers: IntArray, hosts: IntArray | None = None) -> FloatArray:
        return STEPS_PER_S * self.factor * workers.astype(float) ** SCALING_EXPONENT

    def rate_per_s(self, num_workers: int, num_hosts: int = 1) -> float:
        return float(self.rates_per_s(np.array([num_workers]))[0])


class PowerBelief(FittedBelief):
    """w workers make 10 w**0.8 steps a second, times what the job's latest report says about that."""

    margins = np.full(1, 0.05)

    def __init__(self) -> None:
        super().__init__()
        self._factors: dict[str, float] = {}

    def learn_profile(self, job_id: str, spec: JobSpec, profile: Profile) -> None:
        self._factors[job_id] = 1.0

    def learn_rate(
        self,
        job_id: str,
        num_workers: int,
        step_s: float,
        num_steps: int,
        global_batch: int | None = None,
        num_hosts: int = 1,
    ) -> None:
        self._factors[job_id] = 1.0 / (step_s * STEPS_PER_S * num_workers**SCALING_EXPONENT)

    def of(self, job_id: str) -> Learnt:
        return PowerSpeed(curve=UNPROFILED.curve, factor=self._factors.get(job_id, 1.0))

    def forget(self, job_id: str) -> None:
        self._factors.pop(job_id, None)

    def state(self) -> bytes:
        return msgspec.json.encode(self._factors)

    def restore(self, state: bytes) -> None:
        self._factors = msgspec.json.decode(state)


class InTurns(Policy):
    """Strict jobs whose deadline can be met alone are promised it; sizes double in turns while they fit."""

    name = "in_turns"
    makes_promises = True

    def decide(self, snapshot: Snapshot) -> Allocation:
        refusals = self._refusals(snapshot)
        rows = [row for row in _by_arrival(snapshot) if row not in refusals]
        workers = np.zeros(snapshot.num_jobs, dtype=np.int64)
        free = snapshot.num_devices
        for size in np.unique(snapshot.options.workers):
            for row in rows:
                if size not in _sizes(snapshot, row):
                    continue
                more = int(size - workers[row]) * int(snapshot.devices_per_worker[row])
                if more <= free:
                    free -= more
                    workers[row] = size
        return allocation_of(snapshot, workers, refusals=refusals)

    @staticmethod
    def _refusals(snapshot: Snapshot) -> dict[int, Refusal]:
        best_rate = _best_rate(snapshot)
        finish_s = snapshot.now_s + snapshot.remaining_steps / best_rate
        is_hopeless = snapshot.is_undecided & (finish_s > snapshot.deadline_s)
        return {int(row): Refusal(earliest_deadline_s=None, text="no") for row in np.flatnonzero(is_hopeless)}


class Watching(InTurns):
    """Remembers what it was shown last."""

    counts_quotas = True  # no more than others do; but it is asked once

    shown: list[Snapshot] = []

    def decide(self, snapshot: Snapshot) -> Allocation:
        self.shown = [snapshot]
        return super().decide(snapshot)


class Restless(Policy):
    """Wants other sizes each second, each chosen by arithmetic on the snapshot alone: gangs never rest."""

    name = "restless"
    makes_promises = True

    def decide(self, snapshot: Snapshot) -> Allocation:
        workers = np.zeros(snapshot.num_jobs, dtype=np.int64)
        free = snapshot.num_devices
        for turn, row in enumerate(_by_arrival(snapshot)):
            may_have = _sizes(snapshot, row)
            fitting = [0, *(int(s) for s in may_have if s * snapshot.devices_per_worker[row] <= free)]
            workers[row] = fitting[(int(snapshot.now_s) * 7 + turn * 3) % len(fitting)]
            free -= int(workers[row] * snapshot.devices_per_worker[row])
        floor = np.where(snapshot.is_promised | (np.arange(len(workers)) % 2 == 0), workers, 0)
        return allocation_of(snapshot, workers, floor=floor, wake_s=snapshot.now_s + 1.0)


class Fixed(Policy):
    """Gives each job what `wanted` says, as long as devices last; all of it as floor if `is_floor`."""

    name = "fixed"
    makes_promises = True

    wanted: dict[str, int] = msgspec.field(default_factory=dict)
    is_floor: bool = True

    def decide(self, snapshot: Snapshot) -> Allocation:
        workers = np.array([self.wanted.get(job_id, 0) for job_id in snapshot.job_ids], dtype=np.int64)
        return allocation_of(snapshot, workers, floor=workers if self.is_floor else None)


def allocation_of(
    snapshot: Snapshot,
    workers: IntArray,
    floor: IntArray | None = None,
    refusals: Mapping[int, Refusal] | None = None,
    wake_s: float = math.inf,
) -> Allocation:
    """An allocation of these sizes with plain reasons and estimates."""
    return Allocation(
        options=snapshot.options,
        option=exact_option(snapshot, workers),
        floor=np.zeros_like(workers) if floor is None else floor,
        refusals=refusals or {},
        wake_s=wake_s,
        account=WrittenAccount(
            snapshot.now_s
            + np.where(snapshot.held_workers == 0, snapshot.start_cost_s, 0.0)
            + snapshot.remaining_steps / _best_rate(snapshot),
            ["given" if size else "waiting" for size in workers],
            [f"is given {size}" for size in workers],
        ),
    )


def exact_option(snapshot: Snapshot, workers: IntArray) -> IntArray:
    """The option of each job of just these sizes; those of none are to wait."""
    option = snapshot.options.at(workers)
    return np.where(snapshot.options.workers_of(option) == workers, option, NO_OPTION)


def _sizes(snapshot: Snapshot, row: int) -> list[int]:
    options = snapshot.options
    sizes: list[int] = options.workers[options.starts[row] : options.starts[row + 1]].tolist()
    return sizes


def _best_rate(snapshot: Snapshot) -> FloatArray:
    best = np.full(snapshot.num_jobs, 1e-9)
    np.maximum.at(best, snapshot.options.rows, snapshot.options.rate_per_s)
    return best


def _by_arrival(snapshot: Snapshot) -> list[int]:
    """Rows: promises, then by class, arrival and id."""
    return sorted(
        range(snapshot.num_jobs),
        key=lambda row: (
            snapshot.job_class[row] != STRICT,
            snapshot.job_class[row],
            snapshot.submitted_s[row],
            snapshot.job_ids[row],
        ),
    )


def everybody(wanted: Mapping[str, int], held: Mapping[str, tuple[str, ...]]) -> Mapping[str, int]:
    """Which job is to have how many devices, those that keep their number first."""
    numbers = {job: len(held[job]) for job in sorted(held.keys() - wanted.keys())} | dict(wanted)
    return {job: num for job, num in numbers.items() if num}


def placement_of(
    placed: Mapping[str, tuple[str, ...]], wanted: Mapping[str, int], held: Mapping[str, tuple[str, ...]]
) -> Placement:
    """What differs between where all are to be and where they are; `wanted` is of everybody."""
    jobs = [job for job in [*held, *placed] if placed.get(job) is not held.get(job)]
    changes = {job: placed.get(job, ()) for job in jobs}
    return Placement(changes=changes, unplaced=frozenset(wanted.keys() - placed.keys()))


class FirstFree(BestFitPlacer):
    """Jobs keep what they hold where they can; what they lack comes from the front of the cluster."""

    def place(
        self,
        cluster: Cluster,
        wanted: Mapping[str, int],
        held: Mapping[str, tuple[str, ...]],
        pinned: frozenset[str],
        owned_only: frozenset[str] = frozenset(),
        barred: Mapping[str, frozenset[str]] = MappingProxyType({}),
        staying: frozenset[str] = frozenset(),
        each: Mapping[str, int] = MappingProxyType({}),
        slow: frozenset[str] = frozenset(),
    ) -> Placement:
        wanted = everybody(wanted, held)
        there, may_have = cluster.devices, permission(cluster, owned_only, barred)
        taken = {device for job in pinned for device in held.get(job, ())}
        placed = {job: held[job] for job in wanted if job in pinned and held.get(job)}
        kept = {job: self._kept(job, num, held, there) for job, num in wanted.items() if job not in placed}
        taken.update(device for devices in kept.values() for device in devices)
        for job, devices in kept.items():
            free = [device for device in there if device not in taken and may_have(job, device)]
            missing = wanted[job] - len(devices)
            if missing <= len(free):
                placed[job] = devices + tuple(free[:missing])
                taken.update(free[:missing])
            else:
                taken.difference_update(devices)
        return placement_of(placed, wanted, held)

    @staticmethod
    def _kept(
        job: str, num: int, held: Mapping[str, tuple[str, ...]], there: tuple[str, ...]
    ) -> tuple[str, ...]:
        return tuple(device for device in held.get(job, ()) if device in there)[:num]


class Shuffler(FirstFree):
    """Ignores what jobs hold unless they are pinned: gangs are sent to each other's places.

    The job that comes first gets the last devices, so that two jobs that grow want what the other one has.
    """

    def place(
        self,
        cluster: Cluster,
        wanted: Mapping[str, int],
        held: Mapping[str, tuple[str, ...]],
        pinned: frozenset[str],
        owned_only: frozenset[str] = frozenset(),
        barred: Mapping[str, frozenset[str]] = MappingProxyType({}),
        staying: frozenset[str] = frozenset(),
        each: Mapping[str, int] = MappingProxyType({}),
        slow: frozenset[str] = frozenset(),
    ) -> Placement:
        wanted = everybody(wanted, held)
        taken = {device for job in pinned for device in held.get(job, ())}
        placed = {job: held[job] for job in wanted if job in pinned and held.get(job)}
        free = [device for device in reversed(cluster.devices) if device not in taken]
        may_have = permission(cluster, owned_only, barred)
        for job, num in wanted.items():
            allowed = [device for device in free if may_have(job, device)][:num]
            if job not in placed and num <= len(allowed):
                placed[job] = tuple(allowed)
                free = [device for device in free if device not in allowed]
        return placement_of(placed, wanted, held)


def permission(
    cluster: Cluster, owned_only: frozenset[str], barred: Mapping[str, frozenset[str]]
) -> Callable[[str, str], bool]:
    """Whether a job may have a device."""
    borrowed = {device for node in cluster.nodes if node.is_borrowed for device in node.devices}
    name_of = {device: node.name for node in cluster.nodes for device in node.devices}

    def may_have(job: str, device: str) -> bool:
        is_barred = name_of[device] in barred.get(job, ())
        return not (job in owned_only and device in borrowed) and not is_barred

    return may_have


def node(name: str = "n0", num_devices: int = 4) -> Node:
    return Node(name=name, devices=tuple(f"{name}.{i}" for i in range(num_devices)), kind="fake")


def spec(steps: int | None = 100, **fields: Any) -> JobSpec:
    """A live job of so many steps, unless `fields` say otherwise."""
    plain: dict[str, Any] = {"name": "job", "entry": "/job.py", "workdir": "/", "global_batch": 64}
    return JobSpec(**{**plain, "end": EndCondition(steps=steps), **fields})


def strict(deadline_s: float, steps: int = 100) -> JobSpec:
    return spec(steps, job_class=JobClass.STRICT, deadline_s=deadline_s)


def profile(samples_per_epoch: int = 640) -> Profile:
    return Profile(
        device_kind="fake",
        compute_s={64: 0.1},
        allreduce_s={1: 0.0, 2: 0.01},
        grad_bytes=1_000_000,
        state_bytes=3_000_000,
        samples_per_epoch=samples_per_epoch,
        start_s=0.5,
    )


def core_of(
    policy: Policy | None = None,
    placer: BestFitPlacer | None = None,
    belief: Callable[[], FittedBelief] = PowerBelief,
    settings: CoreSettings | None = None,
) -> Core:
    others = {other.name: other for other in (InTurns(), Restless())}
    planner = Planner(policy or InTurns(), placer or FirstFree(), others)
    return Core(planner, belief(), settings or CoreSettings(min_hold_s=2.0, report_plan_s=1.0))
