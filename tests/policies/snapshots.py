"""Builders: a job in one line, a snapshot from a list of jobs, and strategies for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypedDict, Unpack

import numpy as np
from hypothesis import strategies as st
from tests.examples import pick

from swell.model.options import Options
from swell.model.plan import Allocation
from swell.model.snapshot import BEST_EFFORT, SOFT, STRICT, Learning, Snapshot

NOW_S = 1_000.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """Times are seconds from now."""

    id: str
    rates: Mapping[int, float]  #: workers -> steps/s
    steps: float
    job_class: int = STRICT
    deadline: float = np.inf
    submitted: float = -10.0
    devices_per_worker: int = 1
    held: int = 0
    is_pinned: bool = False
    idle: float = 0.0
    done: float = 0.0
    attained: float = 0.0  #: device-seconds
    changed: float = -np.inf
    requested: int = 1
    resize_cost: float = 0.0
    most_resize_cost: float | None = None  #: upper, to any size; as `resize_cost` if None
    growth_cost: float | None = None  #: as `resize_cost` if None
    shrink_cost: float | None = None  #: likewise
    batch: int = 64  #: samples of a step
    start_cost: float = 0.0
    most_start_cost: float | None = None  #: upper, at any size; as `start_cost` if None
    start_costs: Mapping[int, float] | None = None  #: by workers, upper; as `most_start_cost` if None
    margins: Mapping[int, float] | None = None  #: by workers; None: the snapshot's
    resize_costs: Mapping[int, float] | None = None  #: by workers, upper; as `most_resize_cost` if None
    promised: bool = False
    most: int = 1_000  #: workers that it has ever had
    changes: int = 0
    tenant: int = 0
    priority: int = 0
    weight: float = 1.0
    open: Mapping[int, tuple[int, float]] | None = None  #: workers -> (best batch, steps/s at it)
    on_one: float | None = None  #: steps/s of one worker at its best batch; None: as `rates` or `open` say
    node: int = 0  #: where it is if it holds devices; -1: on several nodes
    value: float = np.nan  #: of its evaluation function; learning lowers it
    value_at: float = np.nan
    rises: bool = False
    cpu: float = np.nan  #: seconds that it has used
    share: float = np.nan

    @property
    def is_undecided(self) -> bool:
        return self.job_class == STRICT and not self.promised


class MoreOfJob(TypedDict, total=False):
    """What else a job in one line may say of itself; as in `Job`."""

    submitted: float
    devices_per_worker: int
    held: int
    done: float
    attained: float
    changed: float
    requested: int
    resize_cost: float
    most_resize_cost: float | None
    growth_cost: float | None
    shrink_cost: float | None
    batch: int
    start_cost: float
    most_start_cost: float | None
    start_costs: Mapping[int, float] | None
    margins: Mapping[int, float] | None
    resize_costs: Mapping[int, float] | None
    most: int
    changes: int
    tenant: int
    priority: int
    weight: float
    open: Mapping[int, tuple[int, float]] | None
    on_one: float | None
    node: int
    value: float
    value_at: float
    rises: bool
    cpu: float
    share: float


def strict(
    id: str, rates: Mapping[int, float], steps: float, deadline: float, **more: Unpack[MoreOfJob]
) -> Job:
    return Job(id=id, rates=rates, steps=steps, deadline=deadline, **more)


def promised(
    id: str, rates: Mapping[int, float], steps: float, deadline: float, **more: Unpack[MoreOfJob]
) -> Job:
    return Job(id=id, rates=rates, steps=steps, deadline=deadline, promised=True, **more)


def soft(
    id: str, rates: Mapping[int, float], steps: float, deadline: float, **more: Unpack[MoreOfJob]
) -> Job:
    return Job(id=id, rates=rates, steps=steps, deadline=deadline, job_class=SOFT, **more)


def best_effort(id: str, rates: Mapping[int, float], steps: float, **more: Unpack[MoreOfJob]) -> Job:
    return Job(id=id, rates=rates, steps=steps, job_class=BEST_EFFORT, **more)


def in_fine_steps(job: Job) -> Job:
    """The same job in steps of a thousandth, without three of them: so it just fits where its work just fits.

    Plans add one, lose one where a gang changes, and have a moment to spare.
    """
    rates = {size: 1000.0 * rate for size, rate in job.rates.items()}
    return replace(job, rates=rates, steps=1000.0 * job.steps - 3.0)


def snapshot(
    jobs: Sequence[Job],
    num_devices: int,
    sizes: Sequence[int] = (1, 2, 4, 8),
    *,
    now_s: float = NOW_S,
    margin_share: float = 0.0,
    min_hold_s: float = 0.0,
    num_tenants: int | None = None,
    opens_batches: bool = False,
    num_borrowed: int = 0,
    cores: float = 2.0,
    num_whole: int | None = None,
) -> Snapshot:
    """`num_tenants` None: those that have jobs. `opens_batches`: for a policy whose domain does.

    `num_whole`: devices that can be in use while each worker has a core of its own; None: all.
    """

    def column(values: Sequence[float], kind: type[float] | type[np.int64]) -> np.ndarray:
        array: np.ndarray = np.array(values, dtype=kind)
        array.setflags(write=False)
        return array

    def most(job: Job) -> int:
        return num_devices - num_borrowed if job.job_class == STRICT else num_devices

    ways = [_ways(job, sizes, most(job), opens_batches) for job in jobs]
    pairs = [(job, way[0]) for job, run in zip(jobs, ways, strict=True) for way in run]
    return Snapshot(
        now_s=now_s,
        num_devices=num_devices,
        options=options_of(ways),
        option_start_s=column([_start_s(*pair) for pair in pairs], float),
        option_resize_s=column([_resize_s(*pair) for pair in pairs], float),
        one_worker_per_s=column([_on_one(job, opens_batches) for job in jobs], float),
        job_ids=tuple(job.id for job in jobs),
        job_class=column([job.job_class for job in jobs], np.int64),
        submitted_s=column([now_s + job.submitted for job in jobs], float),
        priority=column([job.priority for job in jobs], np.int64),
        weight=column([job.weight for job in jobs], float),
        deadline_s=column([now_s + job.deadline for job in jobs], float),
        remaining_steps=column([job.steps for job in jobs], float),
        done_steps=column([job.done for job in jobs], float),
        checkpoint_interval_s=column([0.0] * len(jobs), float),
        devices_per_worker=column([job.devices_per_worker for job in jobs], np.int64),
        requested_workers=column([job.requested for job in jobs], np.int64),
        tenant=column([job.tenant for job in jobs], np.int64),
        num_tenants=len({job.tenant for job in jobs}) if num_tenants is None else num_tenants,
        held_workers=column([job.held for job in jobs], np.int64),
        held_borrowed=np.zeros(len(jobs), dtype=np.int64),
        is_pinned=column([job.is_pinned for job in jobs], bool),
        idle_s=column([job.idle for job in jobs], float),
        most_workers=column([job.most for job in jobs], np.int64),
        must_shrink=np.zeros(len(jobs), dtype=bool),
        num_changes=column([job.changes for job in jobs], np.int64),
        changed_s=column([now_s + job.changed for job in jobs], float),
        attained_device_s=column([job.attained for job in jobs], float),
        growth_cost_s=column([_or(job.growth_cost, job.resize_cost) for job in jobs], float),
        shrink_cost_s=column([_or(job.shrink_cost, job.resize_cost) for job in jobs], float),
        samples_per_step=column([job.batch for job in jobs], np.int64),
        resize_wait_s=column([job.start_cost for job in jobs], float),
        expected_hold_s=column([np.inf for _ in jobs], float),
        start_cost_s=column([job.start_cost for job in jobs], float),
        is_promised=column([job.promised for job in jobs], bool),
        is_undecided=column([job.is_undecided for job in jobs], bool),
        option_margin_share=column([_margin(*pair, margin_share) for pair in pairs], float),
        min_hold_s=min_hold_s,
        num_borrowed=num_borrowed,
        learning=Learning(
            node=column([job.node if job.held else -1 for job in jobs], np.int64),
            node_names=tuple(str(node) for node in range(1 + max((job.node for job in jobs), default=0))),
            value=column([job.value for job in jobs], float),
            rises=column([job.rises for job in jobs], bool),
            value_s=column([now_s + job.value_at for job in jobs], float),
            cpu_s=column([job.cpu for job in jobs], float),
            share=column([job.share for job in jobs], float),
            cores=column([cores if job.held and job.node >= 0 else np.nan for job in jobs], float),
            num_whole=column([num_devices if num_whole is None else num_whole], np.int64),
        ),
    )


#: Workers, devices, global batch (0: the job's own), steps/s.
Way = tuple[int, int, int, float]


def options_of(ways: Sequence[Sequence[Way]]) -> Options:
    """One run of options a job."""
    flat = [way for run in ways for way in run]
    columns = [np.array([way[place] for way in flat], dtype=np.int64) for place in range(3)]
    rates, efficiency = np.array([way[3] for way in flat], dtype=float), np.ones(len(flat))
    starts = np.cumsum([0, *map(len, ways)])
    for column in (*columns, rates, efficiency, starts):
        column.setflags(write=False)
    workers, devices, global_batch = columns
    return Options(
        starts=starts,
        workers=workers,
        devices=devices,
        global_batch=global_batch,
        rate_per_s=rates,
        efficiency=efficiency,
    )


def _ways(job: Job, sizes: Sequence[int], num_devices: int, opens_batches: bool) -> list[Way]:
    """Those that fit."""
    pairs = (opens_batches and job.open) or {size: (0, rate) for size, rate in job.rates.items()}
    return [
        (size, size * job.devices_per_worker, *pairs[size])
        for size in sorted(sizes)
        if size in pairs and pairs[size][1] > 0.0 and size * job.devices_per_worker <= num_devices
    ]


def _on_one(job: Job, opens_batches: bool) -> float:
    """At the best batch, however wide the policy's batch is."""
    if job.on_one is not None:
        return job.on_one
    pairs = (opens_batches and job.open) or {size: (0, rate) for size, rate in job.rates.items()}
    return pairs[1][1] if 1 in pairs else 0.0


