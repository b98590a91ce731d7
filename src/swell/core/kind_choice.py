"""The kind of device that a job gets which names several, or any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from swell.model.job import JobSpec
from swell.model.kind import ANY


class KindLoad(NamedTuple):
    """Devices of one kind, and how many of them are in use."""

    num_devices: int  #: of nodes that take work; 0 of a kind that was there once
    num_idle: int = 0  #: of these, without a job
    num_wanted: int = 0  #: that waiting jobs need at least

    def fits(self, num_devices: int) -> bool:
        """Whether so many devices are idle that no waiting job needs."""
        return self.num_idle - self.num_wanted >= num_devices

    @property
    def crowd(self) -> float:
        """Devices that are held or wanted, for each that there is."""
        held = self.num_devices - self.num_idle
        return (held + self.num_wanted) / max(self.num_devices, 1)


def named_kinds(kinds: tuple[str, ...], there: Sequence[str]) -> tuple[str, ...]:
    """Those of the kinds that a job names which a platform has, or has had; `any`: all that it has."""
    if ANY in kinds and ANY not in there:
        return tuple(sorted(there))
    return tuple(kind for kind in kinds if kind in there)


def smallest_gang(spec: JobSpec, least_workers: int = 1) -> int:
    """Devices of the job's smallest gang, where memory asks for so many workers at least."""
    return max(spec.min_workers, least_workers) * spec.devices_per_worker


def choose(kinds: Sequence[str], spec: JobSpec, loads: Mapping[str, KindLoad]) -> str:
    """The first of the kinds on which the smallest gang fits now; else the one where least is wanted.

    Args:
        kinds: to choose from, at least one.
        loads: of each of them.
    """
    least = smallest_gang(spec)
    free = next((kind for kind in kinds if loads[kind].fits(least)), None)
    if free is not None:
        return free
    there = [kind for kind in kinds if loads[kind].num_devices >= least] or kinds
    return min(there, key=lambda kind: loads[kind].crowd)
