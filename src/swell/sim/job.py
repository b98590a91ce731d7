"""A job of a simulated world: what its user asks for, and what is true of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from swell.model.job import JobSpec, Profile
from swell.sim.change_cost import ChangeCost
from swell.sim.loss_curves import JobLoss
from swell.sim.true_speed import KindTruth, TrueBatches, TrueSpeed


@dataclass(frozen=True, slots=True, kw_only=True)
class SimJob:
    """What the head is told (`spec`, and on a trial run `profile`), and the truth that it is not told."""

    id: str
    submit_s: float
    spec: JobSpec
    profile: Profile
    speed: TrueSpeed
    batches: TrueBatches | None = None  #: of a job whose batch is open
    num_steps: int  #: that it really has to do; the spec's may be wrong
    dies_at_step: int | None = None  #: a buggy script raises there; 0: in its trial run
    cancel_s: float | None = None  #: its user gives it up then
    requested_devices: int | None = None  #: what a user of a scheduler without elasticity asked for
    model: str = ""
    cost: ChangeCost | None = None  #: of its own changes; None: the world's
    cores_per_worker: float = 1.0  #: that each worker uses if it gets them, > 0
    loss: JobLoss | None = None  #: what its steps do to its evaluation function; None: not told
    truths: Mapping[str, KindTruth] = field(default_factory=dict)  #: by kind of device; empty: all are alike

    def on(self, kind: str) -> SimJob:
        """The job as it is on this kind of device."""
        truth = self.truths.get(kind)
        if truth is not None:
            return replace(self, profile=truth.profile, speed=truth.speed, batches=truth.batches)
        if not self.spec.kinds:
            return self
        return replace(self, profile=msgspec.structs.replace(self.profile, device_kind=kind))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of device that it may have; an empty one is that of the first node."""
        return self.spec.kinds if self.spec.kinds and not self.spec.kind else (self.spec.kind,)

    @property
    def smallest_devices(self) -> int:
        return self.spec.min_workers * self.spec.devices_per_worker
