"""The options of a platform: those of `swell up`, which are remembered for the next start."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec

from swell.executors.engine import Engine, InvalidEngine
from swell.executors.engines import make_engine
from swell.executors.local.containers.engine import ContainerChoice
from swell.executors.local.limits.limiter import CoreSharing
from swell.executors.remote.host_address import InvalidAddress, check_address, parse_address
from swell.model.durations import parse_duration
from swell.model.errors import InvalidOption
from swell.model.lengths import span
from swell.model.option import option
from swell.model.share_mode import ShareMode
from swell.settings import DEFAULT_POLICY, InvalidSetting, Settings, make_settings

#: A copy reads the whole state.
LEAST_BACKUP_S = 1.0


def _interval(said: str) -> float:
    return parse_duration(said or "10m")


def _path(said: str) -> str:
    return str(Path(said).expanduser().absolute()) if said else ""


class PlatformOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a platform is started with, as it was said. A field is an option of the same name.

    The properties make something of it, and raise InvalidOption where it cannot be.
    """

    devices: Annotated[
        str,
        option(
            "DEVICES",
            "auto, cpu, cpu:N, cuda, cuda:N, or paced devices, which train for real at a fixed speed: "
            "paced:DEVICES@SAMPLES_PER_S, paced:NODESxDEVICES@SAMPLES_PER_S, "
            "paced:RACKSxNODESxDEVICES@SAMPLES_PER_S; none: other machines bring all. Behind it the islands "
            "in which a node's devices are joined closer, such as /4/2. Default: previous value, else auto.",
        ),
    ] = "auto"
    rack: Annotated[
        str,
        option(
            "NAME",
            "Rack in which this machine stands: a job gets machines of one rack if it can. Default: previous "
            "value, else rack0, as for a machine that joins and names none; '': the default.",
            is_rare=True,
        ),
    ] = ""
    policy: Annotated[str, option("NAME", "Scheduling policy. Default: previous value, else unified.")] = (
        DEFAULT_POLICY
    )
    preload: Annotated[
        tuple[str, ...],
        option(
            "MODULE",
            "Module to import once for all workers before they start; may be repeated. Default: previous "
            "value; '': none.",
            parse=lambda modules: tuple(filter(None, modules)),
        ),
    ] = ()
    cores: Annotated[
        float,
        option(
            "N",
            "Cores of this machine that all workers share; with more devices than cores, by CPU share. "
            "Default: previous value, else all; 0: all.",
        ),
    ] = 0.0
    cpu_shares: Annotated[
        str,
        option(
            "MODE",
            "What a job's CPU share means: weight (others get what it does not use), quota (a hard limit) or "
            "off. Default: previous value, else weight.",
            is_rare=True,
        ),
    ] = ShareMode.WEIGHT.value
    containers: Annotated[
        str,
        option(
            "PROGRAM",
            "What runs jobs that name an image: docker, podman, auto (Docker, else Podman) or off. Default: "
            "previous value, else auto.",
        ),
    ] = ContainerChoice.AUTO.value
    listen: Annotated[
        str,
        option(
            "ADDRESS[:PORT]",
            "Let other machines join at this address of this one (`swell node`); default port 7070. Default: "
            "previous value, else none can join; '': none.",
        ),
    ] = ""
    advertise: Annotated[
        str,
        option(
            "ADDRESS",
            "IP address of this machine at which workers of other nodes reach its own. Default: previous "
            "value, else the address of --listen if that is one IP address; '': the default.",
            is_rare=True,
        ),
    ] = ""
    storage: Annotated[
        str,
        option(
            "FOLDER",
            "Keep code, checkpoints and logs of jobs in this folder, which all machines of the platform have "
            "at this path. Default: previous value, else the state folder, which then is such a folder if "
            "other machines join.",
            parse=_path,
        ),
    ] = ""
    backup_to: Annotated[
        str,
        option(
            "FOLDER",
            "Copy the state to this folder at an interval; on another machine's disk it survives the loss of "
            "this one (`swell restore FOLDER`). Default: previous value, else no copies; '': none.",
            parse=_path,
        ),
    ] = ""
    backup_every: Annotated[
        float,
        option(
            "DURATION",
            "Time between two copies of --backup-to. Default: previous value, else 10m; '': 10m.",
            parse=_interval,
            is_rare=True,
        ),
    ] = 600.0  #: seconds
    share: Annotated[
        str,
        option(
            "FOLDER",
            "Serve other users of this machine (`swell admin users`) at a socket in this folder, which is "
            "for members of the folder's group. Default: previous value, else none; '': none.",
            parse=_path,
        ),
    ] = ""
    engine: str = "local"  #: what brings machines; `cli.up` has its option
    engine_options: dict[str, str | bool | int | float] = {}  #: those that are not as by default
    settings: dict[str, int | float | str] = {}  #: likewise, of `--set`

    def check(self) -> None:
        """Raises InvalidOption."""
        _ = (
            self.made_settings,
            self.sharing,
            self.container_choice,
            self.listens_at,
            self.advertised,
            self.made_engine,
        )
        if self.backup_to and not Path(self.backup_to).parent.is_dir():
            raise InvalidOption(
                f"--backup-to {self.backup_to}: there is no folder {Path(self.backup_to).parent}; make it, "
                "mount its disk, or choose another folder"
            )
        if self.backup_every < LEAST_BACKUP_S:
            raise InvalidOption(
                f"--backup-every {span(self.backup_every)}: a copy reads the whole state, so the time "
                f"between two is at least {span(LEAST_BACKUP_S)}; name a longer one"
            )

    @property
    def made_settings(self) -> Settings:
        try:
            return make_settings(self.settings)
        except InvalidSetting as error:
            raise InvalidOption(f"--set: {error}") from error

    @property
    def made_engine(self) -> Engine:
        """What brings machines."""
        try:
            return make_engine(self.engine, self.engine_options, self.listens_at)
        except InvalidEngine as error:
            raise InvalidOption(str(error)) from error

    @property
    def sharing(self) -> CoreSharing:
        """How jobs share the cores."""
        if not math.isfinite(self.cores):
            raise InvalidOption(f"--cores {self.cores:g}: name a number of cores, or 0 for all of them")
        if self.cpu_shares not in list(ShareMode):
            raise InvalidOption(f"--cpu-shares {self.cpu_shares}: choose from {', '.join(ShareMode)}")
        return CoreSharing(self.cores or None, ShareMode(self.cpu_shares))

    @property
    def container_choice(self) -> ContainerChoice:
        """Which program runs containers."""
        if self.containers not in list(ContainerChoice):
            raise InvalidOption(f"--containers {self.containers}: choose from {', '.join(ContainerChoice)}")
        return ContainerChoice(self.containers)

    @property
    def listens_at(self) -> str:
        """ADDRESS:PORT at which hosts join; empty: none can."""
        return _address("--listen", self.listen, parse_address)

    @property
    def advertised(self) -> str:
        """IP address at which workers of hosts reach those of this machine; empty: that of `listen`."""
        return _address("--advertise", self.advertise, check_address)

    @property
    def hosts_may_join(self) -> bool:
        return bool(self.made_engine.door_at(self.listens_at))


def _address(option: str, said: str, parse: Callable[[str], object]) -> str:
    try:
        return str(parse(said)) if said else ""
    except InvalidAddress as error:
        raise InvalidOption(f"{option} {said}: {error}") from error
