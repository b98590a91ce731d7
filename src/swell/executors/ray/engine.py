"""The engine of a platform on a Ray cluster."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from swell.executors.engine import InvalidEngine
from swell.executors.slices.engine import SliceEngine

if TYPE_CHECKING:
    from swell.model.finding import Finding

AUTO, GPU, CPU = "auto", "GPU", "CPU"
CONNECT_S = 1.0
_RESOURCE = re.compile(r"(?P<name>[^=]+)(?:=(?P<form>cpu|cuda|paced@[0-9]+(?:\.[0-9]+)?))?")


class RayEngine(SliceEngine, kw_only=True):
    """Slices of the nodes of a Ray cluster; each is an actor that runs a host."""

    name = "ray"
    brings = "slices of a Ray cluster, as many as are needed"
    door = "swell.executors.ray.ray_door:RayDoor"
    no_nodes = (
        "no slice of the Ray cluster has joined; slices are asked for while jobs could use them: "
        "`ray status` shows what others use, and what waits"
    )
    trust = (
        "every user of that Ray cluster can read the join token of these hosts, and join as one: "
        "use it where you trust all its users"
    )

    address: Annotated[
        str, Meta(description="the cluster, as `ray.init` takes it, such as auto or 10.9.0.1:6379.")
    ] = AUTO
    device_resource: Annotated[
        str,
        Meta(
            description="resource of which one unit is one device: GPU, CPU, auto (GPU if there is any, else "
            "CPU), or NAME=cpu, NAME=cuda, NAME=paced@RATE.",
            extra={"metavar": "RESOURCE"},
        ),
    ] = AUTO
    slice_devices: Annotated[
        int,
        Meta(ge=1, description="devices of a slice, which are on one node.", extra={"metavar": "DEVICES"}),
    ] = 1

    @property
    def where(self) -> str:
        return f"Ray at {self.address}"

    def check(self, listen: str) -> None:
        if _RESOURCE.fullmatch(self.device_resource) is None:
            raise InvalidEngine(
                f"--device-resource {self.device_resource}: this names no devices; write a resource of Ray, "
                "and if need be what its devices are: GPU, CPU, NAME=cpu, NAME=cuda or NAME=paced@RATE"
            )
        super().check(listen)

    @property
    def num_devices(self) -> int:
        return self.slice_devices

    @property
    def resource(self) -> str:
        """Name of the resource of Ray; `auto` stands for GPU or CPU."""
        return self.device_resource.partition("=")[0]

    def devices_of(self, resource: str) -> str:
        """Return the devices of a slice, as `swell node` takes them, if they are units of this resource."""
        form = self.device_resource.partition("=")[2] or ("cuda" if resource == GPU else "cpu")
        kind, _, rate = form.partition("@")
        return f"{kind}:{self.slice_devices}@{rate}" if rate else f"{kind}:{self.slice_devices}"

    def findings(self, listen: str) -> list[Finding]:
        """Whether Ray is installed, and answers if it is named by its address."""
        from swell.model.finding import bad, ok

        if find_spec("ray") is None:
            return [bad("ray", "is not installed: no host can be started", "pip install 'swell[ray]'")]
        try:
            is_tried = try_line(self.address, CONNECT_S)
        except OSError as error:
            text = f"nothing answers at {self.address} ({error.strerror or error})"
            return [bad("ray", text, "`ray start --head` there, or name another cluster with --address")]
        if is_tried:
            return [ok("ray", f"is installed, and {self.address} answers")]
        return [ok("ray", f"is installed; the cluster is {self.address!r}: see `ray status`")]


def try_line(address: str, within_s: float) -> bool:
    """Raises OSError: no program listens there. False: it is `auto`, or a form that Ray alone knows."""
    import socket

    host, sign, port = address.rpartition(":")
    if not sign or not port.isdecimal() or "/" in host:
        return False
    socket.create_connection((host.strip("[]"), int(port)), within_s).close()
    return True
