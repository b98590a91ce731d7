"""The engine of a platform on a Ray cluster."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from swell.executors.engine import Engine, InvalidEngine

if TYPE_CHECKING:
    from swell.executors.ray.options import RayOptions
    from swell.model.finding import Finding

AUTO = "auto"
CONNECT_S = 1.0


class RayEngine(Engine, kw_only=True):
    """The nodes of a Ray cluster; Ray says which of their devices are free."""

    name = "ray"
    brings = "the nodes of a Ray cluster"
    door = "swell.executors.ray.ray_door:RayDoor"
    no_nodes = (
        "no node of the Ray cluster has devices for jobs now; nodes of it join by themselves: `ray status` "
        "shows which there are, and what others use of them"
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
    is_borrowed: Annotated[
        bool,
        Meta(
            description="whether nodes may be reclaimed at any second.",
            extra={"flags": "--borrowed/--owned"},
        ),
    ] = False

    @property
    def about(self) -> str:
        return f"Ray at {self.address}: a host is started on each node; see `swell nodes`"

    def check(self, listen: str) -> None:
        self._options()

    def encoded(self) -> str:
        return msgspec.json.encode(self._options()).decode()

    def _options(self) -> RayOptions:
        """Raises InvalidEngine."""
        from swell.executors.ray.options import InvalidResource, RayOptions, parse_resource

        try:
            resource = parse_resource(self.device_resource)
        except InvalidResource as error:
            raise InvalidEngine(f"--device-resource {self.device_resource}: {error}") from error
        return RayOptions(address=self.address, resource=resource, is_borrowed=self.is_borrowed)

    def findings(self, listen: str) -> list[Finding]:
        """Whether Ray is installed, and answers if it is named by its address."""
        import socket

        from swell.executors.remote.host_address import InvalidAddress, parse_address
        from swell.model.finding import bad, ok

        if find_spec("ray") is None:
            return [bad("ray", "is not installed: no host can be started", "pip install 'swell[ray]'")]
        try:
            where = parse_address(self.address)
        except InvalidAddress:
            where = None
        if where is None or self.address == AUTO:
            return [ok("ray", f"is installed; the cluster is {self.address!r}: see `ray status`")]
        try:
            socket.create_connection((where.host, where.port), timeout=CONNECT_S).close()
        except OSError as error:
            text = f"nothing answers at {where} ({error.strerror or error})"
            return [bad("ray", text, "`ray start --head` there, or name another cluster with --address")]
        return [ok("ray", f"is installed, and {where} answers")]