def _or(known_s: float | None, mean_s: float) -> float:
    return mean_s if known_s is None else known_s


def _start_s(job: Job, workers: int) -> float:
    most_s = _or(job.most_start_cost, job.start_cost)
    return most_s if job.start_costs is None else job.start_costs[workers]


def _resize_s(job: Job, workers: int) -> float:
    most_s = _or(job.most_resize_cost, job.resize_cost)
    return most_s if job.resize_costs is None else job.resize_costs[workers]


def _margin(job: Job, workers: int, margin_share: float) -> float:
    return margin_share if job.margins is None else job.margins[workers]


def _larger_batches(rates: Mapping[int, float], gain: float) -> dict[int, tuple[int, float]]:
    return {size: (64 * size, gain * rate) for size, rate in rates.items()}


#: Concave, linear, with a peak, with a hole, from two workers on, with a step that brings nothing.
CURVES = (
    {1: 1.0, 2: 1.5, 4: 2.0, 8: 2.2},
    {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0},
    {1: 2.0, 2: 3.0, 4: 2.5, 8: 1.0},
    {1: 1.0, 4: 3.0},
    {2: 1.0, 4: 1.8, 8: 3.0},
    {1: 1.0, 2: 1.0, 4: 2.0, 8: 2.0},
)


def _some_margins(rates: Mapping[int, float], share: float | None) -> dict[int, float] | None:
    """Every other size is known well; None: the snapshot's."""
    return None if share is None else {size: share * (place % 2) for place, size in enumerate(rates)}


