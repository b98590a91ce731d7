"""The kind of device that a job runs on, if it does not name one."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from swell.model.counted import told_devices
from swell.model.errors import InvalidJob
from swell.model.job import JobSpec


def with_kind(spec: JobSpec, devices: Mapping[str, int]) -> JobSpec:
    """The job as it is to be scheduled: with a kind, unless the platform has never had more than one.

    Args:
        devices: of nodes that take work, of each kind that the platform has, or has had.

    Raises:
        InvalidJob: it names a kind that the platform never had, or none, and there is a choice.
    """
    if spec.kind:
        if spec.kind not in devices:
            raise InvalidJob(f"job {spec.name!r} asks for devices of kind {spec.kind!r}; {_told(devices)}")
        return spec
    if len(devices) < 2:
        return spec
    there = [kind for kind, num in devices.items() if num]
    if len(there) == 1:
        return msgspec.structs.replace(spec, kind=there[0])
    raise InvalidJob(
        f"job {spec.name!r} names no kind of device, and the platform has several: "
        f"{_listed(devices)}; name one with --kind, or `kind:` in the job file"
    )


def _told(devices: Mapping[str, int]) -> str:
    if not devices:
        return "no node has joined this platform yet: submit it once one has, or without a kind"
    return f"the platform has {_listed(devices)}: name one of these, or let a node of that kind join first"


def _listed(devices: Mapping[str, int]) -> str:
    told = (f"{kind} ({told_devices(num)})" for kind, num in sorted(devices.items()))
    return ", ".join(told)
