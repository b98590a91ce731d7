"""What `swell up` starts the platform with: as said now, else as last time, else by default."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from swell.api.errors import InvalidOption
from swell.executors.local.containers.engine import ContainerChoice
from swell.executors.local.devices import NONE
from swell.executors.local.limits.limiter import CoreSharing
from swell.executors.ray.options import AUTO, InvalidResource, RayOptions, parse_resource
from swell.executors.remote.host_address import InvalidAddress, check_address, parse_address
from swell.model.share_mode import ShareMode
from swell.settings import DEFAULT_POLICY, InvalidSetting, Settings, make_settings, parse_setting, spell
from swell.store.errors import StateError
from swell.store.folder import LastOptions, StateFolder

#: Options that an error about them names together with their value.
NAMED_WHOLE = (
    *("--cores", "--cpu-shares", "--containers", "--listen", "--advertise"),
    *("--address", "--device-resource", "--share", "--copy-to"),
)
ENGINES = ("local", "ray")


@dataclass(frozen=True, slots=True)
class EngineWords:
    """What was said of what brings machines; None: nothing."""

    engine: str | None = None
    address: str | None = None
    device_resource: str | None = None
    borrowed: bool | None = None

    def over(self, last: LastOptions) -> LastOptions:
        """Those of last time, as far as nothing else was said."""
        return structs.replace(
            last,
            engine=last.engine if self.engine is None else self.engine,
            ray_address=last.ray_address if self.address is None else self.address,
            device_resource=last.device_resource if self.device_resource is None else self.device_resource,
            is_borrowed=last.is_borrowed if self.borrowed is None else self.borrowed,
        )

    def check(self, engine: str) -> None:
        """Raises InvalidOption: what was said is of another engine than this one."""
        said = {
            "--address": self.address,
            "--device-resource": self.device_resource,
            "--borrowed": self.borrowed,
        }
        idle = [name for name, value in said.items() if value not in (None, False)]
        if engine == "local" and idle:
            raise InvalidOption(f"{idle[0]} is about `--engine ray`: add that, or leave {idle[0]} out")

    def unsaid(self, last: LastOptions) -> list[str]:
        """What is as last time, and not by default."""
        if self.over(last).engine != "ray":
            return []
        unsaid = ["--engine ray"] if self.engine is None else []
        unsaid += [f"--address {last.ray_address}"] if self.address is None and last.ray_address else []
        if self.device_resource is None and last.device_resource:
            unsaid.append(f"--device-resource {last.device_resource}")
        return [*unsaid, *(["--borrowed"] if self.borrowed is None and last.is_borrowed else [])]


DEFAULTS = LastOptions(devices="auto", policy=DEFAULT_POLICY, preload=())


@dataclass(frozen=True, slots=True)
class Choice:
    """The options, and those of them that were not given this time: `--devices cpu:4` each."""

    options: LastOptions
    remembered: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """All of them, for a command line that is to remember nothing."""
        modules = self.options.preload or ("",)
        preload = [word for module in modules for word in ("--preload", module)]
        settings = [word for said in ("", *_spelled(self.options)) for word in ("--set", said)]
        names = ["--devices", self.options.devices, "--policy", self.options.policy]
        containers = ["--containers", self.containers.value]
        listen = ["--listen", self.options.listen, "--advertise", self.options.advertise]
        listen += ["--share", self.options.share, "--copy-to", self.options.copy_to]
        return [*names, *self.sharing.words, *containers, *listen, *self._engine_words, *preload, *settings]

    @property
    def _engine_words(self) -> list[str]:
        ray = self.ray
        if ray is None:
            return ["--engine", self.options.engine]
        words = ["--engine", "ray", "--address", ray.address, "--device-resource", str(ray.resource)]
        return [*words, "--borrowed" if ray.is_borrowed else "--owned"]

    @property
    def ray(self) -> RayOptions | None:
        """The cluster that brings hosts; None: people do. Raises InvalidOption: there is no such engine."""
        options = self.options
        if options.engine not in ENGINES:
            raise InvalidOption(f"--engine {options.engine}: choose from {', '.join(ENGINES)}")
        if options.engine != "ray":
            return None
        try:
            resource = parse_resource(options.device_resource or AUTO)
        except InvalidResource as error:
            raise InvalidOption(f"--device-resource {options.device_resource}: {error}") from error
        return RayOptions(
            address=options.ray_address or AUTO,
            resource=resource,
            is_borrowed=options.is_borrowed,
        )

    @property
    def sharing(self) -> CoreSharing:
        """How jobs share the cores. Raises InvalidOption: in no way that there is."""
        cores = self.options.cores
        if cores is not None and not math.isfinite(cores):
            raise InvalidOption(f"--cores {cores:g}: name a number of cores, or 0 for all of them")
        try:
            return CoreSharing(cores, ShareMode(self.options.cpu_shares))
        except ValueError as error:
            modes = ", ".join(ShareMode)
            raise InvalidOption(f"--cpu-shares {self.options.cpu_shares}: choose from {modes}") from error

    @property
    def containers(self) -> ContainerChoice:
        """Which program runs them. Raises InvalidOption: none that there is."""
        try:
            return ContainerChoice(self.options.containers)
        except ValueError as error:
            choices = ", ".join(ContainerChoice)
            raise InvalidOption(f"--containers {self.options.containers}: choose from {choices}") from error

    @property
    def listen(self) -> str:
        """ADDRESS:PORT at which hosts join; empty: none can. Raises InvalidOption: it is none."""
        said = self.options.listen
        try:
            return str(parse_address(said)) if said else ""
        except InvalidAddress as error:
            raise InvalidOption(f"--listen {said}: {error}") from error

    @property
    def copy_to(self) -> str:
        """ADDRESS:PORT of the standby; empty: there is none. Raises InvalidOption: it is none."""
        said = self.options.copy_to
        try:
            return str(parse_address(said)) if said else ""
        except InvalidAddress as error:
            raise InvalidOption(f"--copy-to {said}: {error}") from error

    @property
    def advertise(self) -> str:
        """IP address for workers of hosts; empty: that of `listen`. Raises InvalidOption: it is none."""
        said = self.options.advertise
        try:
            return check_address(said) if said else ""
        except InvalidAddress as error:
            raise InvalidOption(f"--advertise {said}: {error}") from error

    def settings(self) -> Settings:
        """Raises InvalidOption: they were remembered from another version, or do not fit together."""
        try:
            return make_settings(self.options.settings)
        except InvalidSetting as error:
            raise InvalidOption(f"--set: {error}") from error

    @contextmanager
    def explained(self) -> Iterator[None]:
        """An error about an option is a riddle to a user who did not give it."""
        try:
            yield
        except InvalidOption as error:
            guilty = [said for said in self.remembered if _is_about(str(error), said)]
            if not guilty:
                raise
            settings = [said for said in guilty if said.startswith("--set ")]
            remedy = "give it again, or forget all settings with `--set ''`" if settings else "give it again"
            raise InvalidOption(
                f"{error} ({', '.join(settings or guilty)} is from the last `swell up`; {remedy})"
            ) from error


def _is_about(error: str, said: str) -> bool:
    option, value = said.split(" ", 1)
    if option in NAMED_WHOLE:
        return said in error
    name, sign, _ = value.partition("=")
    names = (name, name.rpartition(".")[2])  # of a setting, or a policy's parameter, that there is none of
    return value in error or (bool(sign) and any(repr(one) in error for one in names))


def choose(
    folder: StateFolder,
    devices: str | None,
    policy: str | None,
    preload: Sequence[str] | None,
    settings: Sequence[str] | None,
    cores: float | None = None,
    cpu_shares: str | None = None,
    containers: str | None = None,
    listen: str | None = None,
    advertise: str | None = None,
    engine: EngineWords = EngineWords(),
    share: str | None = None,
    copy_to: str | None = None,
) -> Choice:
    """None: was not given. An empty setting forgets those of last time; no cores are all of them.

    Raises:
        InvalidOption: a setting is none.
    """
    settings, chosen = settings or (), _chosen(settings or ())
    given = (devices, policy, preload, cores, cpu_shares, containers, listen, advertise, share, copy_to)
    is_complete = None not in given and "" in settings
    last = DEFAULTS if is_complete else _last(folder)
    of_engine = engine.over(last)
    engine.check(of_engine.engine)
    if of_engine.engine == "ray" and devices is None and last.devices == DEFAULTS.devices:
        devices = NONE  # the head of a cluster need not be a machine that trains
    options = LastOptions(
        devices=last.devices if devices is None else devices,
        policy=last.policy if policy is None else policy,
        preload=last.preload if preload is None else tuple(module for module in preload if module),
        settings=chosen if "" in settings else {**last.settings, **chosen},
        cores=last.cores if cores is None else cores or None,
        cpu_shares=last.cpu_shares if cpu_shares is None else cpu_shares,
        containers=last.containers if containers is None else containers,
        listen=last.listen if listen is None else listen,
        advertise=last.advertise if advertise is None else advertise,
        share=last.share if share is None else _absolute(share),
        copy_to=last.copy_to if copy_to is None else copy_to,
        engine=of_engine.engine,
        ray_address=of_engine.ray_address,
        device_resource=of_engine.device_resource,
        is_borrowed=of_engine.is_borrowed,
    )
    remembered = engine.unsaid(last)
    if devices is None and last.devices != DEFAULTS.devices:
        remembered.append(f"--devices {last.devices}")
    if policy is None and last.policy != DEFAULTS.policy:
        remembered.append(f"--policy {last.policy}")
    if cores is None and last.cores is not None:
        remembered.append(f"--cores {last.cores:g}")
    if cpu_shares is None and last.cpu_shares != DEFAULTS.cpu_shares:
        remembered.append(f"--cpu-shares {last.cpu_shares}")
    if containers is None and last.containers != DEFAULTS.containers:
        remembered.append(f"--containers {last.containers}")
    if listen is None and last.listen:
        remembered.append(f"--listen {last.listen}")
    if advertise is None and last.advertise:
        remembered.append(f"--advertise {last.advertise}")
    if share is None and last.share:
        remembered.append(f"--share {last.share}")
    if copy_to is None and last.copy_to:
        remembered.append(f"--copy-to {last.copy_to}")
    if preload is None:
        remembered += [f"--preload {module}" for module in last.preload]
    remembered += [f"--set {said}" for said in _spelled(options) if said.split("=")[0] not in chosen]
    return Choice(options, tuple(remembered))


def _absolute(share: str) -> str:
    return str(Path(share).expanduser().absolute()) if share else ""


def _chosen(settings: Sequence[str]) -> dict[str, int | float]:
    try:
        return dict(parse_setting(text) for text in settings if text)
    except InvalidSetting as error:
        raise InvalidOption(f"--set: {error}") from error


def _spelled(options: LastOptions) -> list[str]:
    return [f"{name}={spell(value)}" for name, value in options.settings.items()]


def _last(folder: StateFolder) -> LastOptions:
    try:
        return folder.read_options() or DEFAULTS
    except StateError as error:
        print(f"swell: {error}; options that are not given are the defaults", file=sys.stderr)
        return DEFAULTS