@st.composite
def some_jobs(draw: st.DrawFn, most: int = 7, *, curves: Sequence[Mapping[int, float]] = CURVES) -> list[Job]:
    jobs, curve = [], st.sampled_from(curves)
    for number in range(draw(st.integers(0, most))):
        job_class = draw(pick(STRICT, STRICT, SOFT, BEST_EFFORT))
        rates = draw(curve)
        gain = draw(pick(None, None, 1.0, 1.5, 4.0))  #: of a larger batch; None: the batch is its own
        jobs.append(
            Job(
                id=f"job-{number}",
                rates=rates,
                steps=draw(st.integers(1, 60)),
                job_class=job_class,
                deadline=np.inf if job_class == BEST_EFFORT else draw(st.integers(1, 60)),
                submitted=-draw(st.integers(0, 5)),
                devices_per_worker=draw(pick(1, 1, 1, 2, 3)),
                held=draw(pick(0, 0, *rates)),
                resize_cost=draw(pick(0.0, 0.2)),
                most_resize_cost=draw(pick(None, 0.5)),
                start_cost=draw(pick(0.0, 0.5)),
                most_start_cost=draw(pick(None, 0.7)),
                promised=job_class == STRICT and draw(st.booleans()),
                changes=draw(pick(0, 3)),
                tenant=draw(st.integers(0, 2)),
                priority=draw(pick(0, 0, 0, 7, -1)),
                margins=_some_margins(rates, draw(pick(None, None, 0.05, 0.4))),
                open=None if gain is None else _larger_batches(rates, gain),
                node=draw(pick(0, 0, 0, 1, -1)),
                value=draw(pick(np.nan, -1e308, 0.0, 1e-3, 1.0, 1.0, 2.5, 1e308)),
                value_at=draw(pick(np.nan, 0.0, -1.0)),
                cpu=draw(pick(np.nan, 0.0, 1.0, 2.0, 40.0)),
                share=draw(pick(np.nan, 0.1, 1.0)),
            )
        )
    return jobs


