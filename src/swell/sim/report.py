"""What a simulated run prints: one object a policy, and a row a job."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import msgspec

from swell.model.job import AfterRefusal
from swell.model.quota import Quota
from swell.model.share_mode import ShareMode
from swell.sim.faults import FaultRates
from swell.sim.kind_nodes import KindNodes
from swell.sim.metrics import Metrics
from swell.sim.outcome import JobOutcome
from swell.sim.segments import holdings, pauses, starts


class Shape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cluster of equal nodes, or of several kinds of them; 0x0: borrowed nodes only."""

    nodes: int
    devices_per_node: int
    devices: int
    racks: int = 1  #: of equally many nodes
    islands: str = ""  #: of a node's devices, such as `4/2`; empty: all are alike
    kinds: tuple[KindNodes, ...] = ()  #: where there are several; nodes are numbered in this order

    def __str__(self) -> str:
        if self.kinds:
            return ",".join(map(str, self.kinds))
        racks = f"{self.racks}x" if self.racks > 1 else ""
        islands = f"/{self.islands}" if self.islands else ""
        return f"{racks}{self.nodes // self.racks}x{self.devices_per_node}{islands}"


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """Against what truth a figure was simulated: with these and the same version it comes out again."""

    trace: str
    jobs: int
    left_out: int  #: of the trace's, because something that a simulation needs could not be filled
    filled: tuple[str, ...]
    profiles: str
    resize_cost: str
    noise: float
    profile_error: float
    node_mtbf_s: float | None
    node_mttr_s: float | None
    fault_rates: FaultRates
    seed: int
    #: Share of deadlines that no schedule could beat, had it known all jobs, if asked for: `sim.bound`.
    offline_bound: float | None
    settings: dict[str, float | str]  #: of the head
    version: str
    pool: str | None = None  #: log of the nodes that were borrowed
    refused: AfterRefusal = AfterRefusal.END  #: what became of strict jobs that were refused
    cores: float | None = None  #: of each owned node, which jobs share; None: each device had its own
    cpu_shares: ShareMode | None = None  #: how they did
    quotas: dict[str, Quota] = {}  #: of devices, by tenant


class PolicyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy did with a log."""

    policy: str
    cluster: Shape
    truth: Truth
    metrics: Metrics


#: Fields of an outcome that are no column as they are.
NOT_LISTED = ("sizes", "segments")
#: Columns of `--jobs`, one field of the outcome each, and those that are worked out.
COLUMNS = (
    "policy",
    *(name for name in JobOutcome.__struct_fields__ if name not in NOT_LISTED),
    "jct_s",
    "sizes",
    "devices",
    "starts",
    "pauses",
)


def write_jobs(file: Path, runs: Iterable[tuple[str, Iterable[JobOutcome]]]) -> None:
    """A CSV with a row for each policy and job. Raises OSError."""
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(COLUMNS)
        for policy, jobs in runs:
            writer.writerows(_row(policy, job) for job in jobs)


def _row(policy: str, job: JobOutcome) -> list[object]:
    values = msgspec.structs.asdict(job)
    values |= {"policy": policy, "jct_s": job.jct_s}
    values["sizes"] = " ".join(f"{at_s:.3f}:{size}" for at_s, size in job.sizes)
    values["devices"] = " ".join(f"{at_s:.3f}:{'+'.join(held)}" for at_s, held in holdings(job.segments))
    values["starts"] = " ".join(f"{at_s:.3f}:{first_s:.3f}" for at_s, first_s in starts(job.segments))
    values["pauses"] = " ".join(f"{at_s:.3f}:{pause_s:.3f}" for at_s, pause_s in pauses(job.segments))
    return ["" if values[name] is None else values[name] for name in COLUMNS]
