"""What is true of a job on another kind of device than that of its profile."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from swell.model.job import BatchProfile, Profile
from swell.sim.true_speed import TrueBatches, TrueSpeed


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTruth:
    """How fast a job really goes on one kind of device, and what a trial run there shows."""

    profile: Profile
    speed: TrueSpeed
    batches: TrueBatches | None = None

    def times(self, factor: float, kind: str) -> KindTruth:
        """The same job on a kind whose devices are so much faster, the network included."""
        profile = msgspec.structs.replace(self.profile, device_kind=kind)
        if factor == 1.0:
            return KindTruth(profile=profile, speed=self.speed, batches=self.batches)
        batches = None if self.batches is None else FasterBatches(self.batches, factor)
        return KindTruth(profile=_faster(profile, factor), speed=self.speed.times(factor), batches=batches)


@dataclass(frozen=True, slots=True)
class FasterBatches:
    """Implements `TrueBatches` for devices that are `factor` times as fast."""

    slower: TrueBatches
    factor: float

    def rate_per_s(self, workers: int, global_batch: int, steps: float) -> float:
        return self.factor * self.slower.rate_per_s(workers, global_batch, steps)

    def noise_scale(self, global_batch: int, steps: float) -> float:
        return self.slower.noise_scale(global_batch, steps)

    def epoch_end(self, steps: float) -> float:
        return self.slower.epoch_end(steps)


def _faster(profile: Profile, factor: float) -> Profile:
    def times(by_key: dict[int, float]) -> dict[int, float]:
        return {key: time_s / factor for key, time_s in by_key.items()}

    batches = profile.batches
    if batches is not None:
        step_s = {batch: times(by_workers) for batch, by_workers in batches.step_s.items()}
        batches = BatchProfile(step_s=step_s, noise_scale=batches.noise_scale)
    return msgspec.structs.replace(
        profile,
        compute_s=times(profile.compute_s),
        allreduce_s=times(profile.allreduce_s),
        group_step_s=times(profile.group_step_s),
        crossing_s={hosts: times(by_workers) for hosts, by_workers in profile.crossing_s.items()},
        batches=batches,
    )
