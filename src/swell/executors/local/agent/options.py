"""What an agent is started with."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from swell.executors.gang.job_context import GangSettings
from swell.executors.leases import LeaseTimes
from swell.executors.local.containers.engine import ContainerKind
from swell.executors.local.limits.limiter import CoreSharing
from swell.executors.storage import storage_of

LOOPBACK = "127.0.0.1"
DEFAULT_PRELOAD = (
    "torch",
    "torch.distributed",
    "torch._dynamo",
    "swell.train",
    "swell.train.runtime.runner",
    "swell.train.collective.peer_names",
)
DEFAULT_CALL = "swell.train.runtime.runner:run_entry"
#: At the beginning of `AgentOptions.fixed`.
NUM_WORDS_OF_UP = 6


class PlatformSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the platform was told and all its hosts have, so that a job behaves alike on each of them."""

    preload: tuple[str, ...] = DEFAULT_PRELOAD  #: modules that workers find imported
    call: str = DEFAULT_CALL  #: `package.module:function` that a worker runs, with entry and arguments
    gang_settings: GangSettings = msgspec.field(default_factory=GangSettings)
    containers: ContainerKind = ContainerKind.AUTO
    storage: str = ""  #: path of the head's; of a host's agent: on this machine


class AgentOptions(PlatformSettings, frozen=True, kw_only=True):
    """What an agent, or the host process of a machine that joins, runs workers with."""

    state_dir: Path
    sharing: CoreSharing = msgspec.field(default_factory=CoreSharing)
    advertise: str = ""  #: IP address of this machine for workers on others; empty: that of `listen`
    joined_as: str = ""  #: name of a host that has joined; empty: it is the controller's own machine
    listen: str = ""  #: ADDRESS:PORT at which hosts join; empty: none can
    kinds: tuple[str, ...] = ()  #: of the devices of the first daemon's machine
    leases: LeaseTimes = msgspec.field(default_factory=LeaseTimes)  #: of hosts
    engine: str = ""  #: JSON: options of what brings hosts; empty: people do
    door: str = ""  #: `module:class` of what lets hosts in; empty: none come

    def encoded(self) -> bytes:
        """Return the standard input of the process of an agent; `decode_options` reads it."""
        return msgspec.json.encode(self, enc_hook=str)

    @property
    def storage_dir(self) -> Path:
        """Where the files of jobs are."""
        return Path(self.storage) if self.storage else storage_of(self.state_dir)

    @property
    def fixed(self) -> tuple[str, ...]:
        """What a daemon must have been told to adopt the agent: words of `swell up`, kinds, the engine."""
        return (*self.sharing.words, "--listen", self.listen or "''", *self.kinds, self.engine)

    @property
    def reached_at(self) -> str:
        """IP address at which workers on other hosts reach those of this machine.

        Without another one that at which hosts join: a name, or all addresses of the machine, say nothing.
        """
        host = self.advertise or urlsplit(f"//{self.listen}").hostname or ""
        try:
            return LOOPBACK if ip_address(host).is_unspecified else host
        except ValueError:
            return LOOPBACK

    @property
    def of_platform(self) -> PlatformSettings:
        """What hosts that join are told."""
        own = msgspec.structs.replace(self, storage=str(self.storage_dir))
        return msgspec.convert(own, PlatformSettings, from_attributes=True)


def decode_options(text: bytes) -> AgentOptions:
    """The options that `AgentOptions.encoded` has written."""
    return msgspec.json.decode(text, type=AgentOptions, dec_hook=lambda kind, said: kind(said))
