"""What `swell up` starts the platform with: as said now, else as last time, else by default."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import structs

from swell.api.durations import parse_duration
from swell.api.errors import InvalidOption
from swell.cli.up_options import UpOptions
from swell.executors.engine import Engine, InvalidEngine, OptionValue, words_of
from swell.executors.engines import ENGINES, engine_type, make_engine
from swell.executors.local.containers.engine import ContainerChoice
from swell.executors.local.engine import LocalEngine
from swell.executors.local.limits.limiter import CoreSharing
from swell.executors.remote.host_address import InvalidAddress, check_address, parse_address
from swell.model.lengths import span
from swell.model.share_mode import ShareMode
from swell.settings import DEFAULT_POLICY, InvalidSetting, Settings, make_settings, parse_setting, spell
from swell.store.errors import StateError
from swell.store.folder import LastOptions, StateFolder

#: Options that an error may name by their quoted value alone; all others it names together with it.
NAMED_BY_VALUE = ("--devices", "--policy", "--preload", "--engine")
#: A copy reads the whole state.
LEAST_BACKUP_S = 1.0
#: What is remembered, apart from settings and options of the engine.
NAMES = tuple(name for name in LastOptions.__struct_fields__ if name not in ("settings", "engine_options"))

DEFAULTS = LastOptions(devices="auto", policy=DEFAULT_POLICY, preload=())


@dataclass(frozen=True, slots=True)
class ChosenOptions:
    """The options, and those of them that were not given this time: `--devices cpu:4` each."""

    options: LastOptions
    remembered: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """All of them, for a command line that is to remember nothing."""
        options, kind = self.options, _engine_type(self.options.engine)
        said = [word for words in _words(options, NAMES) for word in words]
        given = options.engine_options.items()
        said += [word for option, value in given for word in words_of(kind, option, value)]
        return [*said, *(word for text in ("", *_spelled(options)) for word in ("--set", text))]

    @property
    def engine(self) -> Engine:
        """What brings machines. Raises InvalidOption: there is no such engine, or an option is wrong."""
        try:
            return make_engine(self.options.engine, self.options.engine_options, self.listen)
        except InvalidEngine as error:
            raise InvalidOption(str(error)) from error

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
    def advertise(self) -> str:
        """IP address for workers of hosts; empty: that of `listen`. Raises InvalidOption: it is none."""
        return self._address("advertise", check_address)

    @property
    def backup_to(self) -> Path | None:
        """Folder for copies. Raises InvalidOption: its parent is missing, or it is in the state folder."""
        said = self.options.backup_to
        if not said:
            return None
        if not Path(said).parent.is_dir():
            raise InvalidOption(
                f"--backup-to {said}: there is no folder {Path(said).parent}; make it, mount its disk, or "
                "choose another folder"
            )
        return Path(said)

    @property
    def backup_every_s(self) -> float:
        """Raises InvalidOption: it is no length of time, or too short."""
        said = self.options.backup_every
        try:
            every_s = parse_duration(said)
        except ValueError as error:
            raise InvalidOption(f"--backup-every: {error}") from error
        if every_s < LEAST_BACKUP_S:
            raise InvalidOption(
                f"--backup-every {said}: a copy reads the whole state, so the time between two is at least "
                f"{span(LEAST_BACKUP_S)}; name a longer one"
            )
        return every_s

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
            remedy = "give it again, or forget all settings with `--set ''`" if settings else "give another"
            verb = "is" if len(settings or guilty) == 1 else "are"
            raise InvalidOption(
                f"{error} ({', '.join(settings or guilty)} {verb} from the last `swell up`; {remedy})"
            ) from error


def _is_about(error: str, said: str) -> bool:
    option, _, value = said.partition(" ")
    if said in error:
        return True
    if option == "--set":
        name, _, _ = value.partition("=")
        names = (
            name,
            name.rpartition(".")[2],
        )  # a setting or a policy's parameter that does not exist
        return value in error or any(repr(one) in error for one in names)
    return option in NAMED_BY_VALUE and bool(value) and repr(value) in error


def choose(
    folder: StateFolder,
    said: UpOptions,
    of_engine: Mapping[str, OptionValue | None] = MappingProxyType({}),
) -> ChosenOptions:
    """What was not said is as last time. An empty setting forgets those of last time.

    Args:
        of_engine: options of any engine, by name; an empty text is the default.

    Raises:
        InvalidOption: a setting is none, or what was said is of another engine.
    """
    settings, chosen = said.set_ or (), _chosen(said.set_ or ())
    given = {name: _value(name, value) for name in NAMES if (value := getattr(said, name)) is not None}
    is_complete = "" in settings and given.keys() >= {*NAMES}
    last = DEFAULTS if is_complete else _last(folder)
    with ChosenOptions(last, () if "engine" in given else (f"--engine {last.engine}",)).explained():
        kind = _engine_type(given.get("engine", last.engine))
    of_this = _of_engine(kind, of_engine)
    of_last = last.engine_options if kind.name == last.engine else {}
    if last.devices == DEFAULTS.devices:
        given.setdefault("devices", kind.devices)
    options = structs.replace(
        last,
        **given,
        settings={**({} if "" in settings else last.settings), **chosen},
        engine_options={name: value for name, value in {**of_last, **of_this}.items() if value != ""},
    )
    unsaid = [name for name in NAMES if name not in given]
    changed = [name for name in unsaid if getattr(last, name) != getattr(DEFAULTS, name)]
    remembered = [" ".join(words) for words in _words(last, changed)]
    kept = {name: value for name, value in of_last.items() if name not in of_this}
    remembered += [" ".join(words_of(kind, name, value)) for name, value in kept.items()]
    remembered += [f"--set {text}" for text in _spelled(options) if text.split("=")[0] not in chosen]
    return ChosenOptions(options, tuple(remembered))


def _option(name: str) -> str:
    """The option by which something remembered is said."""
    return f"--{name.replace('_', '-')}"


def _engine_type(name: str) -> type[Engine]:
    """Raises InvalidOption."""
    try:
        return engine_type(name)
    except InvalidEngine as error:
        raise InvalidOption(str(error)) from error


def _of_engine(kind: type[Engine], of_engine: Mapping[str, OptionValue | None]) -> dict[str, OptionValue]:
    """Those that were given. Raises InvalidOption: one is another engine's."""
    given = {option: value for option, value in of_engine.items() if value is not None}
    for option in [option for option, value in given.items() if option not in kind.__struct_fields__]:
        value = given.pop(option)
        owners = [other for other in ENGINES.values() if option in other.__struct_fields__]
        flag = words_of(owners[0], option, value)[0]
        if value is not False:
            names = " or ".join(f"`--engine {owner.name}`" for owner in owners)
            raise InvalidOption(f"{flag} is about {names}: add that, or leave {flag} out")
    return given


