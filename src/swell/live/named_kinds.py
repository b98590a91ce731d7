"""The kinds of device that a request names: all must be there, and where there is a choice, one is named."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from swell.model.counted import told_devices
from swell.model.errors import InvalidJob
from swell.model.job import JobSpec
from swell.model.kind import ANY


def with_named_kinds(spec: JobSpec, devices: Mapping[str, int]) -> JobSpec:
    """The job as the head is to get it: with a kind, unless it names several, or the platform has only one.

    Of several kinds the head chooses one.

    Args:
        devices: of nodes that take work, of each kind that the platform has, or has had.

    Raises:
        InvalidJob: it names a kind that the platform never had, or none, and there is a choice.
    """
    if spec.kind == ANY and ANY not in devices and devices:
        return msgspec.structs.replace(spec, kind="", kinds=(ANY,))
    if spec.kinds == (ANY,):
        return spec
    if (whole := ",".join(spec.kinds)) and whole in devices:
        return msgspec.structs.replace(spec, kind=whole)  # the name of a kind may have a comma
    for kind in spec.kinds:
        _check(spec.name, kind, devices)
    if spec.kinds:
        return spec
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


def _check(name: str, kind: str, devices: Mapping[str, int]) -> None:
    if kind not in devices:
        raise InvalidJob(f"job {name!r} asks for devices of kind {kind!r}; {_told(devices)}")


def _told(devices: Mapping[str, int]) -> str:
    if not devices:
        return "no node has joined this platform yet: submit it once one has, or without a kind"
    return f"the platform has {_listed(devices)}: name one of these, or let a node of that kind join first"


def _listed(devices: Mapping[str, int]) -> str:
    told = (f"{kind} ({told_devices(num)})" for kind, num in sorted(devices.items()))
    return ", ".join(told)
