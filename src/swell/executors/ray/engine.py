"""The engine of a platform on a Ray cluster."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from swell.executors.slices.engine import SliceEngine

if TYPE_CHECKING:
    from swell.model.finding import Finding

GPU, CPU = "GPU", "CPU"


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
    device_resource: Annotated[
        str,
        Meta(
            description="resource of Ray of which one unit is one device, else GPU for cuda:N, or CPU.",
            extra={"metavar": "RESOURCE"},
        ),
    ] = ""

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
