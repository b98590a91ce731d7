"""What `swell up` starts the platform with: as said now, else as last time, else by default."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import structs

from swell.api.errors import InvalidOption
from swell.cli.up_options import UpOptions
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


#: What is remembered of an engine other than `local`.
OF_RAY = ("ray_address", "device_resource", "is_borrowed")
#: What is remembered, apart from settings.
NAMES = tuple(name for name in LastOptions.__struct_fields__ if name != "settings")

DEFAULTS = LastOptions(devices="auto", policy=DEFAULT_POLICY, preload=())


@dataclass(frozen=True, slots=True)
class Choice:
    """The options, and those of them that were not given this time: `--devices cpu:4` each."""

    options: LastOptions
    remembered: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """All of them, for a command line that is to remember nothing."""
        said = [word for pair in _words(self.options, _names(self.options.engine)) for word in pair]
        return [*said, *(word for text in ("", *_spelled(self.options)) for word in ("--set", text))]

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
        return self._address("listen", parse_address)

    @property
    def copy_to(self) -> str:
        """ADDRESS:PORT of the standby; empty: there is none. Raises InvalidOption: it is none."""
        return self._address("copy_to", parse_address)

    @property
    def advertise(self) -> str:
        """IP address for workers of hosts; empty: that of `listen`. Raises InvalidOption: it is none."""
        return self._address("advertise", check_address)

    def _address(self, name: str, parse: Callable[[str], object]) -> str:
        said = getattr(self.options, name)
        try:
            return str(parse(said)) if said else ""
        except InvalidAddress as error:
            raise InvalidOption(f"{_option(name)} {said}: {error}") from error

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
    option, _, value = said.partition(" ")
    if option in NAMED_WHOLE:
        return said in error
    name, sign, _ = value.partition("=")
    names = (name, name.rpartition(".")[2])  # of a setting, or a policy's parameter, that there is none of
    return (bool(value) and value in error) or (bool(sign) and any(repr(one) in error for one in names))


def choose(folder: StateFolder, said: UpOptions) -> Choice:
    """What was not said is as last time. An empty setting forgets those of last time.

    Raises:
        InvalidOption: a setting is none, or what was said is of another engine.
    """
    settings, chosen = said.set_ or (), _chosen(said.set_ or ())
    given = {name: _value(name, value) for name in NAMES if (value := _said(said, name)) is not None}
    is_complete = "" in settings and given.keys() >= {*NAMES} - {"engine", *OF_RAY}
    last = DEFAULTS if is_complete else _last(folder)
    engine = given.get("engine", last.engine)
    if engine == "local" and (idle := [_option(name) for name in OF_RAY if given.get(name, False)]):
        raise InvalidOption(f"{idle[0]} is about `--engine ray`: add that, or leave {idle[0]} out")
    if engine == "ray" and last.devices == DEFAULTS.devices:
        given.setdefault("devices", NONE)  # the head of a cluster need not be a machine that trains
    kept = {} if "" in settings else last.settings
    options = structs.replace(last, **given, settings={**kept, **chosen})
    unsaid = [name for name in _names(engine) if name not in given]
    changed = [name for name in unsaid if getattr(last, name) != getattr(DEFAULTS, name)]
    remembered = [" ".join(words) for words in _words(last, changed)]
    remembered += [f"--set {text}" for text in _spelled(options) if text.split("=")[0] not in chosen]
    return Choice(options, tuple(remembered))


def _said(said: UpOptions, name: str) -> Any:
    return getattr(said, _option(name).removeprefix("--").replace("-", "_"))


def _option(name: str) -> str:
    """The option by which something remembered is said."""
    return f"--{name.removeprefix('ray_').removeprefix('is_').replace('_', '-')}"


def _value(name: str, said: Any) -> Any:
    """What is remembered of a value that was said."""
    if name == "preload":
        return tuple(module for module in said if module)
    if name == "share" and said:
        return str(Path(said).expanduser().absolute())
    return (said or None) if name == "cores" else said


def _names(engine: str) -> list[str]:
    """What is said of a platform with this engine."""
    return [name for name in NAMES if engine == "ray" or name not in OF_RAY]


def _words(options: LastOptions, names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """How values are said on a command line."""
    for name in names:
        value = getattr(options, name)
        if name == "is_borrowed":
            yield ("--borrowed" if value else "--owned",)
        elif name == "cores":
            yield "--cores", repr(value or 0.0).removesuffix(".0")
        else:
            values = (value or ("",)) if isinstance(value, tuple) else (value,)
            yield from ((_option(name), one) for one in values)


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
