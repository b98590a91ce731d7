"""The options of a platform: those of `swell up`, which are remembered for the next start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from swell.executors.engine import Engine, OptionValue
from swell.executors.engines import make_engine
from swell.executors.local.containers.engine import ContainerKind
from swell.executors.node.machine_options import MachineOptions, absolute_path
from swell.executors.remote.host_address import parse_address
from swell.model.errors import InvalidOption
from swell.model.option import option
from swell.model.quantities import parse_duration, span
from swell.settings import DEFAULT_POLICY, Settings, make_settings

#: A copy reads the whole state.
LEAST_BACKUP_S = 1.0


def _interval(said: str) -> float:
    interval_s = parse_duration(said or "10m")
    if interval_s < LEAST_BACKUP_S:
        raise ValueError(
            f"{said} is shorter than {span(LEAST_BACKUP_S)}; a copy reads the whole state: name a longer time"
        )
    return interval_s


def _listen(said: str) -> str:
    return str(parse_address(said)) if said else ""


def _folders(said: list[str]) -> tuple[str, ...]:
    return tuple(absolute_path(folder) for folder in said if folder)


class PlatformOptions(MachineOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a platform is started with, as it was said. A field is an option of the same name.

    The properties make something of it, and raise InvalidOption where it cannot be.
    """

    policy: Annotated[str, option("NAME", "Scheduling policy. Default: unified.")] = DEFAULT_POLICY
    preload: Annotated[
        tuple[str, ...],
        option(
            "MODULE",
            "Module to import once for all workers before they start; may be repeated; '': none.",
            parse=lambda modules: tuple(filter(None, modules)),
        ),
    ] = ()
    containers: Annotated[
        ContainerKind,
        option(
            "PROGRAM",
            "What runs jobs that name an image: docker, podman, auto (Docker, else Podman) or off. Default: "
            "auto.",
        ),
    ] = ContainerKind.AUTO
    listen: Annotated[
        str,
        option(
            "ADDRESS[:PORT]",
            "Let other machines join at this address of this one (`swell node`); default port 7070. Default: "
            "none can join; '': none.",
            parse=_listen,
        ),
    ] = ""
    storage: Annotated[
        str,
        option(
            "FOLDER",
            "Keep code, checkpoints and logs of jobs in this folder, which all machines of the platform have "
            "at this path. Default: the state folder, which then is such a folder if other machines join.",
            parse=absolute_path,
        ),
    ] = ""
    backup_to: Annotated[
        str,
        option(
            "FOLDER",
            "Copy the state to this folder at an interval; on another machine's disk it survives the loss of "
            "this one (`swell restore FOLDER`). Default: none.",
            parse=absolute_path,
        ),
    ] = ""
    backup_every: Annotated[
        float,
        option(
            "DURATION", "Time between two copies of --backup-to. Default: 10m.", parse=_interval, is_rare=True
        ),
    ] = 600.0  #: seconds
    share: Annotated[
        str,
        option(
            "FOLDER",
            "Serve other users of this machine (`swell admin users`) at a socket in this folder, which is "
            "for members of the folder's group. Default: none.",
            parse=absolute_path,
        ),
    ] = ""
    workdirs: Annotated[
        tuple[str, ...],
        option(
            "FOLDER",
            "Folder in which users must have scripts and workdirs; may be repeated; '': any. Default: any.",
            parse=_folders,
        ),
    ] = ()
    engine: str = "local"  #: what brings machines; `cli.up` has its option
    engine_options: dict[str, OptionValue] = {}  #: those that are not as by default
    settings: dict[str, int | float | str] = {}  #: likewise, of `--set`

    def check(self) -> None:
        """Raises InvalidOption."""
        _ = (self.made_settings, self.made_engine)
        if self.backup_to and not Path(self.backup_to).parent.is_dir():
            raise InvalidOption(
                f"--backup-to {self.backup_to}: there is no folder {Path(self.backup_to).parent}; make it, "
                "mount its disk, or choose another folder"
            )

    @property
    def made_settings(self) -> Settings:
        return make_settings(self.settings)

    @property
    def made_engine(self) -> Engine:
        """What brings machines."""
        return make_engine(self.engine, self.engine_options, self.listen)

    @property
    def hosts_may_join(self) -> bool:
        return bool(self.made_engine.door_at(self.listen))
