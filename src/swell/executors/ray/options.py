"""What of a Ray cluster a platform uses."""

from __future__ import annotations

import re

import msgspec

from swell.executors.local.devices import CPU

AUTO = "auto"
_FORM = re.compile(r"cpu|cuda|paced@[0-9]+(?:\.[0-9]+)?")


class InvalidResource(ValueError):
    """No devices are meant by this; the text names the form."""


class DeviceResource(msgspec.Struct, frozen=True, kw_only=True):
    """The resource of Ray of which one unit is one device."""

    name: str = AUTO  #: GPU if a node of the cluster has one, else CPU
    form: str = ""  #: cpu, cuda or paced@RATE; empty: cuda for GPU, cpu for all others

    def __str__(self) -> str:
        return f"{self.name}={self.form}" if self.form else self.name

    def devices(self, num: int) -> str:
        """Return the words of `swell node --devices` for a node with `num` units."""
        form = self.form or ("cuda" if self.name == "GPU" else CPU)
        if form.startswith("paced@"):
            return f"paced:{num}@{form.removeprefix('paced@')}"
        return f"{form}:{num}"


class RayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a platform on a Ray cluster. The agent gets them as JSON."""

    address: str = AUTO  #: as `ray.init` takes it
    resource: DeviceResource = DeviceResource()
    is_borrowed: bool = False  #: every node may be reclaimed at any second


def parse_resource(text: str) -> DeviceResource:
    """`auto`, `GPU`, `CPU`, `NAME` or `NAME=FORM`. Raises InvalidResource."""
    name, sign, form = text.strip().partition("=")
    if not name or (sign and _FORM.fullmatch(form) is None):
        raise InvalidResource(
            f"{text!r} names no devices; write a resource of Ray, and if need be what its devices are: "
            "GPU, CPU, NAME=cpu, NAME=cuda or NAME=paced@RATE"
        )
    return DeviceResource(name=name, form=form)
