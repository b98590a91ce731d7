"""The engine of a platform on a Ray cluster."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from msgspec.structs import replace

from swell.executors.slices.engine import SliceDevices, SliceEngine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from swell.executors.slices.port import ClusterPort
    from swell.model.finding import Finding

GPU, CPU = "GPU", "CPU"
AUTO = "auto"
#: In the state folder: the number of the last slice.
LAST_FILE = "ray-slices"


class RayEngine(SliceEngine, kw_only=True):
    """Slices of the nodes of a Ray cluster; each is an actor that runs a host."""

    name = "ray"
    brings = "slices of a Ray cluster, as many as are needed"
    no_nodes = (
        "no slice of the Ray cluster has joined; slices are asked for while jobs could use them: "
        "`ray status` shows what others use, and what waits"
    )
    trust = (
        "every user of that Ray cluster can read the join token of these hosts, and join as one: "
        "use it where you trust all its users"
    )
    period_s = 0.5
    needs_answer = True  # only Ray knows at which address hosts reach this machine
    remedy = "`ray.kill` its actors, which are called swell:{}:NUMBER in the namespace `swell`"

    address: Annotated[
        str, Meta(description="the cluster, as `ray.init` takes it, such as auto or 10.9.0.1:6379.")
    ] = "auto"
    slice_devices: SliceDevices = AUTO
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

    def port(self, platform: str, folder: Path) -> ClusterPort:
        from swell.executors.local.agent.door import DoorError
        from swell.executors.ray.ray_client import RayClient

        if find_spec("ray") is None:
            raise DoorError("Ray is not installed; `--engine ray` needs it: pip install 'swell[ray]'")
        return RayClient(platform, self.encoded(), self.address, folder / LAST_FILE)

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
