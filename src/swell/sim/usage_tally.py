"""What all gangs use together, kept up to date with those that change."""

from __future__ import annotations

from swell.sim.gang import Training


class UsageTally:
    """Sums over the gangs, in the order in which they were launched: so their rounding comes out again."""

    def __init__(self) -> None:
        self._devices: dict[str, int] = {}
        self._speedups: dict[str, float] = {}

    def note(self, training: Training) -> None:
        """The gang is new, or its devices or its rate have changed."""
        job = training.job
        self._devices[job.id] = len(training.devices)
        self._speedups[job.id] = training.rate_per_s / job.speed.one_device_rate_per_s

    def drop(self, job_id: str) -> None:
        """The gang is no more."""
        del self._devices[job_id], self._speedups[job_id]

    @property
    def num_devices(self) -> int:
        return sum(self._devices.values())

    @property
    def speedup(self) -> float:
        """Sum over jobs of rate / rate on one device (ElasticFlow, Eq. 8, times M)."""
        return sum(self._speedups.values())
