"""The door of a platform on a Ray cluster: its actors hold devices and run hosts, as jobs could use them."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from swell.executors.controller.controller import Controller
from swell.executors.local.agent.options import AgentOptions
from swell.executors.ray.engine import RayEngine
from swell.executors.ray.ray_client import ANSWER_S, RayClient
from swell.executors.remote.host_address import DEFAULT_PORT, HostAddress, parse_address
from swell.executors.slices.door import SliceDoor
from swell.executors.slices.order import SliceOrder
from swell.executors.slices.pool import PoolLimits
from swell.executors.slices.port import ClusterUnreachable, SliceRefused

#: In the state folder: the number of the last slice.
LAST_FILE = "ray-slices"


class RayDoor(SliceDoor):
    """See `local.agent.door.Door`."""

    open_s = 2 * ANSWER_S
    period_s = 0.5
    remedy = "`ray.kill` its actors, which are called swell:{}:NUMBER in the namespace `swell`"

    def __init__(self, controller: Controller, options: AgentOptions, session: str) -> None:
        """Raises DoorError."""
        engine = msgspec.json.decode(options.engine, type=RayEngine)
        self._engine, self._named = engine, options.listen
        # The address is Ray's, which is not known before it has answered.
        listen = options.listen or str(HostAddress("0.0.0.0", DEFAULT_PORT))  # noqa: S104
        limits = PoolLimits(
            cluster="Ray",
            max_slices=engine.max_nodes,
            min_slices=engine.min_nodes,
            num_devices=engine.slice_devices,
            idle_s=engine.idle_s,
        )
        super().__init__(controller, replace(options, listen=listen), session, limits)
        self._ray = RayClient(self._platform, engine, options.state_dir / LAST_FILE)
        self._port = self._ray

    async def _ask_first(self) -> None:
        """Learn the address of this machine. There is no door without a Ray."""
        if self._ray.address:
            return
        try:
            await self._ray.connect()
        except ClusterUnreachable as error:
            raise SliceRefused(str(error)) from error
        if not self._named:
            self.listen_at(HostAddress(self._ray.address))

    def _order(self, join: str, token: str) -> SliceOrder:
        if self._named and parse_address(self._named).is_any:  # as Ray knows this machine
            join = str(HostAddress(self._ray.address, parse_address(join).port))
        return SliceOrder(
            platform=self._platform, join=join, token=token, devices="", is_borrowed=self._engine.is_borrowed
        )

    async def close(self) -> None:
        await super().close()
        await self._ray.close()
