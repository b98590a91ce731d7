"""The kind of device that a job gets which names several, or any."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from swell.model.job import JobSpec, Profile
from swell.model.kind import ANY

#: Scripts whose speeds are kept; of more the oldest are forgotten.
NUM_SCRIPTS = 1000

#: Of a job that no trial run has found to need more workers than its owner says.
NONE_FOUND: Mapping[str, int] = MappingProxyType({})


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


class KnownSpeed(NamedTuple):
    """Speed of a script on one kind, which compares with that on others."""

    value: float
    is_measured: bool  #: by a trial run on this kind; else it is as the owner of the job states


class KindSpeeds(msgspec.Struct):
    """Samples a second of one worker on each kind, as trial runs have measured them."""

    measured: dict[str, dict[str, float]] = {}  #: script and batch -> kind -> samples/s

    def learn(self, spec: JobSpec, kind: str, profile: Profile) -> None:
        """A trial run on this kind has ended. One that measured no step changes nothing."""
        values = [samples / step_s for samples, step_s in profile.compute_s.items() if step_s > 0.0]
        if not values:
            return
        script = _script(spec)
        found = self.measured.pop(script, {})
        self.measured[script] = {**found, kind: max(values)}
        if len(self.measured) > NUM_SCRIPTS:
            del self.measured[next(iter(self.measured))]

    def of(self, spec: JobSpec, kinds: Collection[str]) -> dict[str, KnownSpeed]:
        """Speeds of the job on those of these kinds where one is known.

        Where none was measured, it is the stated one, scaled by a kind of which both are known.
        """
        measured, stated = self.measured.get(_script(spec), {}), spec.kind_speeds
        both = next((kind for kind in stated if kind in measured), None)
        scale = 1.0 if both is None else measured[both] / stated[both]
        found = {kind: KnownSpeed(measured[kind], True) for kind in kinds if kind in measured}
        if both is not None or not found:
            rest = (kind for kind in kinds if kind in stated and kind not in found)
            found |= {kind: KnownSpeed(scale * stated[kind], False) for kind in rest}
        return found


def _script(spec: JobSpec) -> str:
    return f"{spec.entry} {spec.global_batch}"


class Choice(NamedTuple):
    """A kind, and why it is that one."""

    kind: str
    why: str


def named_kinds(kinds: tuple[str, ...], there: Sequence[str]) -> tuple[str, ...]:
    """Those of the kinds that a job names which a platform has, or has had; `any`: all that it has."""
    if ANY in kinds and ANY not in there:
        return tuple(sorted(there))
    return tuple(kind for kind in kinds if kind in there)


def smallest_gang(spec: JobSpec, least_workers: int = 1) -> int:
    """Devices of the job's smallest gang, where memory asks for so many workers at least."""
    return max(spec.min_workers, least_workers) * spec.devices_per_worker


def smallest_gang_on(kind: str, spec: JobSpec, least_workers: Mapping[str, int]) -> int:
    """Devices of the job's smallest gang on a kind, by the least workers that trial runs found on each."""
    return smallest_gang(spec, least_workers.get(kind, 1))


def choose(
    kinds: Sequence[str],
    spec: JobSpec,
    loads: Mapping[str, KindLoad],
    speeds: Mapping[str, KnownSpeed],
    least_workers: Mapping[str, int] = NONE_FOUND,
) -> Choice:
    """The fastest of the kinds on which the smallest gang fits now; else the one where least is wanted.

    Of equal ones of the latter it is the fastest. Where a speed is not known of all on which it fits, it is
    the first of these.

    Args:
        kinds: to choose from, at least one.
        loads: of each of them.
        speeds: of those where it is known.
        least_workers: by kind, as trial runs of the job have found.
    """
    least = {kind: smallest_gang_on(kind, spec, least_workers) for kind in kinds}
    free = [kind for kind in kinds if loads[kind].fits(least[kind])]
    if not free:
        there = [kind for kind in kinds if loads[kind].num_devices >= least[kind]] or kinds
        slowness = {kind: -speeds[kind].value if kind in speeds else 0.0 for kind in there}
        kind = min(there, key=lambda kind: (loads[kind].crowd, slowness[kind]))
        return Choice(kind, f"of {', '.join(kinds)}, none of which is free, the one with least in use")
    if len(free) == 1:
        if len(kinds) == 1:
            return Choice(free[0], "it has room for the job")
        return Choice(free[0], f"of {', '.join(kinds)} it alone has room for the job")
    if any(kind not in speeds for kind in free):
        return Choice(free[0], f"the first that is free of {', '.join(kinds)}; speeds are not known of all")
    fastest, *others = sorted(free, key=lambda kind: -speeds[kind].value)
    told = (_told_slower(kind, speeds[kind], speeds[fastest]) for kind in others)
    basis = "measured" if speeds[fastest].is_measured else "as stated"
    return Choice(fastest, f"the fastest that is free ({basis}), {', '.join(told)}")


def _told_slower(kind: str, speed: KnownSpeed, fastest: KnownSpeed) -> str:
    basis = "measured" if speed.is_measured else "as stated"
    return f"{fastest.value / speed.value:.3g} times as fast as {kind} ({basis})"
