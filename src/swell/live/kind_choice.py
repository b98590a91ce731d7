"""The kind of device that a job runs on, chosen where it names none or several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from swell.model.counted import told_devices
from swell.model.errors import InvalidJob
from swell.model.job import JobSpec
from swell.model.kind import ANY
from swell.model.view import JobView, is_set_aside


class KindLoad(NamedTuple):
    """Devices of one kind, and who wants them."""

    num_devices: int  #: of nodes that take work; 0 of a kind that was there once
    num_idle: int = 0  #: of these, without a job
    num_wanted: int = 0  #: that waiting jobs need at least
    samples_per_s: float | None = None  #: of one worker of a job with this script; None: none trains there


def loads(spec: JobSpec, devices: Mapping[str, int], views: Iterable[JobView]) -> dict[str, KindLoad]:
    """Load of each kind, as a job with this request finds it.

    Args:
        devices: as `with_kind` takes them.
        views: of the open jobs.
    """
    found = {kind: KindLoad(num, num_idle=num) for kind, num in devices.items()}
    for view in views:
        load = found.get(view.kind)
        if load is None:
            continue
        idle = max(0, load.num_idle - len(view.devices))
        is_waiting = not view.devices and not is_set_aside(view)
        wanted = load.num_wanted + view.min_workers * view.devices_per_worker * is_waiting
        found[view.kind] = load._replace(
            num_idle=idle, num_wanted=wanted, samples_per_s=_faster(load.samples_per_s, _speed(spec, view))
        )
    return found


def _speed(spec: JobSpec, view: JobView) -> float | None:
    """Samples that each worker of a job with the same script makes in a second."""
    if view.entry != spec.entry or not view.step_s or not view.workers:
        return None
    return (view.batch or view.global_batch) / (view.step_s * view.workers)


def _faster(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else max(one, other)


def with_kind(spec: JobSpec, devices: Mapping[str, int], views: Iterable[JobView] = ()) -> JobSpec:
    """The job as it is to be scheduled: with a kind, unless the platform has never had more than one.

    Of several kinds that it names it gets one that has its smallest gang idle: the fastest, as far as jobs
    with the same script have shown, else the first that it names. If none has, it gets the one where least
    is wanted for each device.

    Args:
        devices: of nodes that take work, of each kind that the platform has, or has had.
        views: of the open jobs.

    Raises:
        InvalidJob: it names a kind that the platform never had, or none, and there is a choice.
    """
    if spec.kind == ANY and ANY not in devices and devices:
        spec = msgspec.structs.replace(spec, kind="", kinds=(ANY,))
    kinds = _named(spec, devices)
    if kinds:
        return msgspec.structs.replace(spec, kind=_chosen(kinds, spec, loads(spec, devices, views)))
    if spec.kind:
        _check(spec.name, spec.kind, devices)
        return spec
    if len(devices) < 2:
        return spec
    there = [kind for kind, num in devices.items() if num]
    if len(there) == 1:
        return msgspec.structs.replace(spec, kind=there[0])
    raise InvalidJob(
        f"job {spec.name!r} names no kind of device, and the platform has several: "
        f"{_listed(devices)}; name one with --kind, or `kind:` in the job file, several as a list, or `{ANY}`"
    )


def _named(spec: JobSpec, devices: Mapping[str, int]) -> tuple[str, ...]:
    """Several kinds that it names; none if it names one, or none. Raises InvalidJob."""
    if spec.kinds == (ANY,):
        return tuple(sorted(devices))
    if (whole := ",".join(spec.kinds)) in devices:
        return (whole,)  # the name of a kind may have a comma
    for kind in spec.kinds:
        _check(spec.name, kind, devices)
    return spec.kinds


def _check(name: str, kind: str, devices: Mapping[str, int]) -> None:
    if kind not in devices:
        raise InvalidJob(f"job {name!r} asks for devices of kind {kind!r}; {_told(devices)}")


def _chosen(kinds: tuple[str, ...], spec: JobSpec, found: Mapping[str, KindLoad]) -> str:
    least = spec.min_workers * spec.devices_per_worker
    free = [kind for kind in kinds if found[kind].num_idle >= least + found[kind].num_wanted]
    if free:
        speeds = [found[kind].samples_per_s for kind in free]
        if all(speed is not None for speed in speeds):
            return max(free, key=lambda kind: found[kind].samples_per_s or 0.0)
        return free[0]
    there = [kind for kind in kinds if found[kind].num_devices >= least] or kinds
    return min(there, key=lambda kind: _crowd(found[kind]))


def _crowd(load: KindLoad) -> float:
    """Devices that are held or wanted, for each that there is."""
    held = load.num_devices - load.num_idle
    return (held + load.num_wanted) / max(load.num_devices, 1)


def _told(devices: Mapping[str, int]) -> str:
    if not devices:
        return "no node has joined this platform yet: submit it once one has, or without a kind"
    return f"the platform has {_listed(devices)}: name one of these, or let a node of that kind join first"


def _listed(devices: Mapping[str, int]) -> str:
    told = (f"{kind} ({told_devices(num)})" for kind, num in sorted(devices.items()))
    return ", ".join(told)
