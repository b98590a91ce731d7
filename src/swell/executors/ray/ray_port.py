"""Ray, as far as the bridge needs it; `ray_client` is the real one."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNode:
    """A node that is alive. Resources that it lacks are 0."""

    id: str
    name: str  #: as Ray has it: of any form, and not of one node only
    labels: dict[str, str] = field(default_factory=dict)
    total: dict[str, float] = field(default_factory=dict)
    free: dict[str, float] = field(default_factory=dict)
    is_draining: bool = False
    leaves_at_s: float | None = None  #: by the calendar


class Reservation(Enum):
    """State of a reservation of one unit of a resource on one node."""

    PENDING = auto()
    MADE = auto()
    GONE = auto()  #: its node is dead, or it was released


class HostOrder(msgspec.Struct, frozen=True, kw_only=True):
    """How the host of a node is to be started."""

    platform: str
    name: str
    join: str
    token: str
    devices: str
    is_borrowed: bool
    kind: str = ""  #: of the devices; empty: what they are


class RayPort(Protocol):
    """Calls take milliseconds, or do not return while the GCS does not answer."""

    @property
    def address(self) -> str:
        """IP address of this machine."""

    def nodes(self) -> list[SeenNode]: ...

    # ------------------------------------------------------------ reservations, which outlive this process
    def reserve(self, name: str, node_id: str, resource: str) -> None:
        """Begin to. `name`: has never been used before."""

    def reservation(self, name: str) -> Reservation: ...

    def release(self, name: str) -> None:
        """No effect if there is none."""

    def reservations(self, prefix: str) -> dict[str, Reservation]:
        """All whose names begin so and that are not gone."""

    def find_gpus(self, name: str) -> tuple[str, ...] | None:
        """Which GPUs are reserved; None: not known yet, ask again."""

    # ------------------------------------------------------------ hosts, which outlive this process
    def start_host(self, actor: str, node_id: str, order: HostOrder) -> None:
        """Unless one of this name is there: watch that one from now on."""

    def host_end(self, actor: str) -> str | None:
        """Why it ended; empty: it was told to; None: it has not."""

    def hosts(self, prefix: str) -> list[str]:
        """All whose names begin so."""

    def forget_host(self, actor: str) -> None:
        """Its node is gone: it is watched no longer."""

    def end_host(self, actor: str) -> None:
        """End a host with all its processes. No effect if there is none."""
