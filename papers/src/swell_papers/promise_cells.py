"""One policy on one log: what came of it, remembered for as long as neither program nor input changes."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from swell.core.platform_core import PlatformCore
from swell.model.job import AfterRefusal
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.metrics import metrics_of
from swell.sim.profiles.load import load
from swell.sim.profiles.profile_set import ProfileSet
from swell.sim.simulate import Scenario, simulate
from swell.sim.traces.workload import Workload
from swell_papers.program_digest import digest_of, program_digest
from swell_papers.promise_inputs import PromiseInput
from swell_papers.variants import variant_core

T = TypeVar("T")


class Cell(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is run."""

    input: str
    policy: str
    refused: AfterRefusal = AfterRefusal.END

    @property
    def label(self) -> str:
        """The policy, and what becomes of jobs that it refuses."""
        return (
            self.policy
            if self.refused is AfterRefusal.END
            else f"{self.policy} --refused {self.refused.value}"
        )


class CellOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it; `met` is None for a run that took too long and was cut off."""

    met: float | None  #: deadline satisfaction
    met_device_h: float = 0.0  #: device-hours that the jobs take on one device each that met their deadlines
    num_jobs: int
    admitted: int = 0
    admitted_late: int = 0
    met_unpromised: int = 0
    cpu_s: float

    @property
    def is_cut(self) -> bool:
        return self.met is None


class _TooSlow(Exception):
    """The run has taken as long as it may."""


@dataclass(frozen=True, kw_only=True)
class CellFolder:
    """A folder with a file for the outcome of each cell."""

    data: Path
    folder: Path
    seed: int = 0

    def file(self, cell: msgspec.Struct, on: PromiseInput, policy: str | None = None) -> Path:
        return self.folder / file_name(cell, on, self.data, self.seed, policy)


@dataclass(frozen=True, kw_only=True)
class Cells(CellFolder):
    """Runs cells, or remembers them.

    Args:
        is_fresh: remember nothing from before.
    """

    is_fresh: bool = False

    def known(self, cell: Cell, on: PromiseInput, limit_s: float) -> CellOutcome | None:
        """What is remembered of it; one that was cut off counts only if it may take no longer now."""
        outcome = None if self.is_fresh else recall(self.file(cell, on, cell.policy), CellOutcome)
        return None if outcome is not None and outcome.is_cut and outcome.cpu_s < limit_s else outcome

    def run(self, cell: Cell, on: PromiseInput, limit_s: float) -> CellOutcome:
        """Simulate for so many seconds of CPU at most, and remember it. Raises InvalidInput, OSError."""
        profiles, workload = inputs_of(on, self.data, self.seed)
        nodes, devices = on.cluster
        conditions = Conditions(
            nodes=nodes,
            devices_per_node=devices,
            seed=self.seed,
            refused=cell.refused,
        )
        outcome = _outcome(cell.policy, set_up(workload, profiles, conditions), limit_s)
        remember(self.file(cell, on, cell.policy), outcome)
        return outcome


def _outcome(policy: str, scenario: Scenario, limit_s: float) -> CellOutcome:
    begun_s = time.process_time()

    def watch(core: PlatformCore) -> None:
        if time.process_time() - begun_s > limit_s:
            raise _TooSlow

    try:
        run = simulate(variant_core(policy, SETTINGS), scenario, listen=watch, with_offers=False)
    except _TooSlow:
        return CellOutcome(met=None, num_jobs=len(scenario.jobs), cpu_s=limit_s)
    metrics = metrics_of(run)
    return CellOutcome(
        met=metrics.deadline_satisfaction,
        met_device_h=metrics.met_device_h,
        num_jobs=len(scenario.jobs),
        admitted=metrics.admitted,
        admitted_late=metrics.admitted_late,
        met_unpromised=metrics.met_unpromised,
        cpu_s=time.process_time() - begun_s,
    )


def inputs_of(on: PromiseInput, data: Path, seed: int) -> tuple[ProfileSet, Workload]:
    """Read once. Raises TraceError, OSError."""
    return _profiles(str(data / on.profiles)), _workload(on, data, seed)


def file_name(
    cell: msgspec.Struct, on: PromiseInput, data: Path, seed: int, policy: str | None = None
) -> str:
    """Name of the file that keeps a cell's outcome; it changes when the program or the input does.

    Args:
        policy: the one that the cell runs; other policies may change. None: none may.
    """
    what = msgspec.json.encode((cell, on.cluster, on.profiles, seed)).decode()
    files = (digest_of(data / name) for name in on.files)
    key = hashlib.sha256("\n".join([program_digest(policy), what, *files]).encode()).hexdigest()
    return f"{key[:24]}.json"


def recall(file: Path, kind: type[T]) -> T | None:
    """Return the outcome that this file keeps; None: it is not there."""
    return msgspec.json.decode(file.read_bytes(), type=kind) if file.exists() else None


def remember(file: Path, outcome: msgspec.Struct) -> None:
    """Keep an outcome. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.encode(outcome))


@cache
def _profiles(folder: str) -> ProfileSet:
    return load(folder)


@cache
def _workload(on: PromiseInput, data: Path, seed: int) -> Workload:
    return on.workload(data, _profiles(str(data / on.profiles)), seed)