def _value(name: str, said: Any) -> Any:
    """What is remembered of a value that was said."""
    if name == "preload":
        return tuple(module for module in said if module)
    if name in ("share", "backup_to") and said:
        return str(Path(said).expanduser().absolute())
    if name == "backup_every":
        return said or DEFAULTS.backup_every
    return (said or None) if name == "cores" else said


def _words(options: LastOptions, names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """How values are said on a command line."""
    for name in names:
        value = getattr(options, name)
        if name == "cores":
            yield "--cores", repr(value or 0.0).removesuffix(".0")
        else:
            values = (value or ("",)) if isinstance(value, tuple) else (value,)
            yield from ((_option(name), one) for one in values)


def _chosen(settings: Sequence[str]) -> dict[str, int | float | str]:
    try:
        return dict(parse_setting(text) for text in settings if text)
    except InvalidSetting as error:
        raise InvalidOption(f"--set: {error}") from error


def _spelled(options: LastOptions) -> list[str]:
    return [f"{name}={spell(value)}" for name, value in options.settings.items()]


def _last(folder: StateFolder) -> LastOptions:
    try:
        last = folder.read_options() or DEFAULTS
        kind = ENGINES.get(last.engine, LocalEngine)
        known = kind.renamed(last.engine_options)
        if strange := known.keys() - set(kind.__struct_fields__) if last.engine in ENGINES else ():
            raise StateError(f"{folder.options} has {min(strange)!r}, which this version does not know")
        return structs.replace(last, engine_options=known)
    except StateError as error:
        print(f"swell: {error}; options that are not given are the defaults", file=sys.stderr)
        return DEFAULTS
