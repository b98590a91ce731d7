"""What `swell up` says of a platform; without the parts, whose import takes a fifth of a second."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from swell.executors.engine import Engine
from swell.executors.local.containers.engine import ContainerChoice
from swell.executors.local.engine import LocalEngine
from swell.executors.local.limits.limiter import CoreSharing
from swell.settings import DEFAULT_POLICY, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformOptions:
    """What a platform is made of."""

    state_dir: Path
    devices: str = "auto"
    rack: str = ""  #: in which the devices of this machine are; empty: none was named
    policy: str = DEFAULT_POLICY
    preload: tuple[str, ...] = ()  #: modules that workers find imported, beside torch
    settings: Settings = field(default_factory=Settings)
    sharing: CoreSharing = field(default_factory=CoreSharing)  #: how jobs share the cores
    containers: ContainerChoice = ContainerChoice.AUTO
    listen: str = ""  #: ADDRESS:PORT at which hosts join; empty: none can
    advertise: str = (
        ""  #: IP address at which workers of hosts reach those of this machine; empty: of `listen`
    )
    backup_to: Path | None = None  #: folder for copies of the state; None: none are made
    backup_every_s: float = 600.0  #: between two of them
    share: str = ""  #: folder with a socket for other users of the machine; empty: none
    engine: Engine = field(default_factory=LocalEngine)  #: what brings machines

    @property
    def hosts_may_join(self) -> bool:
        return bool(self.engine.door_at(self.listen))
