"""The engine of a platform on a Ray cluster."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from msgspec.structs import replace

from swell.executors.slices.engine import SliceEngine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from swell.model.finding import Finding

GPU, CPU = "GPU", "CPU"
AUTO = "auto"


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
    ] = "auto"
    slice_devices: Annotated[
        str,
        Meta(
            description="devices of a slice, which are on one node: cuda:N, cpu:N, paced:N@RATE, or auto: "
            "cuda:1 where a node of the cluster has a GPU, else cpu:1.",
            extra={"metavar": "DEVICES"},
        ),
    ] = AUTO
    device_resource: Annotated[
        str,
        Meta(
            description="resource of Ray of which one unit is one device, else GPU for cuda:N, or CPU.",
            extra={"metavar": "RESOURCE"},
        ),
    ] = ""

    def on(self, nodes: Iterable[Mapping[str, float]]) -> RayEngine:
        """Return the engine with the devices that `auto` means on nodes with these resources of Ray."""
        if self.slice_devices != AUTO:
            return self
        has_gpu = any(resources.get(GPU) for resources in nodes)
        return replace(self, slice_devices="cuda:1" if has_gpu else "cpu:1")

    @property
    def num_devices(self) -> int:
        return 1 if self.slice_devices == AUTO else super().num_devices

    @property
    def resource(self) -> str:
        """Name of the resource of Ray."""
        return self.device_resource or (GPU if self.has_gpus else CPU)

    def findings(self, listen: str) -> list[Finding]:
        """Whether Ray is installed."""
        from swell.model.finding import bad, ok

        if find_spec("ray") is None:
            return [bad("ray", "is not installed: no host can be started", "pip install 'swell[ray]'")]
        return [ok("ray", f"is installed; the cluster is {self.address!r}: see `ray status`")]