@cache
def _some_of(num_devices: int) -> st.SearchStrategy[int]:
    return st.just(0) | st.integers(0, num_devices)


@st.composite
def with_a_newcomer(draw: st.DrawFn) -> list[Job]:
    """Just one of these jobs asks for a promise, and one at least has it."""
    others = [replace(job, promised=job.job_class == STRICT) for job in draw(some_jobs(most=4))]
    curves = st.sampled_from(CURVES)
    tenants = st.integers(0, 2)
    kept = promised(
        "kept", draw(curves), draw(st.integers(1, 60)), draw(st.integers(1, 60)), tenant=draw(tenants)
    )
    newcomer = strict(
        "newcomer",
        draw(curves),
        draw(st.integers(1, 60)),
        draw(st.integers(10, 100)),
        submitted=-draw(st.integers(0, 5)),
        devices_per_worker=draw(pick(1, 1, 1, 2, 3)),
        start_cost=draw(pick(0.0, 0.5)),
        tenant=draw(tenants),
    )
    return draw(st.permutations([*others, kept, newcomer]))


@st.composite
def snapshots(
    draw: st.DrawFn, opens_batches: bool = False, jobs: st.SearchStrategy[list[Job]] | None = None
) -> Snapshot:
    """`jobs` None: `some_jobs`."""
    num_devices = draw(st.integers(0, 12))
    return snapshot(
        draw(some_jobs() if jobs is None else jobs),
        num_devices,
        margin_share=draw(pick(0.0, 0.05, 0.3)),
        min_hold_s=draw(pick(0.0, 2.0)),
        opens_batches=opens_batches and draw(st.booleans()),
        num_borrowed=draw(_some_of(num_devices)),
    )


def permuted(view: Snapshot, order: Sequence[int]) -> Snapshot:
    """The same jobs in other rows."""
    rows = list(order)
    arrays = {
        name: getattr(view, name)[rows]
        for name in Snapshot.__dataclass_fields__
        if isinstance(getattr(view, name), np.ndarray) and not name.startswith("option_")
    }
    options = view.options
    columns = (options.workers, options.devices, options.global_batch, options.rate_per_s)
    runs = [slice(options.starts[row], options.starts[row + 1]) for row in rows]
    ways = [list(zip(*(column[run].tolist() for column in columns), strict=True)) for run in runs]
    kept = [at for run in runs for at in range(run.start, run.stop)]
    job_ids = tuple(view.job_ids[row] for row in rows)
    learning = None if view.learning is None else view.learning.of_rows(np.array(rows, dtype=np.int64))
    return replace(
        view,
        learning=learning,
        job_ids=job_ids,
        options=options_of(ways),
        option_start_s=view.option_start_s[kept],
        option_resize_s=view.option_resize_s[kept],
        option_margin_share=view.option_margin_share[kept],
        **arrays,
    )


def texts(answer: Allocation) -> list[str]:
    """(J,) what is said of each job."""
    return [answer.account.text(row) for row in range(len(answer.workers))]
