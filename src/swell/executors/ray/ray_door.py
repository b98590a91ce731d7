"""The door of a platform on a Ray cluster: Ray starts a host on each node, and says what is free."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import msgspec

from swell.executors.controller.controller import Controller
from swell.executors.local.agent.door import DoorError
from swell.executors.local.agent.options import AgentOptions
from swell.executors.ray.bridge_client import BridgeClient, CannotConnect
from swell.executors.ray.leasing_owner import LeasingOwner
from swell.executors.ray.messages import (
    Connected,
    DeviceAcquired,
    DeviceReturned,
    DeviceTaken,
    FromBridge,
    HostEnded,
    NodesRead,
    StartHosts,
    ToBridge,
    Unconnected,
)
from swell.executors.ray.options import RayOptions
from swell.executors.remote.host_address import DEFAULT_PORT, HostAddress, parse_address
from swell.executors.remote.join_token import read_token
from swell.executors.remote.listening_door import ListeningDoor

TOKEN = "ray"  # noqa: S105 - its name
#: Of this one, and of those that came after it was revoked.
_TOKENS = re.compile(rf"{TOKEN}(-[0-9]+)?")
#: Of the fingerprint of a platform, enough to tell it from others on the cluster.
_PLATFORM_CHARACTERS = 12


class RayDoor:
    """See `local.agent.door.Door`."""

    def __init__(self, controller: Controller, options: AgentOptions, session: str) -> None:
        """Raises DoorError."""
        self._listen = options.listen
        ray = msgspec.json.decode(options.engine, type=RayOptions)
        self._owner = LeasingOwner(controller, self._order, self._lose_dead, self._is_by_ray)
        # The address is Ray's, which is not known before there is a bridge.
        listen = options.listen or str(HostAddress("0.0.0.0", DEFAULT_PORT))  # noqa: S104
        self._hosts = ListeningDoor(self._owner, replace(options, listen=listen), session)
        self._bridge = BridgeClient(self._hosts.fingerprint[:_PLATFORM_CHARACTERS], ray, self._hear)
        self._start = StartHosts(join="", token="")

    async def open(self) -> str:
        try:
            connected = await self._bridge.connect()
        except CannotConnect as error:
            raise DoorError(str(error)) from error
        self._owner.connected(connected)
        if not self._listen:
            self._hosts.listen_at(HostAddress(connected.address))
        token = str(read_token(self._hosts.token_file(TOKEN)))
        address = await self._hosts.open()
        self._start = StartHosts(join=self._join(address, connected.address), token=token)
        self._bridge.order(self._start)
        return self._start.join

    def _join(self, address: str, own: str) -> str:
        """Where hosts join. `own`: of this machine as Ray knows it, for who listens at all its addresses."""
        is_any = bool(self._listen) and parse_address(self._listen).is_any
        return str(HostAddress(own, parse_address(address).port)) if is_any else address

    def tick(self) -> None:
        self._hosts.tick()
        self._owner.tick()

    async def close(self) -> None:
        await self._hosts.close()
        await self._bridge.return_all()

    def remove(self, host: str) -> None:
        """Its node gets no other one, also from bridges to come."""
        self._hosts.remove(host)
        removed = {*self._start.removed, *self._owner.node_ids(host)}
        self._start = msgspec.structs.replace(self._start, removed=tuple(sorted(removed)))
        self._bridge.order(self._start)

    def want_devices(self, num: int) -> None:
        """Ray's own autoscaler, or people, bring nodes to a cluster of Ray."""

    # ------------------------------------------------------------ Ray
    def _order(self, message: ToBridge) -> None:
        self._bridge.order(message)

    def _lose_dead(self, name: str) -> None:
        self._hosts.give_up(name, "Ray takes its node for dead")

    def _is_by_ray(self, name: str) -> bool:
        """Whether Ray has started this host. All others have joined with tokens of other names."""
        return _TOKENS.fullmatch(self._hosts.token_of(name)) is not None

    def _hear(self, message: FromBridge) -> None:
        match message:
            case Connected():
                self._owner.connected(message)
                self._bridge.order(self._start)
            case NodesRead():
                self._owner.read(message)
            case DeviceAcquired():
                self._owner.acquired(message)
            case DeviceTaken():
                self._owner.taken(message)
            case DeviceReturned():
                self._owner.returned(message)
            case HostEnded():
                self._owner.host_ended(message)
            case Unconnected():
                pass  # only as the first word, which the client takes

    # ------------------------------------------------------------ tokens
    @property
    def tokens(self) -> Mapping[str, bool]:
        return self._hosts.tokens

    def add_token(self, name: str) -> str:
        return self._hosts.add_token(name)

    def revoke_token(self, name: str) -> None:
        self._hosts.revoke_token(name)
