"""Who gets how much, where, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swell.model.snapshot import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job has what it has. `code` is for programs, `text` for people, in one sentence."""

    code: str  #: promised, boosted, waiting, held, refused, profiling, at_risk, ...
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A strict job whose deadline cannot be promised."""

    earliest_deadline_s: float | None  #: submitted now with this one it would be admitted; None: never
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A policy's answer: rows are those of the snapshot."""

    workers: IntArray  #: (J,) 0 or one of the snapshot's sizes
    floor: IntArray  #: (J,) the part of `workers` that a promise needs now; <= workers
    finish_s: FloatArray  #: (J,) estimated, with what the policy means to give; always finite
    reasons: tuple[Reason, ...]  #: (J,)
    refusals: Mapping[int, Refusal]  #: row of an undecided job -> why not; the others are promised
    wake_s: float  #: ask again then, if nothing happens before; inf: no need


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Which devices."""

    devices: Mapping[str, tuple[str, ...]]  #: job id -> its devices, in rank order; only jobs that got any
    moved: frozenset[str]  #: jobs that were moved to make a block whole for another


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What one job should have. No devices: it should wait."""

    devices: tuple[str, ...]
    finish_s: float
    reason: Reason
    refusal: Refusal | None = None
    expected_gain_s: float = 0.0  #: of the change to these devices while running, its cost taken off
    expected_cost_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Allocation and placement and a reason for every job of the snapshot, placed or not."""

    jobs: Mapping[str, JobPlan]
    wake_s: float
    makes_promises: bool  #: strict jobs that were not refused have been promised their deadlines
