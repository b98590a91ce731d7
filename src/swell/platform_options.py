"""The options of a platform: those of `swell up`, which are remembered for the next start."""

from __future__ import annotations

from pathlib import Path

from swell.executors.engine import Engine, OptionValue
from swell.executors.engines import make_engine
from swell.executors.local.containers.engine import ContainerKind
from swell.executors.node.machine_options import MACHINE_OPTIONS, MachineOptions, absolute_path
from swell.executors.remote.host_address import parse_address
from swell.model.errors import InvalidOption
from swell.model.option import told_options
from swell.model.quantities import parse_duration, parse_half_life, span
from swell.settings import DEFAULT_POLICY, Settings, make_settings

#: Of `--serve`, where no port is named.
SERVE_PORT = 8443
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


def _serve(said: str) -> str:
    return str(parse_address(said, SERVE_PORT)) if said else ""


def _folders(said: list[str]) -> tuple[str, ...]:
    return tuple(absolute_path(folder) for folder in said if folder)


PLATFORM_OPTIONS = MACHINE_OPTIONS | told_options(
    """
policy: NAME
    Scheduling policy. Default: unified.
half_life: DURATION
    Time after which what a tenant, or a user without one, has used counts half: jobs without a promise go by
    it, those of the account that has used least first. Default: 0, they do not.
preload (rare): MODULE
    Module to import once for all workers before they start; may be repeated; '': none.
containers: PROGRAM
    What runs jobs that name an image: docker, podman, apptainer, off, or auto, which takes the first of these
    that is installed. Default: auto.
listen: ADDRESS[:PORT]
    Let other machines join at this address of this one (`swell node`); default port 7070. Default: none can
    join; '': none.
storage: FOLDER
    Keep code, checkpoints and logs of jobs in this folder, which all machines of the platform have at this
    path. Default: the state folder, which then is such a folder if other machines join.
backup_to: FOLDER
    Copy the state to this folder at an interval; on another machine's disk it survives the loss of this one
    (`swell restore FOLDER`). Default: none.
backup_every (rare): DURATION
    Time between two copies of --backup-to. Default: 10m.
share: FOLDER
    Serve other users of this machine (`swell admin users`) at a socket in this folder, which is for members
    of the folder's group. Default: none.
serve (rare): ADDRESS[:PORT]
    Serve users (`swell admin users`) on other machines over TLS at this address of this one (`swell login`);
    default port 8443. Default: none; '': none.
workdirs: FOLDER
    Folder in which users must have scripts and workdirs; may be repeated; '': any. Default: any.
accounts: GROUP
    Run jobs of members of this group of the machine as who submitted them, who need no token at --share:
    `sudo swell up`, with a state folder of another account than root. Default: all jobs run as the account of
    the platform; '': likewise.
""",
    preload=lambda modules: tuple(filter(None, modules)),
    half_life=parse_half_life,
    listen=_listen,
    storage=absolute_path,
    backup_to=absolute_path,
    backup_every=_interval,
    share=absolute_path,
    serve=_serve,
    workdirs=_folders,
)


class PlatformOptions(MachineOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a platform is started with, as it was said. A field is an option of the same name.

    The properties make something of it, and raise InvalidOption where it cannot be.
    """

    policy: str = DEFAULT_POLICY
    half_life: float = 0.0  #: seconds
    preload: tuple[str, ...] = ()
    containers: ContainerKind = ContainerKind.AUTO
    listen: str = ""
    storage: str = ""
    backup_to: str = ""
    backup_every: float = 600.0  #: seconds
    share: str = ""
    serve: str = ""
    workdirs: tuple[str, ...] = ()
    accounts: str = ""
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
        half_life = {"half_life_s": self.half_life} if self.half_life else {}
        return make_settings({**half_life, **self.settings})

    @property
    def made_engine(self) -> Engine:
        """What brings machines."""
        return make_engine(self.engine, self.engine_options, self.listen)

    @property
    def hosts_may_join(self) -> bool:
        return bool(self.made_engine.door_at(self.listen))
